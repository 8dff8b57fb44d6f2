//! Deterministic test data: counter-based random numbers, and tensors laid out as a problem says.
//!
//! A value depends on the seed and on its place among the logical elements alone, so that two layouts of one problem hold the same numbers.

use rayon::prelude::*;
use tilewright::reference::Host;
use tilewright::{Half, Problem, Strides};

/// 64 random bits for a place (SplitMix64).
pub fn bits(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A number of the standard normal distribution for a place (Box-Muller).
pub fn normal(seed: u64, index: u64) -> f32 {
    let bits = bits(seed, index);
    let unit = |bits: u64| ((bits as u32) as f64 + 0.5) / 4_294_967_296.0;
    let (radius, angle) = (unit(bits >> 32), unit(bits));
    ((-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()) as f32
}

/// Extents `[B, S, H, D]` of Q, K, V and O.
pub fn extents(problem: &Problem) -> [[u64; 4]; 4] {
    let (qk, v) = (u64::from(problem.head_dim().qk), u64::from(problem.head_dim().v));
    let (b, sq, sk, hq, hk) = (problem.batch(), problem.queries(), problem.keys(), problem.heads(), problem.kv_heads());
    [[b, sq, hq, qk], [b, sk, hk, qk], [b, sk, hk, v], [b, sq, hq, v]]
}

/// Elements from the first to the last of a tensor.
pub fn reach(extents: [u64; 4], strides: Strides) -> usize {
    let [b, s, h, d] = extents;
    if extents.contains(&0) { 0 } else { (strides.row(b - 1, s - 1, h - 1) + d) as usize }
}

/// A tensor whose elements come from their place `[b, s, h, d]`; what lies between its rows is NaN.
pub fn tensor<T: Half>(extents: [u64; 4], strides: Strides, value: impl Fn([u64; 4]) -> f32 + Sync) -> Vec<T> {
    let mut all = vec![T::round(f32::NAN); reach(extents, strides)];
    let [_, s, h, d] = extents;
    let fill = |row: u64, out: &mut [T]| {
        let (b, i, head) = (row / h / s, row / h % s, row % h);
        for (c, out) in out.iter_mut().enumerate() {
            *out = T::round(value([b, i, head, c as u64]));
        }
    };
    if strides == Strides::contiguous(s, h, d) {
        all.par_chunks_mut(d as usize).enumerate().for_each(|(row, out)| fill(row as u64, out));
    } else if !all.is_empty() {
        for row in 0..extents[0] * s * h {
            let at = strides.row(row / h / s, row / h % s, row % h) as usize;
            fill(row, &mut all[at..at + d as usize]);
        }
    }
    all
}

/// Q, K and V of a problem in host memory.
#[derive(Clone)]
pub struct Tensors<T> {
    /// Q.
    pub q: Vec<T>,
    /// K.
    pub k: Vec<T>,
    /// V.
    pub v: Vec<T>,
}

impl<T: Half> Tensors<T> {
    /// From their places.
    pub fn of(
        problem: &Problem,
        q: impl Fn([u64; 4]) -> f32 + Sync,
        k: impl Fn([u64; 4]) -> f32 + Sync,
        v: impl Fn([u64; 4]) -> f32 + Sync,
    ) -> Self {
        let ([eq, ek, ev, _], [sq, sk, sv, _]) = (extents(problem), problem.strides());
        Self { q: tensor(eq, sq, q), k: tensor(ek, sk, k), v: tensor(ev, sv, v) }
    }

    /// All from the standard normal distribution.
    pub fn random(problem: &Problem, seed: u64) -> Self {
        let [q, k, v, _] = extents(problem);
        Self::of(problem, noise(seed, q), noise(seed + 1, k), noise(seed + 2, v))
    }

    /// The count pattern: Q = 0, K random, so that every key that a row sees has the same weight.
    pub fn count(problem: &Problem, v: impl Fn([u64; 4]) -> f32 + Sync) -> Self {
        Self::of(problem, |_| 0.0, noise(77, extents(problem)[1]), v)
    }

    /// As the reference takes them.
    pub fn host(&self) -> Host<'_, T> {
        Host { q: &self.q, k: &self.k, v: &self.v }
    }
}

/// Normal numbers by place.
pub fn noise(seed: u64, [_, s, h, d]: [u64; 4]) -> impl Fn([u64; 4]) -> f32 + Sync {
    move |[b, i, head, c]| normal(seed, ((b * s + i) * h + head) * d + c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn numbers_are_normal_and_repeat() {
        let all: Vec<f64> = (0..100_000).map(|i| f64::from(normal(3, i))).collect();
        let mean = all.iter().sum::<f64>() / 1e5;
        let square = all.iter().map(|x| x * x).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.02, "{mean} {square}");
        assert_eq!(normal(3, 17).to_bits(), normal(3, 17).to_bits());
        assert_ne!(normal(3, 17), normal(4, 17));
    }

    #[test]
    fn layouts_hold_the_same_numbers_and_nan_between_rows() {
        let extents = [2, 5, 3, 8];
        let (plain, turned) = (Strides::contiguous(5, 3, 8), Strides::heads_first(5, 3, 8));
        let wide = Strides::new(2 * 5 * 24, 2 * 24, 8);
        let of = |strides| tensor::<bf16>(extents, strides, noise(9, extents));
        let (a, b, c) = (of(plain), of(turned), of(wide));
        for (batch, i, h) in [(0, 0, 0), (1, 4, 2), (1, 0, 1)] {
            let row = |all: &[bf16], s: Strides| all[s.row(batch, i, h) as usize..][..8].to_vec();
            assert_eq!(row(&a, plain), row(&b, turned));
            assert_eq!(row(&a, plain), row(&c, wide));
        }
        assert!(c[24].is_nan() && !c[23].is_nan());
        assert_eq!(reach([2, 0, 3, 8], plain), 0);
    }
}
