//! Register fragments of wgmma: which register of which lane holds which element (PTX ISA, "Register Fragments").
//!
//! In a warpgroup's 64 rows, warp w holds rows 16w to 16w+15; lane l holds rows l/4 and l/4 + 8 of those and, of every
//! 8 columns, columns 2(l%4) and 2(l%4)+1.

use std::ops::Range;

use ptx::qual::{Fp8X2, HalfX2, Value};
use ptx::{F32, Operand, R16, R32, op};

use crate::asm::Asm;

/// Columns of a quad's pattern: 4 lanes hold 2 each.
pub const QUAD_COLUMNS: u32 = 8;

/// An f32 accumulator of 64 rows by N columns: N/2 registers, always named in the same order.
#[derive(Debug, Clone)]
pub struct Accumulator {
    regs: Vec<F32>,
}

impl Accumulator {
    /// Registers for N columns, not yet written.
    pub fn new(asm: &mut Asm, columns: u32) -> Accumulator {
        Accumulator { regs: (0..columns / 2).map(|_| asm.new_f32()).collect() }
    }

    /// Its registers in the order that wgmma takes.
    pub fn regs(&self) -> &[F32] {
        &self.regs
    }

    /// N.
    pub fn columns(&self) -> u32 {
        self.regs.len() as u32 * 2
    }

    /// Which of the lane's two rows register `i` belongs to: 0 for row l/4, 1 for row l/4 + 8.
    pub fn half(i: usize) -> usize {
        i >> 1 & 1
    }

    /// The column of register `i`, without the lane's own 2(l%4).
    pub fn column(i: usize) -> u32 {
        (QUAD_COLUMNS as usize * (i >> 2) + (i & 1)) as u32
    }

    /// The registers of one of the lane's two rows, with their columns.
    pub fn row(&self, half: usize) -> impl Iterator<Item = (u32, F32)> {
        self.regs
            .iter()
            .enumerate()
            .filter(move |(i, _)| Accumulator::half(*i) == half)
            .map(|(i, &r)| (Accumulator::column(i), r))
    }

    /// Some of its columns, from a multiple of 8 to another: the same registers.
    pub fn part(&self, columns: Range<u32>) -> Accumulator {
        Accumulator { regs: self.regs[columns.start as usize / 2..columns.end as usize / 2].to_vec() }
    }

    /// Sets every register to zero.
    pub fn zero(&self, asm: &mut Asm) {
        for &r in &self.regs {
            asm.emit(op::mov(Value::F32, r, 0.0));
        }
    }

    /// Multiplies each of the lane's two rows by its factor.
    pub fn scale_rows(&self, asm: &mut Asm, factors: [F32; 2]) {
        for (i, &r) in self.regs.iter().enumerate() {
            asm.emit(op::mul_f32(r, r, factors[Accumulator::half(i)]));
        }
    }

    /// Rounds pairs of columns to 16 bits into `packed`.
    pub fn pack_into(&self, asm: &mut Asm, pair: HalfX2, packed: &Packed) {
        for (i, &d) in packed.regs.iter().enumerate() {
            // The first source is the upper half: the odd column.
            asm.emit(op::cvt_rn_pair(pair, d, self.regs[2 * i + 1], self.regs[2 * i]));
        }
    }

    /// Rounds to 8 bits what belongs into register `i` of an 8-bit A operand: its lower two bytes and its upper two, which
    /// [`Packed::join`] puts together.
    pub fn pack_bytes(&self, asm: &mut Asm, pair: Fp8X2, i: usize) -> [R16; 2] {
        let [a, b, c, d] = self.byte_group(i);
        // The first source is the upper half: the odd column.
        [[b, a], [d, c]].map(|[odd, even]| asm.b16(|d| op::cvt_rn_f8(pair, d, odd, even)))
    }

    /// The registers whose columns are the bytes of register `i` of an 8-bit A operand, lowest byte first: of every 16 columns
    /// those that the lane holds of a row, in their order, so that byte p of the quad's 16 is column 0, 1, 8, 9, 2, 3, 10, 11,
    /// 4, 5, 12, 13, 6, 7, 14, 15 for p from 0.
    pub fn byte_group(&self, i: usize) -> [F32; 4] {
        let first = 16 * (i / 4) + 8 * (i % 4 / 2) + 2 * (i % 2);
        [0, 1, 4, 5].map(|offset| self.regs[first + offset])
    }

    /// Rounds the 16 columns from `16 * block` on into four fresh registers: the matrices of an `stmatrix.x4`.
    pub fn pack_block(&self, asm: &mut Asm, pair: HalfX2, block: u32) -> Vec<R32> {
        let first = 8 * block as usize;
        (0..4)
            .map(|m| asm.b32(|d| op::cvt_rn_pair(pair, d, self.regs[first + 2 * m + 1], self.regs[first + 2 * m])))
            .collect()
    }
}

/// An A operand: k-step s takes registers 4s to 4s+3. Pairs of 16-bit values in the order of an accumulator are one without
/// a shuffle; of 8-bit values, so are the [`Accumulator::byte_group`]s, if the other operand's k is permuted likewise.
#[derive(Debug, Clone)]
pub struct Packed {
    regs: Vec<R32>,
}

impl Packed {
    /// Registers for an A operand that is `columns` deep, of elements of so many bytes, not yet written.
    pub fn for_product(asm: &mut Asm, columns: u32, element_bytes: u32) -> Packed {
        Packed { regs: (0..columns * element_bytes / 8).map(|_| asm.new_b32()).collect() }
    }

    /// Its registers in the order that wgmma takes.
    pub fn regs(&self) -> &[R32] {
        &self.regs
    }

    /// Puts register `i` together of its lower two bytes and its upper two.
    pub fn join(&self, asm: &mut Asm, i: usize, halves: [R16; 2]) {
        asm.emit(op::mov_pack_b16(self.regs[i], Operand::vector(&halves)));
    }

    /// The A operand of k-step `step`, 32 bytes deep.
    pub fn k_step(&self, step: u32) -> &[R32] {
        &self.regs[4 * step as usize..][..4]
    }
}
