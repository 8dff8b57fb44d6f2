//! The 16-bit element format that is read: which instruction of a pair of twins, and nothing else.

use ptx::qual::{Bits, Half, HalfX2, MmaK16};
use ptx::{F32, Inst, Operand, R32, R64, TensorElement, op};
use schedule::Element;
use tile::{Accumulator, Asm};

/// A 16-bit element format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Bf16,
    F16,
}

/// Upper half of a register.
const UPPER: i32 = 0xffff_0000_u32 as i32;

impl Format {
    pub(super) fn of(element: Element) -> Option<Format> {
        match element {
            Element::Bf16 => Some(Format::Bf16),
            Element::F16 => Some(Format::F16),
            _ => None,
        }
    }

    /// As a tensor map names it.
    pub(super) fn tensor(self) -> TensorElement {
        match self {
            Format::Bf16 => TensorElement::Bf16,
            Format::F16 => TensorElement::F16,
        }
    }

    /// The bits of 1.
    pub(super) fn one(self) -> u32 {
        match self {
            Format::Bf16 => 0x3f80,
            Format::F16 => 0x3c00,
        }
    }

    /// The two elements of a register, the lower one first.
    pub(super) fn unpack(self, asm: &mut Asm, pair: R32) -> [F32; 2] {
        match self {
            Format::Bf16 => {
                let low = asm.b32(|d| op::shl(Bits::B32, d, pair, 16));
                let high = asm.b32(|d| op::and(Bits::B32, d, pair, UPPER));
                [low, high].map(|bits| asm.f32(|d| op::mov_float(d, bits)))
            }
            Format::F16 => {
                let halves = [asm.new_b16(), asm.new_b16()];
                asm.emit(op::mov_unpack_b16(Operand::vector(&halves), pair));
                halves.map(|half| asm.f32(|d| op::cvt_f32_half(Half::F16, d, half)))
            }
        }
    }

    /// The magnitudes of the two elements of a register.
    pub(super) fn magnitudes(self, asm: &mut Asm, pair: R32) -> R32 {
        asm.b32(|d| op::abs_pair(self.pairs(), d, pair))
    }

    /// Raises both elements of `most` to those of `pair` where these are larger; not-a-numbers are not.
    pub(super) fn raise(self, asm: &mut Asm, most: R32, pair: R32) {
        asm.emit(op::max_pair(self.pairs(), most, most, pair));
    }

    fn pairs(self) -> HalfX2 {
        match self {
            Format::Bf16 => HalfX2::Bf16x2,
            Format::F16 => HalfX2::F16x2,
        }
    }

    /// One k-step with both operands in shared memory, both K-major.
    pub(super) fn multiply(self, shape: MmaK16, d: &Accumulator, a: R64, b: R64, accumulate: bool) -> Inst {
        let (d, scale_d) = (Operand::vector(d.regs()), i32::from(accumulate));
        match self {
            Format::Bf16 => op::wgmma_ss_bf16(shape, d, a, b, scale_d, 1, 1, 0, 0),
            Format::F16 => op::wgmma_ss_f16(shape, d, a, b, scale_d, 1, 1, 0, 0),
        }
    }
}
