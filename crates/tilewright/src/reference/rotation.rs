//! The rotation of Q and K before they are rounded to 8 bits, on the CPU.

/// Random signs from a seed, then a Hadamard matrix over blocks of columns: orthogonal, so that products of two rotated
/// rows are those of the rows (FlashAttention-3, arXiv 2407.08608, section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rotation {
    /// Chooses the signs.
    pub seed: u32,
}

impl Rotation {
    /// Columns that are mixed with one another: the largest power of two that divides the head dimension.
    pub fn block(dim: usize) -> usize {
        1 << dim.trailing_zeros()
    }

    /// The sign of a column: a hash of seed and column (the finish of MurmurHash3, public domain, Appleby).
    pub fn is_negative(self, column: usize) -> bool {
        let mut h = (column as u32).wrapping_mul(0x9e37_79b9).wrapping_add(self.seed);
        h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
        h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
        h >> 31 == 1
    }

    /// Rotates a row, but for the factor of one over the root of [`Rotation::block`].
    pub fn apply_unscaled(self, row: &mut [f64]) {
        for (column, value) in row.iter_mut().enumerate() {
            if self.is_negative(column) {
                *value = -*value;
            }
        }
        for block in row.chunks_mut(Self::block(row.len())) {
            let mut apart = 1;
            while apart < block.len() {
                for pair in block.chunks_mut(2 * apart) {
                    let (left, right) = pair.split_at_mut(apart);
                    for (a, b) in left.iter_mut().zip(right) {
                        (*a, *b) = (*a + *b, *a - *b);
                    }
                }
                apart *= 2;
            }
        }
    }

    /// Rotates a row.
    pub fn apply(self, row: &mut [f64]) {
        let factor = 1.0 / (Self::block(row.len()) as f64).sqrt();
        self.apply_unscaled(row);
        row.iter_mut().for_each(|value| *value *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::normal;

    #[test]
    fn products_and_lengths_stay_at_every_head_dimension() {
        for dim in (8..=256).step_by(8) {
            let rows = |seed| -> Vec<f64> { normal(seed, dim).into_iter().map(f64::from).collect() };
            let (a, b) = (rows(1), rows(2));
            let (mut ra, mut rb) = (a.clone(), b.clone());
            let rotation = Rotation { seed: 7 };
            rotation.apply(&mut ra);
            rotation.apply(&mut rb);
            let dot = |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| x * y).sum() };
            assert!((dot(&a, &b) - dot(&ra, &rb)).abs() < 1e-9, "{dim}");
            assert!((dot(&a, &a) - dot(&ra, &ra)).abs() < 1e-9, "{dim}");
        }
    }

    #[test]
    fn an_outlier_is_spread_over_its_block() {
        let mut row = vec![0.0; 96];
        row[40] = 8.0;
        Rotation { seed: 3 }.apply(&mut row);
        let spread = 8.0 / 32_f64.sqrt();
        for (column, value) in row.iter().enumerate() {
            let wanted = if (32..64).contains(&column) { spread } else { 0.0 };
            assert!((value.abs() - wanted).abs() < 1e-12, "{column}: {value}");
        }
    }

    #[test]
    fn signs_are_about_even_and_follow_the_seed() {
        let signs = |seed| -> Vec<bool> { (0..256).map(|column| Rotation { seed }.is_negative(column)).collect() };
        for seed in 0..32 {
            let negative = signs(seed).iter().filter(|&&negative| negative).count();
            assert!((96..=160).contains(&negative), "{seed}: {negative}");
            assert_ne!(signs(seed), signs(seed + 1));
        }
    }
}
