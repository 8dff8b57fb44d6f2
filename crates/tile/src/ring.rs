//! A ring of shared tiles between a producer and consumers: full and empty barriers, stages and phases.
//!
//! An mbarrier completes a phase when its arrivals and its transaction bytes are in, and a wait names the parity of the
//! phase it waits for. A fresh barrier is in phase 0, and a wait for parity 1 passes at once; so the producer's
//! end starts at parity 1 (every slot is free) and a consumer's at parity 0 (PTX ISA, "mbarrier").

use ptx::qual::{Bits, Cmp, Int, Num, Value};
use ptx::{Operand, Pred, R32, op};

use crate::asm::Asm;
use crate::layout::Layout;

/// The barriers of a ring.
#[derive(Debug, Clone)]
pub struct Ring {
    name: String,
    stages: u32,
    full: u32,
    empty: u32,
    full_arrivals: u32,
    empty_arrivals: u32,
}

/// One side's place in the ring, carried through its loops.
#[derive(Debug, Clone, Copy)]
pub struct End {
    stage: Option<R32>,
    phase: R32,
}

impl End {
    /// A producer's end of a ring of one stage: the first wait passes at once.
    pub(crate) fn open(asm: &mut Asm) -> End {
        End { stage: None, phase: asm.b32(|d| op::mov(Value::B32, d, 1)) }
    }

    /// A place at the first of `stages` stages.
    pub(crate) fn start(asm: &mut Asm, stages: u32, phase: u32) -> End {
        let stage = (stages > 1).then(|| asm.b32(|d| op::mov(Value::B32, d, 0)));
        End { stage, phase: asm.b32(|d| op::mov(Value::B32, d, phase)) }
    }

    /// Moves to the next of `stages` stages; the parity turns over when all have been gone through.
    pub(crate) fn advance(&self, asm: &mut Asm, stages: u32) {
        let Some(stage) = self.stage else { return self.turn(asm) };
        asm.emit(op::add(Int::U32, stage, stage, 1));
        let round = asm.compare(Cmp::Eq, Num::U32, stage, stages);
        asm.emit(op::selp(Value::B32, stage, 0, stage, round));
        let turned = asm.b32(|d| op::xor(Bits::B32, d, self.phase, 1));
        asm.emit(op::selp(Value::B32, self.phase, turned, self.phase, round));
    }

    /// The parity that is waited for next.
    pub(crate) fn phase(&self) -> R32 {
        self.phase
    }

    /// Turns the parity over.
    pub(crate) fn turn(&self, asm: &mut Asm) {
        asm.emit(op::xor(Bits::B32, self.phase, self.phase, 1));
    }

    /// The end of the other side, or of a ring that goes round with this one, at the same stage: a producer's where this
    /// is a consumer's. It is not advanced itself.
    pub fn opposite(&self, asm: &mut Asm) -> End {
        End { stage: self.stage, phase: asm.b32(|d| op::xor(Bits::B32, d, self.phase, 1)) }
    }

    /// The place so many of `stages` stages further on, at most once round.
    fn ahead(&self, asm: &mut Asm, stages: u32, by: Operand) -> End {
        let Some(stage) = self.stage else { return *self };
        let far = asm.b32(|d| op::add(Int::U32, d, stage, by));
        let round = asm.compare(Cmp::Ge, Num::U32, far, stages);
        let near = asm.b32(|d| op::sub(Int::U32, d, far, stages));
        let turned = asm.b32(|d| op::xor(Bits::B32, d, self.phase, 1));
        let stage = asm.b32(|d| op::selp(Value::B32, d, near, far, round));
        End { stage: Some(stage), phase: asm.b32(|d| op::selp(Value::B32, d, turned, self.phase, round)) }
    }

    /// The stage that comes next; none if the ring has only one.
    pub fn stage(&self) -> Option<R32> {
        self.stage
    }
}

/// The barriers of one stage.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    base: R32,
}

impl Ring {
    /// A ring whose full barriers take one arrival of the producer and whose empty barriers take `releases`.
    pub fn new(layout: &mut Layout, name: &str, stages: u32, releases: u32) -> Ring {
        Ring::filled_by(layout, name, stages, 1, releases)
    }

    /// A ring whose full barriers take so many arrivals of warps that fill a slot together.
    pub fn filled_by(layout: &mut Layout, name: &str, stages: u32, arrivals: u32, releases: u32) -> Ring {
        let full = layout.barriers(&format!("{name}.full"), stages, arrivals);
        let empty = layout.barriers(&format!("{name}.empty"), stages, releases);
        Ring { name: name.to_owned(), stages, full, empty, full_arrivals: arrivals, empty_arrivals: releases }
    }

    /// Initialises the barriers; one thread, before the CTA's first barrier.
    pub fn init(&self, asm: &mut Asm, smem: R32) {
        for (offset, arrivals) in [(self.full, self.full_arrivals), (self.empty, self.empty_arrivals)] {
            for stage in 0..self.stages {
                asm.emit(op::mbarrier_init(Operand::at(smem, (offset + 8 * stage) as i32), arrivals));
            }
        }
    }

    /// The producer's end: every slot is free.
    pub fn producer(&self, asm: &mut Asm) -> End {
        End::start(asm, self.stages, 1)
    }

    /// A consumer's end: no slot is full.
    pub fn consumer(&self, asm: &mut Asm) -> End {
        End::start(asm, self.stages, 0)
    }

    /// The barriers of the stage that comes next.
    pub fn slot(&self, asm: &mut Asm, smem: R32, end: &End) -> Slot {
        Slot { base: asm.indexed(smem, end.stage, 8) }
    }

    /// Producer: waits until the slot is free.
    pub fn acquire(&self, asm: &mut Asm, smem: R32, end: &End) -> Slot {
        let slot = self.slot(asm, smem, end);
        self.wait(asm, slot, self.empty, end.phase, "EMPTY");
        slot
    }

    /// Producer: says how many bytes its copies into the slot will move, and arrives.
    pub fn expect(&self, asm: &mut Asm, slot: Slot, bytes: u32) {
        asm.emit(op::mbarrier_expect_tx(Operand::Sink, self.full(slot), bytes));
    }

    /// Producer: arrives without copies (what it stored itself is what the slot holds).
    pub fn publish(&self, asm: &mut Asm, slot: Slot) {
        asm.emit(op::mbarrier_arrive(Operand::Sink, self.full(slot)));
    }

    /// Producers that fill a slot together: arrives in the threads where `leader` holds, without copies.
    pub fn publish_by(&self, asm: &mut Asm, slot: Slot, leader: Pred) {
        asm.emit(op::mbarrier_arrive(Operand::Sink, self.full(slot)).when(leader));
    }

    /// Consumer: waits until the slot is full.
    pub fn ready(&self, asm: &mut Asm, smem: R32, end: &End) -> Slot {
        let slot = self.slot(asm, smem, end);
        self.wait(asm, slot, self.full, end.phase, "FULL");
        slot
    }

    /// Consumer: gives the slot at its end back, in the threads where `leader` holds.
    pub fn release(&self, asm: &mut Asm, smem: R32, end: &End, leader: Pred) {
        let slot = self.slot(asm, smem, end);
        self.release_slot(asm, slot, leader);
    }

    /// Consumer: gives a slot back, in the threads where `leader` holds.
    pub fn release_slot(&self, asm: &mut Asm, slot: Slot, leader: Pred) {
        asm.emit(op::mbarrier_arrive(Operand::Sink, Operand::at(slot.base, self.empty as i32)).when(leader));
    }

    /// Consumer: gives the slot back, in every thread that runs this.
    pub fn release_here(&self, asm: &mut Asm, slot: Slot) {
        asm.emit(op::mbarrier_arrive(Operand::Sink, Operand::at(slot.base, self.empty as i32)));
    }

    /// The full barrier of a slot, as the operand of a copy.
    pub fn full(&self, slot: Slot) -> Operand {
        Operand::at(slot.base, self.full as i32)
    }

    /// Moves an end to the next stage; the parity turns over when the ring has gone round.
    pub fn advance(&self, asm: &mut Asm, end: &End) {
        end.advance(asm, self.stages);
    }

    /// The place `by` stages further on, less than once round: a further slot of a tile that takes several. The end stays
    /// where it is.
    pub fn ahead(&self, asm: &mut Asm, end: &End, by: impl Into<Operand>) -> End {
        end.ahead(asm, self.stages, by.into())
    }

    /// Moves an end so many stages on, at most once round.
    pub fn advance_by(&self, asm: &mut Asm, end: &End, by: u32) {
        match (by, end.stage) {
            (0, _) => {}
            (1, _) | (_, None) => self.advance(asm, end),
            (_, Some(stage)) => {
                let to = end.ahead(asm, self.stages, by.into());
                asm.emit(op::mov(Value::B32, end.phase, to.phase));
                if let Some(far) = to.stage {
                    asm.emit(op::mov(Value::B32, stage, far));
                }
            }
        }
    }

    fn wait(&self, asm: &mut Asm, slot: Slot, barrier: u32, parity: R32, what: &str) {
        wait_parity(asm, Operand::at(slot.base, barrier as i32), parity, &format!("{}_{what}", self.name));
    }
}

/// Waits until the barrier has completed the phase of that parity.
pub(crate) fn wait_parity(asm: &mut Asm, barrier: Operand, parity: R32, what: &str) {
    let again = asm.label(&format!("WAIT_{}", what.to_uppercase()));
    asm.place(&again);
    let done = asm.pred(|p| op::mbarrier_try_wait(p, barrier, parity));
    asm.jump_unless(done, &again);
}
