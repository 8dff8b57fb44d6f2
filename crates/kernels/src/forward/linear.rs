//! P as bytes of e4m3 without an exponential: 2^x for a fraction of x taken as linear between powers of two (Schraudolph,
//! Neural Computation 11(4), 1999).
//!
//! An e4m3 number of byte y is 2^(e - 7) (1 + m / 8) with y = 8 e + m, so y = 8 (x + 7), rounded, is a number near 2^x: up
//! to 6 % above, by the curve of 2^x below its chord. [`CENTRE`] takes off the mean, so that it is the same as that of
//! 2^x rounded to e4m3, and what is left has a deviation of 3.1 % with the rounding, where the rounding alone has 2.6 %.
//!
//! A multiply-add makes w = 2^-24 y. Numbers of f16 below 2^-14 are multiples of 2^-24: rounding w to it rounds y, and the
//! low byte is y. Below zero, where scores are far below the maximum or masked, the conversion gives 0, and of no number
//! 0x7fff, whose low byte is no number either.

use ptx::qual::HalfX2;
use ptx::{F32, R32, op};
use tile::{Accumulator, Asm};

/// Added to y: the mean of 2^x against its chord, and of rounding to nearest, in eighths of a binade.
const CENTRE: f32 = -0.4647;
/// Steps of y in a binade.
const STEPS: f32 = 8.0;
/// The least number of f16.
const LEAST: f32 = 1.0 / 16_777_216.0;
/// Bias of the exponent of e4m3.
const BIAS: f32 = 7.0;
/// Relative, above the errors of the products and sums between a score and its w.
const ABOVE: f32 = 1.0 / 2_097_152.0;
/// The low bytes of two pairs of 16-bit numbers.
const LOW_BYTES: u32 = 0x6420;

/// w of a score: `score * slope + start`.
#[derive(Clone, Copy)]
pub(super) struct Line {
    slope: F32,
    start: F32,
}

/// What w changes by with an exponent.
const BINADE: f32 = STEPS * LEAST;
/// w of an exponent of zero.
const ZERO: f32 = (STEPS * BIAS + CENTRE) * LEAST;

/// w of an exponent of P.
pub(super) fn of_exponent(exponent: f32) -> f32 {
    ZERO + exponent * BINADE
}

/// The exponent that w stands for.
pub(super) fn exponent(asm: &mut Asm, w: F32) -> F32 {
    asm.f32(|d| op::fma_rn_f32(d, w, 1.0 / BINADE, -ZERO / BINADE))
}

/// Takes so many exponents off w.
pub(super) fn lower(asm: &mut Asm, w: F32, down: F32) {
    asm.emit(op::fma_rn_f32(w, down, -BINADE, w));
}

/// The slope of scores that are multiplied with c.
pub(super) fn slope(asm: &mut Asm, c: F32) -> F32 {
    asm.f32(|d| op::mul_f32(d, c, BINADE))
}

impl Line {
    /// For 2^(score c - shift + offset).
    pub(super) fn new(asm: &mut Asm, slope: F32, shift: F32, offset: f32) -> Line {
        let start = asm.f32(|d| op::fma_rn_f32(d, shift, -BINADE, of_exponent(offset)));
        Line { slope, start }
    }

    /// Turns a score into its w.
    pub(super) fn apply(&self, asm: &mut Asm, score: F32) {
        asm.emit(op::fma_rn_f32(score, score, self.slope, self.start));
    }
}

/// Factors around c, by which a maximum comes out above what it was made of, so that no byte passes the offset's.
pub(super) fn bounds(asm: &mut Asm, c: F32) -> [F32; 2] {
    [1.0 + ABOVE, 1.0 - ABOVE].map(|by| asm.f32(|d| op::mul_f32(d, c, by)))
}

/// Whether register `i` of P is made so, where that is for `quarters` of every four. A register holds keys of one of the
/// lane's two rows, and which ones changes from k-step to k-step, so that rows and keys take equal shares.
pub(super) fn takes(quarters: u32, i: usize) -> bool {
    let (step, quarter) = (i / 4, i % 4);
    let order = if step.is_multiple_of(2) { [2, 3, 0, 1] } else { [3, 2, 1, 0] };
    order[..quarters as usize].contains(&quarter)
}

/// The register of P that holds register `i` of the scores.
pub(super) fn register_of(i: usize) -> usize {
    4 * (i / 16) + 2 * (i % 16 / 8) + Accumulator::half(i)
}

/// Rounds w of the columns of register `i` of P to f16: those of its lower two bytes and of its upper two.
pub(super) fn round(asm: &mut Asm, scores: &Accumulator, i: usize) -> [R32; 2] {
    let [a, b, c, d] = scores.byte_group(i);
    [[b, a], [d, c]].map(|[odd, even]| asm.b32(|d| op::cvt_rn_relu_pair(HalfX2::F16x2, d, odd, even)))
}

/// Puts a register of P together of their low bytes.
pub(super) fn join(asm: &mut Asm, p: R32, [low, high]: [R32; 2]) {
    asm.emit(op::prmt(p, low, high, LOW_BYTES));
}
