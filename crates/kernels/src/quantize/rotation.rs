//! The rotation's matrices in shared memory, as the B operand of the products of Q and K.
//!
//! R = S H / sqrt(n) with S random signs and H the Hadamard matrix of Sylvester's order, H(i, j) = -1 to the number of
//! ones in i & j, over blocks of n columns. The root is left to the scales. What a product takes is one unit of columns
//! (64, or what the head dimension has); H of a longer block is H of the units, then sums and differences of units, which
//! `rows` makes.
//!
//! The matrix of unit b holds S(64 b + k) H(k, m) for the result's column m in the row that leaves m where it is stored
//! from: an accumulator's lane has columns 8 j + 2 q + e, and is to have unit / 4 neighbours.

use ptx::qual::{Bits, Cmp, Int, Num, Shr, Value, Wide};
use ptx::{Operand, R32, op};
use tile::{Asm, WARPGROUP};

use super::Quantizer;

/// Elements of a chunk of 16 bytes, which a thread makes at a time.
const CHUNK: u32 = 8;
/// The sign of both halves of a register.
const SIGNS: i32 = 0x8000_8000_u32 as i32;
/// The sign of its upper half.
const UPPER_SIGN: i32 = i32::MIN;

/// Builds the matrices; every thread of the consumers, which meet at the end. The first tiles are on their way meanwhile.
/// `barrier` is a named one.
pub(super) fn build(asm: &mut Asm, qz: &Quantizer<'_>, barrier: u32) {
    asm.comment("the rotation's matrices");
    let (unit, columns) = (qz.schedule.unit(), qz.schedule.columns());
    let chunks = columns * unit / CHUNK;
    let threads = qz.schedule.roles.consumer.warpgroups * WARPGROUP;
    let thread = asm.b32(|d| op::sub(Int::U32, d, qz.threads.thread, WARPGROUP));
    for first in (0..chunks).step_by(threads as usize) {
        let chunk = asm.b32(|d| op::add(Int::U32, d, thread, first));
        match first + threads <= chunks {
            true => one_chunk(asm, qz, chunk),
            false => {
                let inside = asm.compare(Cmp::Lt, Num::U32, chunk, chunks);
                asm.only_if(inside, "BUILT", |asm| one_chunk(asm, qz, chunk));
            }
        }
    }
    asm.emit(op::fence_proxy_async());
    asm.emit(op::bar_sync(barrier, threads));
}

/// Makes elements k = 8 c to 8 c + 7 of a row of a unit's matrix; `chunk` counts c, then rows, then units.
fn one_chunk(asm: &mut Asm, qz: &Quantizer<'_>, chunk: R32) {
    let tile = &qz.memory.rotation;
    let (unit, block) = (qz.schedule.unit(), qz.schedule.block());
    let per_row = unit / CHUNK;
    let (shift, mask) = tile.pattern();
    let c = masked(asm, chunk, 0, per_row - 1);
    let row = masked(asm, chunk, per_row.trailing_zeros(), unit - 1);
    let number = asm.b32(|d| op::shr(Shr::U32, d, chunk, (per_row * unit).trailing_zeros()));

    // The column of the result that the row is for.
    let j = asm.b32(|d| op::shr(Shr::U32, d, row, 3));
    let q = masked(asm, row, 1, 3);
    let e = masked(asm, row, 0, 1);
    let pair = asm.b32(|d| op::mad_lo(Int::U32, d, j, 2, e));
    let column = asm.b32(|d| op::mad_lo(Int::U32, d, q, unit / 4, pair));

    let words = match block {
        1 => identity(asm, qz, c, column),
        _ => signs(asm, qz, (c, number), column, block),
    };
    let turned = masked(asm, row, shift, mask);
    let place = asm.b32(|d| op::xor(Bits::B32, d, c, turned));
    let of_row = asm.b32(|d| op::mad_lo(Int::U32, d, row, tile.row_bytes(), qz.threads.smem));
    let of_unit = asm.b32(|d| op::mad_lo(Int::U32, d, number, tile.stage_bytes(), of_row));
    let at = asm.b32(|d| op::mad_lo(Int::U32, d, place, 16, of_unit));
    let at = Operand::at(at, tile.offset() as i32);
    asm.emit(op::st_shared_v(Wide::V4, Value::B32, at, Operand::vector(&words)));
}

/// `value >> shift & mask`.
fn masked(asm: &mut Asm, value: R32, shift: u32, mask: u32) -> R32 {
    let shifted = match shift {
        0 => value,
        n => asm.b32(|d| op::shr(Shr::U32, d, value, n)),
    };
    asm.b32(|d| op::and(Bits::B32, d, shifted, mask))
}

/// One where row and column agree.
fn identity(asm: &mut Asm, qz: &Quantizer<'_>, c: R32, column: R32) -> [R32; 4] {
    let one = qz.format.one();
    let first = asm.b32(|d| op::shl(Bits::B32, d, c, 3));
    let ahead = asm.b32(|d| op::sub(Int::U32, d, column, first));
    [0, 1, 2, 3].map(|word: u32| {
        let low = asm.compare(Cmp::Eq, Num::U32, ahead, 2 * word);
        let high = asm.compare(Cmp::Eq, Num::U32, ahead, 2 * word + 1);
        let upper = asm.b32(|d| op::selp(Value::B32, d, one << 16, 0, high));
        asm.b32(|d| op::selp(Value::B32, d, one, upper, low))
    })
}

/// Plus or minus one: the parity of row & column, and the row's own sign. Zero between blocks.
fn signs(asm: &mut Asm, qz: &Quantizer<'_>, (c, number): (R32, R32), column: R32, block: u32) -> [R32; 4] {
    let unit = qz.schedule.unit();
    let one = qz.format.one();
    // The parity of what the chunk's number and the column have in common, in both halves.
    let high = asm.b32(|d| op::shr(Shr::U32, d, column, 3));
    let mut common = asm.b32(|d| op::and(Bits::B32, d, c, high));
    if block < unit {
        // Of bits that number blocks, none counts.
        common = masked(asm, common, 0, block / CHUNK - 1);
    }
    let folded = asm.b32(|d| op::shr(Shr::U32, d, common, 2));
    let folded = asm.b32(|d| op::xor(Bits::B32, d, common, folded));
    let shifted = asm.b32(|d| op::shr(Shr::U32, d, folded, 1));
    let folded = asm.b32(|d| op::xor(Bits::B32, d, folded, shifted));
    let bit = asm.b32(|d| op::and(Bits::B32, d, folded, 1));
    let chunk = asm.b32(|d| op::mul_lo(Int::S32, d, bit, SIGNS));
    // And what the three low bits of the column add: for odd k, for k in the upper half of four, of eight.
    let odd = asm.b32(|d| op::shl(Bits::B32, d, column, 31));
    let [two, four] = [1, 2].map(|shift| {
        let bit = masked(asm, column, shift, 1);
        asm.b32(|d| op::mul_lo(Int::S32, d, bit, SIGNS))
    });
    let start = asm.b32(|d| op::mul_lo(Int::U32, d, number, unit));
    let start = asm.b32(|d| op::mad_lo(Int::U32, d, c, CHUNK, start));
    let mut xor = |a: R32, b: Operand| asm.b32(|d| op::xor(Bits::B32, d, a, b));
    let base = xor(chunk, Operand::from((one << 16 | one) as i32));
    let base = xor(base, odd.into());
    let mut words = [0, 1, 2, 3].map(|word: u32| {
        let with_two = if word & 1 == 0 { base } else { xor(base, two.into()) };
        if word & 2 == 0 { with_two } else { xor(with_two, four.into()) }
    });
    for (word, bits) in (0..).zip(&mut words) {
        let [low, high] = [0, 1].map(|k| random_sign(asm, qz, start, 2 * word + k));
        let low = asm.b32(|d| op::shr(Shr::U32, d, low, 16));
        let both = asm.b32(|d| op::or(Bits::B32, d, low, high));
        *bits = asm.b32(|d| op::xor(Bits::B32, d, *bits, both));
    }
    if block >= unit {
        return words;
    }
    // Chunk and column are of one block if they differ in its own bits only.
    let apart = asm.b32(|d| op::xor(Bits::B32, d, c, high));
    let same = asm.compare(Cmp::Lt, Num::U32, apart, block / CHUNK);
    words.map(|bits| asm.b32(|d| op::selp(Value::B32, d, bits, 0, same)))
}

/// The sign of column `start + k` in the uppermost bit: a hash of seed and column (the finish of MurmurHash3, public
/// domain, Appleby).
fn random_sign(asm: &mut Asm, qz: &Quantizer<'_>, start: R32, k: u32) -> R32 {
    let column = asm.b32(|d| op::add(Int::U32, d, start, k));
    let seed = qz.abi.seed.map_or(Operand::from(0), Operand::from);
    let mut h = asm.b32(|d| op::mad_lo(Int::U32, d, column, 0x9e37_79b9_u32 as i32, seed));
    for (shift, factor) in [(16, 0x85eb_ca6b_u32), (13, 0xc2b2_ae35)] {
        let shifted = asm.b32(|d| op::shr(Shr::U32, d, h, shift));
        let mixed = asm.b32(|d| op::xor(Bits::B32, d, h, shifted));
        h = asm.b32(|d| op::mul_lo(Int::U32, d, mixed, factor as i32));
    }
    asm.b32(|d| op::and(Bits::B32, d, h, UPPER_SIGN))
}
