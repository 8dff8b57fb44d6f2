//! How a product of matrices adds up products of numbers. The manual leaves that open (PTX ISA, "wgmma.mma_async").
//!
//! Hopper's products of 8-bit elements do not add up in single precision: it is known that about 14 bits take part
//! (DeepSeek-V3, technical report, 3.3.2), which costs long sums their low bits. What [`Sums::Truncated`] does agrees with
//! an H200 to the bit in 552,960 sums of e4m3 and as many of e5m2: random and chosen terms, subnormal elements, infinities
//! and no numbers, with and without an accumulator, one instruction and two in a row. It is a model nevertheless: nobody
//! documents it.

use crate::float::{self, power};
use crate::float8::Float8;

/// How products of 8-bit elements are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sums {
    /// Over k in order, in single precision, as those of 16-bit elements are.
    #[default]
    Single,
    /// The accumulator and the 32 products of an instruction at once, each cut off 13 bits below the greatest exponent
    /// among them, and their sum cut to 14 bits again. An exponent is that of the factors together, so that a product may
    /// come to nearly four times its power of two. What is cut off is lost, towards zero.
    Truncated,
}

/// Bits of a fraction that take part in a sum, and that are left of it.
const FRACTION: i32 = 13;

/// Adds one row of A times B, of as many columns as the row of sums has, k by k, in single precision.
pub(super) fn single(sums: &mut [f32], row: &[f32], right: &[f32]) {
    for (&value, b) in row.iter().zip(right.chunks_exact(sums.len())) {
        sums.iter_mut().zip(b).for_each(|(sum, &b)| *sum += value * b);
    }
}

/// The same as [`Sums::Truncated`] says, of elements in these formats.
pub(super) fn truncated(sums: &mut [f32], row: &[f32], right: &[f32], [of_a, of_b]: [Float8; 2]) {
    let n = sums.len();
    let a: Vec<(f32, i32)> = row.iter().map(|&a| (a, exponent(a, of_a.least_exponent()))).collect();
    let mut terms = Vec::with_capacity(a.len());
    for (column, sum) in sums.iter_mut().enumerate() {
        terms.clear();
        terms.extend(a.iter().enumerate().map(|(k, &(a, exponent_a))| {
            let b = right[k * n + column];
            (a * b, exponent_a + exponent(b, of_b.least_exponent()))
        }));
        terms.push((*sum, exponent(*sum, -126)));
        *sum = aligned(&terms);
    }
}

/// The exponent of a number in a format whose subnormal numbers have the least.
fn exponent(value: f32, least: i32) -> i32 {
    ((value.to_bits() >> 23 & 0xff) as i32 - 127).max(least)
}

/// The sum of terms with their exponents.
fn aligned(terms: &[(f32, i32)]) -> f32 {
    if terms.iter().any(|(term, _)| !term.is_finite()) {
        return float::canonical(terms.iter().map(|(term, _)| term).sum());
    }
    let Some(greatest) = terms.iter().filter(|(term, _)| *term != 0.0).map(|(_, e)| *e).max() else { return 0.0 };
    // Exact: the terms are below 2^15 units, and there are 33 of them.
    let units = |term: f32| (f64::from(term) * power(FRACTION - greatest)) as i32;
    let sum: i32 = terms.iter().map(|(term, _)| units(*term)).sum();
    let beyond = (32 - sum.unsigned_abs().leading_zeros() as i32) - (FRACTION + 1);
    let kept = match beyond {
        1.. => sum / (1 << beyond) * (1 << beyond),
        _ => sum,
    };
    (f64::from(kept) * power(greatest - FRACTION)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use Float8::{E4m3, E5m2};

    /// One sum of pairs of factors onto an accumulator.
    fn sum(accumulator: f32, factors: &[(f32, f32)]) -> f32 {
        let (row, right): (Vec<f32>, Vec<f32>) = factors.iter().copied().unzip();
        let mut sums = [accumulator];
        truncated(&mut sums, &row, &right, [E4m3, E4m3]);
        sums[0]
    }

    #[test]
    fn terms_are_cut_13_bits_below_the_greatest() {
        // As the chip has it: 2^16 with 2^3 and with 2^2, from a product or from the accumulator.
        assert_eq!(sum(0.0, &[(256.0, 256.0), (8.0, 1.0)]), 65544.0);
        assert_eq!(sum(0.0, &[(256.0, 256.0), (4.0, 1.0)]), 65536.0);
        assert_eq!(sum(65536.0, &[(-8.0, 1.0)]), 65528.0);
        assert_eq!(sum(65536.0, &[(-4.0, 1.0)]), 65536.0);
        // Each for itself, though together they would count, and though the greatest cancel.
        assert_eq!(sum(65536.0, &[(4.0, 1.0); 31]), 65536.0);
        assert_eq!(sum(0.0, &[(256.0, 256.0), (4.0, 1.0), (-256.0, 256.0)]), 0.0);
        // Towards zero: 12 is one unit and a half.
        assert_eq!(sum(65536.0, &[(12.0, 1.0)]), 65544.0);
        assert_eq!(sum(65536.0, &[(-12.0, 1.0)]), 65528.0);
    }

    #[test]
    fn an_accumulator_alone_is_cut_too() {
        let below = |bits: i32| 1.0 + (2f32).powi(-bits);
        assert_eq!(sum(below(13), &[(0.0, 0.0)]), below(13));
        assert_eq!(sum(below(14), &[(0.0, 0.0)]), 1.0);
        assert_eq!(sum(0.0, &[(0.0, 1.0)]), 0.0);
    }

    #[test]
    fn a_sum_is_cut_again_where_it_carries() {
        let below = |bits: i32| 1.0 + (2f32).powi(-bits);
        assert_eq!(sum(below(12), &[(1.0, 1.0)]), 1.0 + below(12));
        assert_eq!(sum(below(13), &[(1.0, 1.0)]), 2.0);
    }

    #[test]
    fn exponents_are_those_of_the_factors() {
        // 1.875 * 1.875 is 3.5 with the exponent 0, so that 2^-13 counts beside it; the sum has one bit less.
        let square = 1.875 * 1.875;
        assert_eq!(
            sum(0.0, &[(1.875, 1.875), (1.0 / 64.0, 1.0 / 64.0), (1.0 / 64.0, 1.0 / 64.0)]),
            square + 1.0 / 2048.0
        );
        // The least e4m3 number counts as 2^-6 with a fraction of 2^-3.
        assert_eq!(sum(0.0, &[(1.0 / 512.0, 1.0), (1.0 / 512.0, 1.0 / 64.0)]), 1.0 / 512.0 + 1.0 / 32768.0);
        assert_eq!(exponent(1.0 / 65536.0, E5m2.least_exponent()), -14);
    }

    #[test]
    fn what_is_exact_in_14_bits_is_exact() {
        let mut state = 9u32;
        let mut small = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 28) as f32 - 8.0
        };
        for _ in 0..1000 {
            let factors: Vec<(f32, f32)> = (0..32).map(|_| (small(), small())).collect();
            let exact: f32 = factors.iter().map(|(a, b)| a * b).sum();
            assert_eq!(sum(100.0, &factors), 100.0 + exact);
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        assert!(sum(0.0, &[(f32::NAN, 1.0)]).is_nan() && sum(f32::NAN, &[(1.0, 1.0)]).is_nan());
        let mut sums = [1.0];
        truncated(&mut sums, &[f32::INFINITY], &[2.0], [E5m2, E5m2]);
        assert_eq!(sums, [f32::INFINITY]);
    }
}
