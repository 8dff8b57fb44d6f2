//! The element format: which instruction of a family, and nothing else.

use ptx::qual::{Fp8, HalfX2, MmaK16, MmaK32};
use ptx::{Inst, Operand, R32, R64, TensorElement, op};
use schedule::{Element, Output, Schedule};
use tile::Accumulator;
use tile::descriptor::Major;

/// An element format of Q, K and V.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Half(Half),
    Fp8(Fp8),
}

/// A 16-bit format, of O too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Bf16,
    F16,
}

/// K-major operands take no transposition, MN-major ones do.
const UPRIGHT: i32 = 0;
const TRANSPOSED: i32 = 1;

/// Bytes of the depth of a k-step.
const K_STEP_BYTES: u32 = 32;

/// An A operand in registers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Left<'a> {
    /// Of the format itself.
    Queries(&'a [R32]),
    /// P: of the format, or of e4m3 where that has 8 bits.
    Probabilities(&'a [R32]),
}

impl Half {
    fn tensor(self) -> TensorElement {
        match self {
            Half::Bf16 => TensorElement::Bf16,
            Half::F16 => TensorElement::F16,
        }
    }

    /// Two of them in a register.
    pub(super) fn pair(self) -> HalfX2 {
        match self {
            Half::Bf16 => HalfX2::Bf16x2,
            Half::F16 => HalfX2::F16x2,
        }
    }
}

impl Format {
    pub(super) fn of(element: Element) -> Option<Format> {
        match element {
            Element::Bf16 => Some(Format::Half(Half::Bf16)),
            Element::F16 => Some(Format::Half(Half::F16)),
            Element::E4m3 => Some(Format::Fp8(Fp8::E4m3)),
            Element::E5m2 => Some(Format::Fp8(Fp8::E5m2)),
            _ => None,
        }
    }

    /// The format of O.
    pub(super) fn output(self, schedule: &Schedule) -> Half {
        match (self, schedule.fp8.map(|fp8| fp8.output)) {
            (Format::Half(half), _) => half,
            (Format::Fp8(_), Some(Output::F16)) => Half::F16,
            (Format::Fp8(_), _) => Half::Bf16,
        }
    }

    /// As a tensor map names it.
    pub(super) fn tensor(self) -> TensorElement {
        match self {
            Format::Half(half) => half.tensor(),
            Format::Fp8(_) => TensorElement::U8,
        }
    }

    /// As a tensor map names what O is made of.
    pub(super) fn output_tensor(self, schedule: &Schedule) -> TensorElement {
        self.output(schedule).tensor()
    }

    /// Depth of a k-step in elements.
    pub(super) fn k_step(self) -> u32 {
        K_STEP_BYTES / self.tensor().bytes()
    }

    /// How V lies to its product: 8-bit operands are K-major only.
    pub(super) fn values(self) -> Major {
        match self {
            Format::Half(_) => Major::Mn,
            Format::Fp8(_) => Major::K,
        }
    }

    /// Four times the number one.
    pub(super) fn ones(self) -> u32 {
        match self {
            Format::Half(Half::Bf16) => 0x3f80_3f80,
            Format::Half(Half::F16) => 0x3c00_3c00,
            Format::Fp8(Fp8::E4m3) => 0x3838_3838,
            Format::Fp8(Fp8::E5m2) => 0x3c3c_3c3c,
        }
    }

    /// One k-step with both operands in shared memory.
    pub(super) fn mma_shared(
        self,
        d: &Accumulator,
        a: R64,
        (b, major): (R64, Major),
        accumulate: impl Into<Operand>,
    ) -> Inst {
        let n = d.columns();
        let d = Operand::vector(d.regs());
        match self {
            Format::Half(Half::Bf16) => {
                op::wgmma_ss_bf16(k16(n), d, a, b, accumulate, 1, 1, UPRIGHT, transposition(major))
            }
            Format::Half(Half::F16) => {
                op::wgmma_ss_f16(k16(n), d, a, b, accumulate, 1, 1, UPRIGHT, transposition(major))
            }
            Format::Fp8(f) => op::wgmma_ss_f8(k32(n), f, f, d, a, b, accumulate, 1, 1),
        }
    }

    /// One k-step with A in registers and B in shared memory.
    pub(super) fn mma_registers(
        self,
        d: &Accumulator,
        left: Left<'_>,
        (b, major): (R64, Major),
        accumulate: impl Into<Operand>,
    ) -> Inst {
        let n = d.columns();
        let d = Operand::vector(d.regs());
        let (Left::Queries(a) | Left::Probabilities(a)) = left;
        let a = Operand::vector(a);
        match self {
            Format::Half(Half::Bf16) => op::wgmma_rs_bf16(k16(n), d, a, b, accumulate, 1, 1, transposition(major)),
            Format::Half(Half::F16) => op::wgmma_rs_f16(k16(n), d, a, b, accumulate, 1, 1, transposition(major)),
            Format::Fp8(f) => {
                let left = if let Left::Probabilities(_) = left { Fp8::E4m3 } else { f };
                op::wgmma_rs_f8(k32(n), left, f, d, a, b, accumulate, 1, 1)
            }
        }
    }
}

fn transposition(major: Major) -> i32 {
    match major {
        Major::K => UPRIGHT,
        Major::Mn => TRANSPOSED,
    }
}

/// What the feasibility rules admit no other widths for.
const SHAPES: &str = "a feasible schedule's tiles are wgmma shapes";

fn k16(columns: u32) -> MmaK16 {
    MmaK16::n(columns).expect(SHAPES)
}

fn k32(columns: u32) -> MmaK32 {
    MmaK32::n(columns).expect(SHAPES)
}
