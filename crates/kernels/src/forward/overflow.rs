//! What `rescale: on_overflow` needs beside a softmax whose reference stands: finding that a tile overflowed, and the
//! mark of a tile that is done again with care.
//!
//! An exponential against a reference that is too low by up to 2^64 is as exact as any, and so are the sums made of
//! them. What was lost is infinite by then, or no number, or has such a sum; an infinite P makes every column of O
//! infinite or no number. So the sums and O of the finished tile tell, and nothing is asked of a block.

use ptx::qual::{Bits, Cmp, Int, Num, Value, Vote};
use ptx::{F32, Pred, R32, op};
use tile::{Accumulator, Asm};

/// The bit of a tile's number of blocks that marks it to be done with care.
const CAREFUL: u32 = 1 << 30;

/// Sums of a row from here on are not trusted: 2^64.
const LARGEST_SUM: f32 = 18_446_744_073_709_551_616.0;

/// `blocks` with the mark where `careful`, a register, is not zero.
pub(super) fn mark(asm: &mut Asm, blocks: R32, careful: R32) -> R32 {
    asm.b32(|d| op::mad_lo(Int::U32, d, careful, CAREFUL, blocks))
}

/// Takes the mark off `blocks` and leaves in `careful` whether it was there.
pub(super) fn unmark(asm: &mut Asm, blocks: R32, careful: R32) {
    asm.emit(op::and(Bits::B32, careful, blocks, CAREFUL as i32));
    asm.emit(op::and(Bits::B32, blocks, blocks, CAREFUL as i32 - 1));
}

/// Whether the finished tile is to be done again: if it overflowed, and was not done with care.
pub(super) fn to_be_repeated(asm: &mut Asm, careful: R32, sums: [F32; 2], output: &Accumulator) -> Pred {
    let found = found(asm, sums, output);
    let at_ease = asm.compare(Cmp::Eq, Num::U32, careful, 0);
    asm.pred(|p| op::and_pred(p, found, at_ease))
}

/// A predicate that holds in the whole warp if some row of its tile overflowed: its sum is beyond trust, or O is not finite.
/// A sum that is no number comes from the inputs and is right.
fn found(asm: &mut Asm, sums: [F32; 2], output: &Accumulator) -> Pred {
    asm.comment("did a row overflow: zero times O, on top of its sum, is no number if O is not finite");
    let [upper, lower] = [0, 1].map(|half| row(asm, sums[half], output, half));
    let either = asm.pred(|p| op::or_pred(p, upper, lower));
    asm.pred(|p| op::vote_sync(Vote::Any, p, either, -1))
}

fn row(asm: &mut Asm, sum: F32, output: &Accumulator, half: usize) -> Pred {
    // Two chains, for their latency.
    let chains = [(); 2].map(|()| asm.f32(|d| op::mov(Value::F32, d, sum)));
    for (i, (_, o)) in output.row(half).enumerate() {
        let chain = chains[i % 2];
        asm.emit(op::fma_rn_f32(chain, o, 0.0, chain));
    }
    let [a, b] = chains.map(|chain| asm.compare(Cmp::Lt, Num::F32, chain, LARGEST_SUM));
    let sound = asm.pred(|p| op::and_pred(p, a, b));
    let unsound = asm.pred(|p| op::not_pred(p, sound));
    let number = asm.compare(Cmp::Eq, Num::F32, sum, sum);
    asm.pred(|p| op::and_pred(p, unsound, number))
}
