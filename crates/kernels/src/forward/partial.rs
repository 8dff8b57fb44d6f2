//! Partial sums of O kept apart from the accumulator of the tensor cores, which adds with few bits (DeepSeek-V3, arXiv
//! 2412.19437, section 3.3.2).
//!
//! The accumulator takes the products of a group of blocks, the first with nothing to add to; then it is added to the total
//! in registers of its own. The total waits in the units of an earlier maximum: the factors since then are gathered in one
//! number a row, so that changing the maximum costs the total nothing and adding to it one multiply-add.

use ptx::qual::{Cmp, Int, Num, Value};
use ptx::{F32, Operand, R32, op};
use schedule::{Accumulate, Schedule};
use tile::{Accumulator, Asm};

/// The total and its units.
pub(super) struct Partial {
    total: Accumulator,
    /// What the total is to be multiplied with before something is added to it.
    pending: [F32; 2],
    /// Blocks of a group.
    group: u32,
    /// Blocks that are in the accumulator; one block a group needs no count.
    blocks: Option<R32>,
}

impl Partial {
    pub(super) fn new(asm: &mut Asm, schedule: &Schedule, columns: u32) -> Option<Partial> {
        let Some(Accumulate::Every(group)) = schedule.fp8.map(|fp8| fp8.accumulate) else { return None };
        Some(Partial {
            total: Accumulator::new(asm, columns),
            pending: [asm.new_f32(), asm.new_f32()],
            group,
            blocks: (group > 1).then(|| asm.new_b32()),
        })
    }

    pub(super) fn total(&self) -> &Accumulator {
        &self.total
    }

    /// For a tile's first block.
    pub(super) fn start(&self, asm: &mut Asm) {
        self.total.zero(asm);
        for factor in self.pending {
            asm.emit(op::mov(Value::F32, factor, 1.0));
        }
        if let Some(blocks) = self.blocks {
            asm.emit(op::mov(Value::B32, blocks, 0));
        }
    }

    /// Whether the next product adds to the accumulator: not if it is the first of its group.
    pub(super) fn begins(&self, asm: &mut Asm) -> Operand {
        match self.blocks {
            None => Operand::from(0),
            Some(blocks) => asm.compare(Cmp::Ne, Num::U32, blocks, 0).into(),
        }
    }

    /// A product has been issued.
    pub(super) fn count(&self, asm: &mut Asm) {
        if let Some(blocks) = self.blocks {
            asm.emit(op::add(Int::U32, blocks, blocks, 1));
        }
    }

    /// Goes to a new maximum. A whole group is added to the total, which takes the factors in later; less than a group is
    /// multiplied by `keep`.
    pub(super) fn rescale(
        &self,
        asm: &mut Asm,
        accumulator: &Accumulator,
        factors: [F32; 2],
        keep: impl FnOnce(&mut Asm, &Accumulator),
    ) {
        let Some(blocks) = self.blocks else {
            self.add(asm, accumulator);
            return self.become_pending(asm, factors);
        };
        let [open, done] = ["GROUP_OPEN", "GROUP_DONE"].map(|stem| asm.label(stem));
        let is_open = asm.compare(Cmp::Lt, Num::U32, blocks, self.group);
        asm.jump_if(is_open, &open);
        self.add(asm, accumulator);
        self.become_pending(asm, factors);
        asm.emit(op::mov(Value::B32, blocks, 0));
        asm.jump(&done);
        asm.place(&open);
        for (pending, factor) in self.pending.into_iter().zip(factors) {
            asm.emit(op::mul_f32(pending, pending, factor));
        }
        keep(asm, accumulator);
        asm.place(&done);
    }

    /// Adds what is left after a tile's last product.
    pub(super) fn finish(&self, asm: &mut Asm, accumulator: &Accumulator) {
        self.add(asm, accumulator);
    }

    fn add(&self, asm: &mut Asm, accumulator: &Accumulator) {
        asm.comment("partial sums to the total");
        for (i, (&total, &part)) in self.total.regs().iter().zip(accumulator.regs()).enumerate() {
            asm.emit(op::fma_rn_f32(total, total, self.pending[Accumulator::half(i)], part));
        }
    }

    fn become_pending(&self, asm: &mut Asm, factors: [F32; 2]) {
        for (pending, factor) in self.pending.into_iter().zip(factors) {
            asm.emit(op::mov(Value::F32, pending, factor));
        }
    }
}
