//! Vector clocks: what a thread knows to have happened (PTX ISA, "Memory Consistency Model", causality order).
//!
//! A component is a thread of the CTA, or a *slot* of the asynchronous operations (see `engine`). Beside what is known,
//! a clock says what is known to lie behind a proxy fence of the thread that did it ("Proxy-preserved base causality
//! order"): the fence on the generic side counts, not one on the other, as every library does it.

/// No slot: a generic access by threads.
const GENERIC: u16 = u16::MAX;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// All lanes of a warp.
pub(crate) const ALL: u32 = u32::MAX;

/// What is known of the CTA's threads and slots.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Clock {
    /// By thread: everything up to this time has happened.
    pub known: Vec<u32>,
    /// By thread: generic accesses up to this time lie behind its proxy fence.
    pub fenced: Vec<u32>,
    /// By slot: everything up to this time is complete.
    pub done: Vec<u32>,
    /// The same of other CTAs: their number, their threads, their slots.
    pub others: Vec<(u32, Vec<u32>, Vec<u32>)>,
}

/// Which lanes did something, when, and through which proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Time of the warp, or of the slot; 0 is never.
    pub time: u32,
    /// The lanes, of a generic access.
    pub lanes: u32,
    /// The instruction.
    pub pc: u32,
    /// The warp that did it or issued it.
    pub warp: u16,
    slot: u16,
}

fn join_into(into: &mut Vec<u32>, from: &[u32]) {
    if into.len() < from.len() {
        into.resize(from.len(), 0);
    }
    for (a, &b) in into.iter_mut().zip(from) {
        *a = (*a).max(b);
    }
}

impl Clock {
    /// A clock that knows nothing of so many threads.
    pub fn new(threads: usize) -> Clock {
        Clock { known: vec![0; threads], fenced: vec![0; threads], ..Clock::default() }
    }

    /// Knows what either knew.
    pub fn join(&mut self, other: &Clock) {
        join_into(&mut self.known, &other.known);
        join_into(&mut self.fenced, &other.fenced);
        join_into(&mut self.done, &other.done);
        for (cta, known, done) in &other.others {
            self.join_other(*cta, known, done);
        }
    }

    /// Knows what both knew.
    pub fn meet(&mut self, other: &Clock) {
        let lower = |own: &mut Vec<u32>, other: &[u32]| {
            own.truncate(other.len());
            own.iter_mut().zip(other).for_each(|(a, &b)| *a = (*a).min(b));
        };
        lower(&mut self.known, &other.known);
        lower(&mut self.fenced, &other.fenced);
        lower(&mut self.done, &other.done);
        self.others.retain_mut(|(cta, known, done)| match other.others.iter().find(|(c, ..)| c == cta) {
            Some((_, k, d)) => {
                lower(known, k);
                lower(done, d);
                true
            }
            None => false,
        });
    }

    /// Learns what is known of another CTA.
    pub fn join_other(&mut self, cta: u32, known: &[u32], done: &[u32]) {
        match self.others.iter_mut().find(|(c, ..)| *c == cta) {
            Some((_, k, d)) => {
                join_into(k, known);
                join_into(d, done);
            }
            None => self.others.push((cta, known.to_vec(), done.to_vec())),
        }
    }

    /// Learns that a slot has come to that time.
    pub fn finish(&mut self, slot: usize, time: u32) {
        if self.done.len() <= slot {
            self.done.resize(slot + 1, 0);
        }
        self.done[slot] = self.done[slot].max(time);
    }

    /// The time of a slot that is known.
    pub fn slot(&self, slot: usize) -> u32 {
        self.done.get(slot).copied().unwrap_or(0)
    }

    /// The time of another CTA's slot or thread that is known.
    fn other(&self, cta: u32) -> (&[u32], &[u32]) {
        self.others.iter().find(|(c, ..)| *c == cta).map_or((&[], &[]), |(_, k, d)| (k, d))
    }
}

fn lanes_reached(times: &[u32], stamp: &Stamp, lanes: u32) -> bool {
    let first = usize::from(stamp.warp) * LANES;
    let Some(times) = times.get(first..first + LANES) else { return lanes == 0 };
    if lanes == ALL {
        return times.iter().all(|&t| t >= stamp.time);
    }
    times.iter().enumerate().all(|(l, &t)| lanes >> l & 1 == 0 || t >= stamp.time)
}

impl Stamp {
    /// Nothing yet.
    pub const NEVER: Stamp = Stamp { time: 0, lanes: 0, pc: 0, warp: 0, slot: GENERIC };

    /// A generic access.
    pub fn generic(warp: usize, lanes: u32, time: u32, pc: usize) -> Stamp {
        Stamp { time, lanes, pc: pc as u32, warp: warp as u16, slot: GENERIC }
    }

    /// An access of an asynchronous operation.
    pub fn asynchronous(warp: usize, slot: usize, time: u32, pc: usize) -> Stamp {
        Stamp { time, lanes: 0, pc: pc as u32, warp: warp as u16, slot: slot as u16 }
    }

    /// Through the async proxy.
    pub fn is_async(&self) -> bool {
        self.slot != GENERIC
    }

    /// Did not happen.
    pub fn is_never(&self) -> bool {
        self.time == 0
    }

    /// Happened before whoever has this clock; `own` are lanes of the same warp whose program order covers it.
    pub fn before(&self, clock: &Clock, own: Option<(usize, u32)>) -> bool {
        if self.is_never() {
            return true;
        }
        if self.is_async() {
            return clock.slot(usize::from(self.slot)) >= self.time;
        }
        lanes_reached(&clock.known, self, self.lanes & !own_lanes(self, own))
    }

    /// Happened before, and is visible to the async proxy.
    pub fn before_async(&self, clock: &Clock) -> bool {
        self.is_async() && self.before(clock, None) || lanes_reached(&clock.fenced, self, self.lanes)
    }

    /// Happened in another CTA before whoever has this clock.
    pub fn before_elsewhere(&self, cta: u32, clock: &Clock) -> bool {
        let (known, done) = clock.other(cta);
        match self.is_async() {
            true => done.get(usize::from(self.slot)).is_some_and(|&t| t >= self.time),
            false => lanes_reached(known, self, self.lanes),
        }
    }

    /// Is the same access, by other lanes perhaps.
    pub fn same_access(&self, other: &Stamp) -> bool {
        (self.warp, self.slot, self.time, self.pc) == (other.warp, other.slot, other.time, other.pc)
    }
}

fn own_lanes(stamp: &Stamp, own: Option<(usize, u32)>) -> u32 {
    own.filter(|(warp, _)| *warp == usize::from(stamp.warp)).map_or(0, |(_, lanes)| lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_ordered_by_what_was_published_and_fenced() {
        let mut clock = Clock::new(64);
        let write = Stamp::generic(1, 0b11, 5, 0);
        assert!(!write.before(&clock, None));
        assert!(write.before(&clock, Some((1, 0b11))), "program order");
        assert!(!write.before(&clock, Some((1, 0b01))), "another lane");
        clock.known[32] = 5;
        clock.known[33] = 6;
        assert!(write.before(&clock, None));
        assert!(!write.before_async(&clock), "no proxy fence");
        clock.fenced[32] = 5;
        clock.fenced[33] = 5;
        assert!(write.before_async(&clock));
    }

    #[test]
    fn an_asynchronous_operation_is_ordered_by_its_slot() {
        let mut clock = Clock::new(32);
        let copy = Stamp::asynchronous(0, 3, 2, 0);
        clock.finish(3, 1);
        assert!(!copy.before(&clock, Some((0, ALL))));
        let mut other = Clock::new(32);
        other.finish(3, 2);
        clock.join(&other);
        assert!(copy.before(&clock, None) && copy.before_async(&clock));
    }
}
