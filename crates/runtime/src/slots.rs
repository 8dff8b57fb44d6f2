//! Which tile counters a launch gets: bookkeeping only, no memory.
//!
//! A kernel with a dynamic grid counts tiles in a 32-bit word that it leaves at zero when it ends. So a word must be
//! zero once, and two launches that may run at the same time must not share one. Launches of one stream run one after
//! another and share the stream's word; a launch recorded by a capture runs whenever its graph does, so that it gets a
//! word of its own that is never given out again.
//!
//! A launch that counts more than its tiles gets as many words side by side as it asks for.

use std::collections::HashMap;

/// Distance of two counters in bytes: no two in one L2 sector pair, and a round number of cache lines.
pub(crate) const SPACING: u64 = 64;

/// Counters of one piece of device memory.
pub(crate) const POOL: usize = 4096;

/// The counters there are, and who has which.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Base addresses of the pools.
    pools: Vec<u64>,
    /// Counters given out so far; they are given out in order and never come back.
    used: usize,
    /// The counters of each stream, the first one's address and their bytes, by the driver's number for it, which no other
    /// stream of the process ever has.
    streams: HashMap<u64, (u64, u64)>,
}

impl Slots {
    /// Adds a pool of [`POOL`] zeroed counters.
    pub(crate) fn add(&mut self, base: u64) {
        self.pools.push(base);
    }

    /// Counters in all.
    pub(crate) fn capacity(&self) -> usize {
        self.pools.len() * POOL
    }

    /// Counters that are not given out yet.
    pub(crate) fn free(&self) -> usize {
        self.capacity() - self.used
    }

    /// Base addresses of the pools.
    pub(crate) fn pools(&self) -> &[u64] {
        &self.pools
    }

    /// The stream's counters, if it has so many bytes of them.
    pub(crate) fn of_stream(&self, id: u64, bytes: u64) -> Option<u64> {
        self.streams.get(&id).filter(|(_, there)| *there >= bytes).map(|&(slot, _)| slot)
    }

    /// So many bytes of counters that nobody has or will have; none when too few are left, or for more than a pool.
    pub(crate) fn fresh(&mut self, bytes: u64) -> Option<u64> {
        let count = bytes.div_ceil(SPACING).max(1) as usize;
        let left = POOL - self.used % POOL;
        // Side by side is in one pool.
        let first = if count > left { self.used + left } else { self.used };
        let base = *self.pools.get(first / POOL).filter(|_| count <= POOL)?;
        self.used = first + count;
        Some(base + (first % POOL) as u64 * SPACING)
    }

    /// So many bytes of fresh counters that are the stream's from now on.
    pub(crate) fn give(&mut self, id: u64, bytes: u64) -> Option<u64> {
        let slot = self.fresh(bytes)?;
        self.streams.insert(id, (slot, bytes));
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_stream_keeps_its_counter_and_shares_it_with_none() {
        let mut slots = Slots::default();
        slots.add(0x1000);
        let a = slots.give(1, 4).expect("room");
        let b = slots.give(2, 4).expect("room");
        assert_ne!(a, b);
        let of = |slots: &Slots, id| slots.of_stream(id, 4);
        assert_eq!((of(&slots, 1), of(&slots, 2), of(&slots, 3)), (Some(a), Some(b), None));
    }

    #[test]
    fn counters_of_one_launch_lie_side_by_side_and_apart_from_others() {
        let mut slots = Slots::default();
        slots.add(0x10_0000);
        slots.add(0x90_0000);
        let one = slots.give(1, 4).expect("room");
        assert_eq!(slots.of_stream(1, 200), None, "too few");
        let four = slots.give(1, 200).expect("room");
        assert_eq!((four, slots.of_stream(1, 200), slots.of_stream(1, 4)), (one + SPACING, Some(four), Some(four)));
        assert_eq!(slots.fresh(4), Some(four + 4 * SPACING));
        let pool = POOL as u64 * SPACING;
        assert_eq!(slots.fresh(pool + 1), None, "more than a pool");
        assert_eq!(slots.fresh(pool), Some(0x90_0000), "not across two pools");
        assert_eq!((slots.fresh(4), slots.free()), (None, 0));
    }

    #[test]
    fn fresh_counters_never_repeat_and_end() {
        let mut slots = Slots::default();
        assert_eq!(slots.fresh(4), None);
        slots.add(0x10_0000);
        slots.add(0x90_0000);
        let all: HashSet<u64> = std::iter::from_fn(|| slots.fresh(4)).collect();
        assert_eq!((all.len(), slots.free()), (2 * POOL, 0));
        assert!(all.iter().all(|slot| slot.is_multiple_of(SPACING)));
        let last = 0x90_0000 + (POOL as u64 - 1) * SPACING;
        assert!(all.contains(&0x10_0000) && all.contains(&last) && !all.contains(&(last + SPACING)));
    }
}
