//! The element format: which instruction of a pair of twins, and nothing else.

use ptx::qual::{HalfX2, MmaK16};
use ptx::{Inst, Operand, R32, R64, TensorElement, op};
use tile::Accumulator;

/// A 16-bit element format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Bf16,
    F16,
}

/// K-major operands take no transposition, MN-major ones do.
const UPRIGHT: i32 = 0;
const TRANSPOSED: i32 = 1;

impl Format {
    /// As a tensor map names it.
    pub(super) fn tensor(self) -> TensorElement {
        match self {
            Format::Bf16 => TensorElement::Bf16,
            Format::F16 => TensorElement::F16,
        }
    }

    /// Two of them in a register.
    pub(super) fn pair(self) -> HalfX2 {
        match self {
            Format::Bf16 => HalfX2::Bf16x2,
            Format::F16 => HalfX2::F16x2,
        }
    }

    /// One k-step with both operands in shared memory; `b` is transposed if it is MN-major.
    pub(super) fn mma_shared(
        self,
        shape: MmaK16,
        d: &Accumulator,
        a: R64,
        b: R64,
        accumulate: bool,
        transposed: bool,
    ) -> Inst {
        let (d, scale_d) = (Operand::vector(d.regs()), i32::from(accumulate));
        let trans_b = if transposed { TRANSPOSED } else { UPRIGHT };
        match self {
            Format::Bf16 => op::wgmma_ss_bf16(shape, d, a, b, scale_d, 1, 1, UPRIGHT, trans_b),
            Format::F16 => op::wgmma_ss_f16(shape, d, a, b, scale_d, 1, 1, UPRIGHT, trans_b),
        }
    }

    /// One k-step with A in registers and B in shared memory; `b` is transposed if it is MN-major.
    pub(super) fn mma_registers(
        self,
        shape: MmaK16,
        d: &Accumulator,
        a: &[R32],
        b: R64,
        accumulate: bool,
        transposed: bool,
    ) -> Inst {
        let (d, a, scale_d) = (Operand::vector(d.regs()), Operand::vector(a), i32::from(accumulate));
        let trans_b = if transposed { TRANSPOSED } else { UPRIGHT };
        match self {
            Format::Bf16 => op::wgmma_rs_bf16(shape, d, a, b, scale_d, 1, 1, trans_b),
            Format::F16 => op::wgmma_rs_f16(shape, d, a, b, scale_d, 1, 1, trans_b),
        }
    }
}
