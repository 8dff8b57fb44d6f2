//! 2^x on the multiply-add units, for where the exponential unit is what a block waits for: 2^n by the exponent's bits,
//! and 2^f of the fraction by a polynomial of the second degree (W. J. Cody and W. Waite, Software Manual for the
//! Elementary Functions, 1980; FlashAttention-4 does so).
//!
//! The polynomial is within 0.18 % of 2^f from -1/2 to 1/2, and 0.006 % off in the mean. P is rounded to e4m3, by up to
//! 6 %, behind it.

use ptx::qual::Int;
use ptx::{F32, op};
use tile::Asm;

/// Added to x, the sum is rounded to a whole number, which stands in its lowest bits: 1.5 times 2^23.
const WHOLE: f32 = 12_582_912.0;
/// Of the polynomial, the constant term first: those with the least relative error.
const COEFFICIENTS: [f32; 3] = [1.000_443_1, 0.703_448, 0.238_428_94];
/// Least exponent: far below what e4m3 rounds to zero, and within the range of a single.
const LEAST: f32 = -64.0;
/// One in the exponent of a single, and the bits of 1.
const EXPONENT: i32 = 1 << 23;
const ONE: u32 = 1.0_f32.to_bits();

/// Whether element `i` of a lane's row is made so, where that is for `eighths` of every eight.
pub(super) fn takes(eighths: u32, i: usize) -> bool {
    i % 8 < eighths as usize
}

/// Turns x, up to 127, into 2^x. What is no number stays none.
pub(super) fn exp2(asm: &mut Asm, x: F32) {
    let [constant, linear, square] = COEFFICIENTS;
    asm.emit(op::max_nan_f32(x, x, LEAST));
    let sum = asm.f32(|d| op::add_f32(d, x, WHOLE));
    let whole = asm.f32(|d| op::sub_f32(d, sum, WHOLE));
    let fraction = asm.f32(|d| op::sub_f32(d, x, whole));
    let inner = asm.f32(|d| op::fma_rn_f32(d, fraction, square, linear));
    let power = asm.f32(|d| op::fma_rn_f32(d, inner, fraction, constant));
    let bits = asm.b32(|d| op::mov_bits(d, sum));
    let shifted = asm.b32(|d| op::mad_lo(Int::U32, d, bits, EXPONENT, ONE as i32));
    let factor = asm.f32(|d| op::mov_float(d, shifted));
    asm.emit(op::mul_f32(x, power, factor));
}

#[cfg(test)]
mod tests {
    use super::COEFFICIENTS;

    #[test]
    fn the_polynomial_is_as_near_as_its_doc_says() {
        let [constant, linear, square] = COEFFICIENTS.map(f64::from);
        let off: Vec<f64> = (-5000..=5000)
            .map(|i| f64::from(i) / 10_000.0)
            .map(|f| (constant + f * (linear + f * square)) / f.exp2() - 1.0)
            .collect();
        let most = off.iter().fold(0.0_f64, |most, off| most.max(off.abs()));
        let mean = off.iter().sum::<f64>() / off.len() as f64;
        assert!(most < 1.8e-3 && mean.abs() < 6.1e-5, "{most} {mean}");
    }
}
