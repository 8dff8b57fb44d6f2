//! How a product of matrices adds up its products of numbers. What the manual leaves open ("wgmma.mma_async": accumulation
//! is in at least single precision for 16-bit operands, and says nothing for 8-bit ones).

/// How products of 8-bit elements are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sums {
    /// Over k in order, in single precision, as those of 16-bit elements are.
    #[default]
    Single,
    /// As a Hopper does, by a model.
    Truncated,
}

/// Bits below the greatest exponent that take part in a sum.
const FRACTION: i32 = 13;

/// Adds one row of A, `depth` elements, times B, of `line.len()` columns, k by k, in single precision.
pub(super) fn single(line: &mut [f32], row: &[f32], right: &[f32]) {
    for (&value, b) in row.iter().zip(right.chunks_exact(line.len())) {
        line.iter_mut().zip(b).for_each(|(sum, &b)| *sum += value * b);
    }
}

/// The same by the model of a Hopper's 8-bit products.
pub(super) fn truncated(line: &mut [f32], row: &[f32], right: &[f32]) {
    let n = line.len();
    for (column, sum) in line.iter_mut().enumerate() {
        let terms = || row.iter().enumerate().map(|(k, &a)| f64::from(a) * f64::from(right[k * n + column]));
        *sum = aligned(*sum, terms());
    }
}

/// An accumulator and products, aligned to the greatest of them and cut off below.
fn aligned(accumulator: f32, products: impl Iterator<Item = f64> + Clone) -> f32 {
    let all = products.chain([f64::from(accumulator)]);
    let exponent = |x: f64| (x.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    let Some(greatest) = all.clone().filter(|x| *x != 0.0).map(exponent).max() else { return 0.0 };
    if greatest > 1000 {
        return all.sum::<f64>() as f32;
    }
    let unit = f64::from_bits(((greatest - FRACTION + 1023) as u64) << 52);
    (all.map(|x| (x / unit).trunc()).sum::<f64>() * unit) as f32
}
