//! What runs beside the warps: copies and products between their issue and their end (PTX ISA, "Asynchronous Operations",
//! "Async proxy"; "wgmma.mma_async").
//!
//! An operation holds what its issuer knew. It accesses memory when the adversary lets it, as a *slot* of the clocks;
//! others learn of its end by a barrier or a wait. A slot is taken again only by an issuer who knows that the slot's
//! earlier operations are complete, so that a later time of a slot implies the earlier ones.

use std::collections::HashMap;

use crate::adversary::{Adversary, Question};
use crate::clock::Clock;

/// Delays that the adversary has, in steps of the scheduler; the first is "at once", the second "as late as possible".
const DELAYS: [u64; 6] = [0, 0, 1, 4, 16, 64];

/// An operation in flight.
#[derive(Debug)]
pub(crate) struct Op {
    /// The step at which it completes; none: as late as possible.
    pub due: Option<u64>,
    pub warp: usize,
    pub pc: usize,
    /// What its issuer knew.
    pub clock: Clock,
    pub slot: usize,
    pub time: u32,
    /// When it was issued, by the clock of the timeline.
    pub issued: u64,
    pub what: What,
}

/// What an operation does.
#[derive(Debug)]
pub(crate) enum What {
    Load { tensor: usize, coords: Vec<i32>, to: u32, barrier: u32, phase: u64, row: u32 },
    Store { tensor: usize, coords: Vec<i32>, from: u32, group: u64, data: Option<Vec<u8>> },
    Product { sequence: u64, group: u64, a: u64, b: u64, keep: bool },
}

/// A component of the clocks for operations.
#[derive(Debug)]
struct Slot {
    last: u32,
    /// The time that somebody must know of before the CTA ends.
    must: u32,
    warp: usize,
    pc: usize,
}

/// Loads of a thread for one phase of a barrier share a slot.
type Phase = (u32, u64, usize, usize);

/// What the warps of a warpgroup agree on, for each product: its instruction, its descriptors, and how many came.
type Agreed = (usize, u64, u64, u32);

/// The operations of a CTA.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub pending: Vec<Op>,
    /// Steps of the scheduler.
    pub step: u64,
    slots: Vec<Slot>,
    phases: Vec<(Phase, usize, u32)>,
    groups: HashMap<(usize, u64), (usize, u32, u32)>,
    agreed: HashMap<(usize, u64), Agreed>,
    /// By tensor core: when it is free, by the clock of the timeline.
    pub free: [u64; 4],
}

impl Engine {
    /// A slot for an operation of an issuer with that clock, and the time at which it is complete. It passes `moments`
    /// times; somebody must know of the first before the CTA ends.
    pub fn allocate(&mut self, clock: &Clock, moments: u32, warp: usize, pc: usize) -> (usize, u32) {
        let free = self.slots.iter().enumerate().position(|(i, s)| s.last <= clock.slot(i));
        let slot = free.unwrap_or_else(|| {
            self.slots.push(Slot { last: 0, must: 0, warp, pc });
            self.slots.len() - 1
        });
        let own = &mut self.slots[slot];
        let time = own.last + 1;
        *own = Slot { last: own.last + moments, must: time, warp, pc };
        (slot, time)
    }

    /// The slot of a thread's loads for a phase of a barrier.
    pub fn slot_of_phase(&mut self, phase: Phase, clock: &Clock, pc: usize) -> (usize, u32) {
        if let Some((_, slot, time)) = self.phases.iter().find(|(p, ..)| *p == phase) {
            return (*slot, *time);
        }
        let (slot, time) = self.allocate(clock, 1, phase.2, pc);
        // A barrier's earlier phases are over.
        self.phases.retain(|(p, ..)| (p.0, p.2, p.3) != (phase.0, phase.2, phase.3));
        self.phases.push((phase, slot, time));
        (slot, time)
    }

    /// The slot of a warpgroup's group of products: the four warps share it.
    pub fn slot_of_group(&mut self, group: (usize, u64), clock: &Clock, warp: usize, pc: usize) -> (usize, u32) {
        let (slot, time, came) = match self.groups.remove(&group) {
            Some(shared) => shared,
            None => {
                let (slot, time) = self.allocate(clock, 1, warp, pc);
                (slot, time, 0)
            }
        };
        if came < 3 {
            self.groups.insert(group, (slot, time, came + 1));
        }
        (slot, time)
    }

    /// When an operation is to complete: at once, at a step, or as late as possible.
    pub fn delay(&self, adversary: &mut Adversary) -> Option<u64> {
        match adversary.choose(Question::Delay, DELAYS.len() as u32) {
            1 => None,
            n => Some(self.step + DELAYS[n as usize]),
        }
    }

    /// The first operation whose end nobody knows of, by what those who left knew.
    pub fn undrained(&self, left: &Clock) -> Option<(usize, usize)> {
        let open = self.slots.iter().enumerate().find(|(i, s)| left.slot(*i) < s.must);
        open.map(|(_, s)| (s.warp, s.pc))
    }

    /// A warp of a warpgroup comes to its product number `sequence`; false if the others had another one there.
    pub fn agree(&mut self, warpgroup: usize, sequence: u64, product: (usize, u64, u64)) -> bool {
        let (pc, a, b) = product;
        let agreed = self.agreed.entry((warpgroup, sequence)).or_insert((pc, a, b, 0));
        let same = (agreed.0, agreed.1, agreed.2) == product;
        agreed.3 += 1;
        if agreed.3 == 4 {
            self.agreed.remove(&(warpgroup, sequence));
        }
        same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_taken_again_only_by_who_knows_its_end() {
        let mut engine = Engine::default();
        let mut clock = Clock::new(32);
        assert_eq!(engine.allocate(&clock, 2, 0, 0), (0, 1));
        assert_eq!(engine.allocate(&clock, 1, 0, 0), (1, 1));
        clock.finish(0, 1);
        assert_eq!(engine.allocate(&clock, 1, 0, 0), (2, 1), "the slot passes two times");
        clock.finish(0, 2);
        assert_eq!(engine.allocate(&clock, 1, 0, 0), (0, 3));
        assert_eq!(engine.undrained(&clock), Some((0, 0)));
    }

    #[test]
    fn loads_of_a_phase_share_a_slot() {
        let mut engine = Engine::default();
        let clock = Clock::new(32);
        let first = engine.slot_of_phase((1024, 0, 0, 3), &clock, 0);
        assert_eq!(engine.slot_of_phase((1024, 0, 0, 3), &clock, 0), first);
        assert_ne!(engine.slot_of_phase((1024, 1, 0, 3), &clock, 0), first);
    }
}
