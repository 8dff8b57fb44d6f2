//! Verdicts: what the consumers say of a tile when they are done with it, and the producer hears before it forgets the
//! tile.
//!
//! A slot needs no way back: with two of them, for the tile at hand and the one before, the tile after the next is handed
//! over only when the verdict in its slot has been heard.

use ptx::qual::{Bits, Cmp, Int, Num, Value, Wide};
use ptx::{Operand, Pred, R32, op};

use crate::WARPS;
use crate::asm::Asm;
use crate::layout::Layout;
use crate::program::Threads;
use crate::ring::{End, wait_parity};

/// Bytes of a warp's word.
const WORD: u32 = 4;
/// Words that are read at once.
const AT_ONCE: usize = 4;

/// One mbarrier a slot, and one word a warp, which is not zero where the tile is to be done again.
#[derive(Debug, Clone)]
pub struct Verdict {
    slots: u32,
    warps: u32,
    barriers: u32,
    words: u32,
}

impl Verdict {
    /// `slots` slots in which `warps` warps speak, a multiple of four.
    pub fn new(layout: &mut Layout, slots: u32, warps: u32) -> Verdict {
        let barriers = layout.barriers("verdict.full", slots, warps);
        Verdict { slots, warps, barriers, words: layout.words("verdicts", slots, warps * WORD) }
    }

    /// Initialises the barriers; one thread, before the CTA's first barrier.
    pub fn init(&self, asm: &mut Asm, smem: R32) {
        for slot in 0..self.slots {
            asm.emit(op::mbarrier_init(Operand::at(smem, (self.barriers + 8 * slot) as i32), self.warps));
        }
    }

    /// A place in it, of either side.
    pub fn end(&self, asm: &mut Asm) -> End {
        End::start(asm, self.slots, 0)
    }

    /// Consumers, which start at the second warpgroup: says of the tile at hand whether it is to be done again, which is
    /// the same in all lanes of a warp. Its leader speaks for it.
    pub fn give(&self, asm: &mut Asm, threads: &Threads, end: &End, leader: Pred, again: Pred) {
        let smem = threads.smem;
        let warp = asm.b32(|d| op::sub(Int::U32, d, threads.warp, WARPS));
        let says = asm.b32(|d| op::selp(Value::B32, d, 1, 0, again));
        let slot = asm.indexed(smem, end.stage(), self.warps * WORD);
        let word = asm.b32(|d| op::mad_lo(Int::U32, d, warp, WORD, slot));
        asm.emit(op::st_shared(Value::B32, Operand::at(word, self.words as i32), says).when(leader));
        let barrier = self.barrier(asm, smem, end);
        asm.emit(op::mbarrier_arrive(Operand::Sink, barrier).when(leader));
        end.advance(asm, self.slots);
    }

    /// Producer (one thread): waits until every warp has spoken of the tile, and says whether it is to be done again.
    pub fn hear(&self, asm: &mut Asm, smem: R32, end: &End) -> Pred {
        let barrier = self.barrier(asm, smem, end);
        wait_parity(asm, barrier, end.phase(), "VERDICT");
        let slot = asm.indexed(smem, end.stage(), self.warps * WORD);
        let any = asm.b32(|d| op::mov(Value::B32, d, 0));
        for first in (0..self.warps).step_by(AT_ONCE) {
            let words: [R32; AT_ONCE] = std::array::from_fn(|_| asm.new_b32());
            let at = Operand::at(slot, (self.words + first * WORD) as i32);
            asm.emit(op::ld_shared_v(Wide::V4, Value::B32, Operand::vector(&words), at));
            for word in words {
                asm.emit(op::or(Bits::B32, any, any, word));
            }
        }
        end.advance(asm, self.slots);
        asm.compare(Cmp::Ne, Num::U32, any, 0)
    }

    fn barrier(&self, asm: &mut Asm, smem: R32, end: &End) -> Operand {
        let base = asm.indexed(smem, end.stage(), 8);
        Operand::at(base, self.barriers as i32)
    }
}
