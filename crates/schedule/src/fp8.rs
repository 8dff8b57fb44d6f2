//! What the parts of 8-bit attention agree on: the order of keys in V, the rows of a scale, the offset of P.
//!
//! A stored value times its scale is the number that it stands for. Scales are finite and above zero.

use crate::Rescale;

/// The order of every 16 keys in transposed V: place p of a column holds key `VALUES_ORDER[p]` of its 16. It is the order
/// in which a thread's four scores of a row lie in the accumulator of S, so that they are the four bytes of a register of
/// P.
pub const VALUES_ORDER: [u32; 16] = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];

/// Rows of Q that share a scale under `scales: block`; of K it is the tile's columns.
pub const QUERY_SCALE_ROWS: u32 = 64;

/// The largest exponent of P: log2(448), of the largest e4m3, rounded down.
pub const MOST_EXPONENT: f32 = 8.8;

/// The largest whole exponent below it.
const EXACT: f32 = 8.0;

/// What is added to the exponent of P to use the range of e4m3: P is 2 to this power at the row's maximum, and the threshold
/// more at most. Whole, so that a row of one key is exact.
pub fn offset(rescale: Rescale) -> f32 {
    match rescale {
        // Without a threshold there is none to leave room for; on overflow 8-bit P is refused.
        Rescale::Always | Rescale::OnOverflow => EXACT,
        Rescale::Above(threshold) => (MOST_EXPONENT - threshold.get() + 1e-3).floor().min(EXACT),
    }
}

#[cfg(test)]
mod tests {
    use super::offset;
    use crate::{Rescale, Threshold};

    #[test]
    fn p_stays_below_the_largest_e4m3() {
        assert_eq!(offset(Rescale::Always), 8.0);
        for (threshold, exponent) in [(0.5, 8.0), (0.8, 8.0), (1.0, 7.0), (3.8, 5.0), (4.0, 4.0)] {
            let above = Threshold::new(threshold).map(Rescale::Above);
            assert_eq!(above.map(offset), Some(exponent), "{threshold}");
            assert!((exponent + threshold).exp2() <= 448.0);
        }
    }
}
