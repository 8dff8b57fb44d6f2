//! Partial sums of O kept apart from the accumulator of the tensor cores, which adds with few bits (DeepSeek-V3, arXiv
//! 2412.19437, section 3.3.2).
//!
//! After a group of blocks the accumulator is added to the total, in registers of its own or in shared memory, and starts
//! anew. The total waits in the units of an earlier maximum: the factors since then are gathered in one number a row, so
//! that changing the maximum costs the total nothing and adding to it one multiply-add.
//!
//! Which block starts a group is read off its first key: groups are powers of two. The first group of a row is cut in the
//! middle, so that short rows need no total.

use ptx::qual::{Bits, Cmp, Int, Num, Shuffle, Value, Wide};
use ptx::{F32, Operand, Pred, R32, Special, op};
use schedule::Accumulate;
use tile::{Accumulator, Asm, WARPGROUP};

use super::Forward;

/// Sums that are loaded and stored at a time, and their bytes.
const CHUNK: usize = 4;
const CHUNK_BYTES: u32 = 16;
/// Bytes of the word that says whether a thread's total in shared memory holds anything.
const WORD_BYTES: u32 = 4;

/// The total and its units.
pub(super) struct Partial {
    total: Total,
    /// What the total is to be multiplied with before something is added to it.
    pending: [F32; 2],
    starts: Starts,
}

/// Where the total is.
enum Total {
    Registers(Accumulator),
    Shared(Shared),
}

/// A total in shared memory: chunks of all threads side by side, then a word of each that is not zero if they hold anything.
#[derive(Clone, Copy)]
struct Shared {
    smem: R32,
    /// Offset of the first thread's first chunk.
    sums: u32,
    /// From a thread's chunk to its next.
    stride: u32,
    chunks: u32,
}

/// The bits of a block's first key that say whether it is the first of a group, and what they are then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Starts {
    mask: u32,
    value: u32,
}

impl Starts {
    /// Of groups of `group` blocks, a power of two, of `columns` keys.
    fn of(group: u32, columns: u32) -> Starts {
        // Multiples of an odd number go through all remainders of a power of two, as the numbers themselves do.
        let mask = (group - 1) << columns.trailing_zeros();
        Starts { mask, value: (group / 2).wrapping_mul(columns) & mask }
    }
}

impl Partial {
    pub(super) fn new(asm: &mut Asm, fwd: &Forward<'_>, columns: u32) -> Option<Partial> {
        let Some(Accumulate::Every(group)) = fwd.schedule.fp8.map(|fp8| fp8.accumulate) else { return None };
        let total = match fwd.memory.sums {
            None => Total::Registers(Accumulator::new(asm, columns)),
            Some(sums) => {
                let stride = fwd.schedule.roles.consumer.warpgroups * WARPGROUP * CHUNK_BYTES;
                let chunks = columns / 2 / CHUNK as u32;
                Total::Shared(Shared { smem: fwd.threads.smem, sums, stride, chunks })
            }
        };
        let pending = [asm.new_f32(), asm.new_f32()];
        Some(Partial { total, pending, starts: Starts::of(group, fwd.schedule.tile.columns) })
    }

    /// Where the sums are after [`Partial::finish`].
    pub(super) fn finished<'a>(&'a self, accumulator: &'a Accumulator) -> &'a Accumulator {
        match &self.total {
            Total::Registers(total) => total,
            Total::Shared(_) => accumulator,
        }
    }

    /// For a tile's first block.
    pub(super) fn start(&self, asm: &mut Asm) {
        match &self.total {
            Total::Registers(total) => total.zero(asm),
            Total::Shared(shared) => {
                let (word, nothing) = (shared.word(asm), asm.b32(|d| op::mov(Value::B32, d, 0)));
                asm.emit(op::st_shared(Value::B32, word, nothing));
            }
        }
        for factor in self.pending {
            asm.emit(op::mov(Value::F32, factor, 1.0));
        }
    }

    /// Goes to a new maximum, with the block that starts at key `column` at hand. Where it is the first of a group, what the
    /// accumulator holds is added to the total, which takes the factors in later; else it is multiplied by `keep`.
    pub(super) fn rescale(
        &self,
        asm: &mut Asm,
        accumulator: &Accumulator,
        column: R32,
        factors: [F32; 2],
        keep: impl FnOnce(&mut Asm, &Accumulator),
    ) {
        let [open, done] = ["GROUP_OPEN", "GROUP_DONE"].map(|stem| asm.label(stem));
        let bits = asm.b32(|d| op::and(Bits::B32, d, column, self.starts.mask));
        let is_open = asm.compare(Cmp::Ne, Num::U32, bits, self.starts.value);
        asm.jump_if(is_open, &open);
        self.add(asm, accumulator);
        accumulator.zero(asm);
        for (pending, factor) in self.pending.into_iter().zip(factors) {
            asm.emit(op::mov(Value::F32, pending, factor));
        }
        asm.jump(&done);
        asm.place(&open);
        for (pending, factor) in self.pending.into_iter().zip(factors) {
            asm.emit(op::mul_f32(pending, pending, factor));
        }
        keep(asm, accumulator);
        asm.place(&done);
    }

    /// Puts the sums together after a tile's last product.
    pub(super) fn finish(&self, asm: &mut Asm, accumulator: &Accumulator) {
        let shared = match self.total {
            Total::Registers(_) => return self.add(asm, accumulator),
            Total::Shared(shared) => shared,
        };
        let none = asm.label("NO_TOTAL");
        let word = shared.word(asm);
        let empty = is_empty(asm, word);
        asm.jump_if(empty, &none);
        asm.comment("the total to the last sums");
        shared.each_chunk(asm, accumulator, |asm, parts, at, first| {
            let sums = self.with_total(asm, parts, at, first);
            for (&part, sum) in parts.iter().zip(sums) {
                asm.emit(op::mov(Value::F32, part, sum));
            }
        });
        asm.place(&none);
    }

    fn add(&self, asm: &mut Asm, accumulator: &Accumulator) {
        asm.comment("partial sums to the total");
        let shared = match &self.total {
            Total::Registers(total) => {
                for (i, (&total, &part)) in total.regs().iter().zip(accumulator.regs()).enumerate() {
                    asm.emit(op::fma_rn_f32(total, total, self.pending[Accumulator::half(i)], part));
                }
                return;
            }
            Total::Shared(shared) => shared,
        };
        let [first, done] = ["FIRST_GROUP", "GROUP_ADDED"].map(|stem| asm.label(stem));
        let word = shared.word(asm);
        let empty = is_empty(asm, word.clone());
        asm.jump_if(empty, &first);
        shared.each_chunk(asm, accumulator, |asm, parts, at, first| {
            let sums = self.with_total(asm, parts, at.clone(), first);
            asm.emit(op::st_shared_v(Wide::V4, Value::F32, at, Operand::vector(&sums)));
        });
        asm.jump(&done);
        asm.place(&first);
        let something = asm.b32(|d| op::mov(Value::B32, d, 1));
        asm.emit(op::st_shared(Value::B32, word, something));
        shared.each_chunk(asm, accumulator, |asm, parts, at, _| {
            asm.emit(op::st_shared_v(Wide::V4, Value::F32, at, Operand::vector(parts)));
        });
        asm.place(&done);
    }

    /// A chunk of the total in shared memory in the units of now, and the parts with it. `first` is the number of the first.
    fn with_total(&self, asm: &mut Asm, parts: &[F32; CHUNK], at: Operand, first: usize) -> [F32; CHUNK] {
        let sums = [0; CHUNK].map(|_| asm.new_f32());
        asm.emit(op::ld_shared_v(Wide::V4, Value::F32, Operand::vector(&sums), at));
        for (i, (&sum, &part)) in sums.iter().zip(parts).enumerate() {
            asm.emit(op::fma_rn_f32(sum, sum, self.pending[Accumulator::half(first + i)], part));
        }
        sums
    }
}

/// Whether no total is held yet. The word goes through a shuffle, as only of one is it known that all lanes have the same.
fn is_empty(asm: &mut Asm, word: Operand) -> Pred {
    let own = asm.b32(|d| op::ld_shared(Value::B32, d, word));
    let holds = asm.b32(|d| op::shfl_sync(Shuffle::Idx, d, own, 0, 31, -1));
    asm.compare(Cmp::Eq, Num::U32, holds, 0)
}

// Addresses are made anew each time: a register that waits through all steps costs more.
impl Shared {
    /// The thread's place among those of `bytes` each.
    fn place(&self, asm: &mut Asm, bytes: u32) -> R32 {
        let thread = asm.b32(|d| op::mov_special(d, Special::TidX));
        let consumer = asm.b32(|d| op::sub(Int::U32, d, thread, WARPGROUP));
        asm.b32(|d| op::mad_lo(Int::U32, d, consumer, bytes, self.smem))
    }

    /// The word that is not zero if the thread's total holds anything.
    fn word(&self, asm: &mut Asm) -> Operand {
        let at = self.place(asm, WORD_BYTES);
        Operand::at(at, (self.sums + self.chunks * self.stride) as i32)
    }

    /// The registers of an accumulator that lie in one chunk of the total, where that is, and the number of the first.
    fn each_chunk(
        &self,
        asm: &mut Asm,
        accumulator: &Accumulator,
        code: impl Fn(&mut Asm, &[F32; CHUNK], Operand, usize),
    ) {
        let at = self.place(asm, CHUNK_BYTES);
        for (number, parts) in (0..).zip(accumulator.regs().as_chunks().0) {
            code(asm, parts, Operand::at(at, (self.sums + number * self.stride) as i32), CHUNK * number as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Starts;

    #[test]
    fn a_group_starts_at_every_so_many_blocks_from_its_middle_on() {
        for (group, columns) in [(1, 128), (2, 64), (4, 96), (16, 96), (16, 128), (8, 160)] {
            let starts = Starts::of(group, columns);
            for block in 0..200 {
                let found = (block * columns) & starts.mask == starts.value;
                assert_eq!(found, block % group == group / 2, "{group} of {columns} at {block}");
            }
        }
    }
}
