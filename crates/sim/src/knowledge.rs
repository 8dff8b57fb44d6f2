//! What the lanes of a warp know: one clock for all, and clocks of their own for lanes that learned something alone
//! (PTX ISA, "bar.warp.sync" orders the lanes' accesses; `shfl`, `vote` and convergence do not).

use crate::clock::{ALL, Clock, LANES};

/// The clocks of a warp.
#[derive(Debug)]
pub(crate) struct Knowledge {
    warp: usize,
    /// Stamped on accesses; moves on whenever something is released.
    pub time: u32,
    /// By lane: its accesses up to this time lie behind its proxy fence.
    fenced: [u32; LANES],
    base: Clock,
    own: [Option<Box<Clock>>; LANES],
    forked: u32,
    /// By lane: what it knew at its last fence at GPU scope, and what it will know at the next one.
    released: [Option<Box<Clock>>; LANES],
    pending: [Option<Box<Clock>>; LANES],
}

/// The lanes of a mask.
pub(crate) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
        rest &= rest - 1;
        Some(lane)
    })
}

impl Knowledge {
    pub fn new(warp: usize, threads: usize) -> Knowledge {
        Knowledge {
            warp,
            time: 1,
            fenced: [0; LANES],
            base: Clock::new(threads),
            own: [const { None }; LANES],
            forked: 0,
            released: [const { None }; LANES],
            pending: [const { None }; LANES],
        }
    }

    /// What every lane knows, without what they did since they last met; `settle` comes first.
    pub fn all(&self) -> &Clock {
        &self.base
    }

    /// Finds what all lanes know after each learned it for itself.
    pub fn settle(&mut self, live: u32) {
        if self.forked & live != live {
            return;
        }
        let mut lanes = lanes_of(live).filter_map(|l| self.own[l].as_deref());
        let Some(first) = lanes.next() else { return };
        let mut common = first.clone();
        lanes.for_each(|clock| common.meet(clock));
        self.base = common;
    }

    /// What a lane knows, without its own.
    pub fn of(&self, lane: usize) -> &Clock {
        self.own[lane].as_deref().unwrap_or(&self.base)
    }

    /// What a lane knows, its own doings included.
    pub fn snapshot(&self, lane: usize) -> Clock {
        let mut clock = self.of(lane).clone();
        self.add_own(&mut clock, 1 << lane);
        clock
    }

    /// Adds the lanes' own doings.
    fn add_own(&self, clock: &mut Clock, lanes: u32) {
        let first = self.warp * LANES;
        for lane in lanes_of(lanes) {
            clock.known[first + lane] = self.time;
            clock.fenced[first + lane] = self.fenced[lane];
        }
    }

    /// Adds what the lanes know and did, and lets time move on.
    pub fn publish(&mut self, lanes: u32, into: &mut Clock) {
        if lanes & !self.forked != 0 {
            into.join(&self.base);
        }
        for lane in lanes_of(lanes & self.forked) {
            into.join(self.of(lane));
        }
        self.add_own(into, lanes);
        self.time += 1;
    }

    /// The lanes learn something.
    pub fn acquire(&mut self, lanes: u32, live: u32, clock: &Clock) {
        if lanes & live == live {
            self.base.join(clock);
            for own in self.own.iter_mut().flatten() {
                own.join(clock);
            }
            return;
        }
        for lane in lanes_of(lanes) {
            let own = self.own[lane].get_or_insert_with(|| Box::new(self.base.clone()));
            own.join(clock);
            self.forked |= 1 << lane;
        }
    }

    /// The lanes learn that a slot has come to that time.
    pub fn finish(&mut self, lanes: u32, live: u32, slot: usize, time: u32) {
        let mut clock = Clock::default();
        clock.finish(slot, time);
        self.acquire(lanes, live, &clock);
    }

    /// The lanes meet: each knows what the others know and did.
    pub fn sync(&mut self, lanes: u32, live: u32) {
        let mut met = Clock::default();
        self.publish(lanes, &mut met);
        if lanes & live == live {
            self.base = met;
            self.own = [const { None }; LANES];
            self.forked = 0;
        } else {
            self.acquire(lanes, ALL, &met);
        }
    }

    /// All lanes meet at a barrier that gathered this, their own publications among it.
    pub fn meet(&mut self, clock: &Clock) {
        self.base.join(clock);
        self.own = [const { None }; LANES];
        self.forked = 0;
    }

    /// The lanes' accesses so far come before what the async proxy does after them.
    pub fn fence_async(&mut self, lanes: u32) {
        lanes_of(lanes).for_each(|l| self.fenced[l] = self.time);
        self.time += 1;
    }

    /// A fence at GPU scope: what was known before it is released by atomics after it, what atomics before it saw is
    /// known after it (PTX ISA, "Release and Acquire Patterns").
    pub fn fence_gpu(&mut self, lanes: u32, live: u32) {
        for lane in lanes_of(lanes) {
            if let Some(pending) = self.pending[lane].take() {
                self.acquire(1 << lane, live, &pending);
            }
            self.released[lane] = Some(Box::new(self.snapshot(lane)));
        }
        self.time += 1;
    }

    /// What an atomic of a lane releases.
    pub fn released(&self, lane: usize) -> Option<&Clock> {
        self.released[lane].as_deref()
    }

    /// An atomic of a lane read what this was released with.
    pub fn observe(&mut self, lane: usize, clock: &Clock) {
        self.pending[lane].get_or_insert_default().join(clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stamp;

    #[test]
    fn a_leader_releases_the_warp_only_after_it_met_the_others() {
        let mut warp = Knowledge::new(0, 64);
        let by_lane_3 = Stamp::generic(0, 1 << 3, warp.time, 0);
        let mut alone = Clock::new(64);
        warp.publish(1, &mut alone);
        assert!(!by_lane_3.before(&alone, None));
        warp.sync(ALL, ALL);
        let mut together = Clock::new(64);
        warp.publish(1, &mut together);
        assert!(by_lane_3.before(&together, None));
    }

    #[test]
    fn what_each_lane_learns_for_itself_all_of_them_know() {
        let mut warp = Knowledge::new(0, 32);
        warp.finish(1, ALL, 2, 7);
        warp.finish(!1, ALL, 2, 8);
        warp.settle(ALL);
        assert_eq!(warp.all().slot(2), 7);
    }

    #[test]
    fn what_one_lane_learns_the_others_learn_when_they_meet() {
        let mut warp = Knowledge::new(0, 32);
        warp.finish(1 << 4, ALL, 2, 7);
        assert_eq!((warp.of(4).slot(2), warp.of(5).slot(2), warp.all().slot(2)), (7, 0, 0));
        warp.sync(ALL, ALL);
        assert_eq!(warp.all().slot(2), 7);
    }
}
