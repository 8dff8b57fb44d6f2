//! Attention with 8-bit ingredients in f64, each of which can be left out: what every one of them costs.

mod codes;

pub use codes::{Codes, Rounded, key_order, rows, values};

use super::{Host, Output, Rotation, Row, Rows, e4m3};
use crate::layout::Layout;
use crate::{Problem, Strides};

/// Which elements of a tensor share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// The tensor is not rounded at all.
    Exact,
    /// All of it.
    Tensor,
    /// A head of a batch entry.
    Head,
    /// So many tokens of a head.
    Block(u64),
    /// A column of a head: no kernel has it, but it says what V loses by one scale a head.
    Channel,
}

/// How P is rounded before it is multiplied with V.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probabilities {
    /// P is 2^offset where the score is the row's largest.
    pub offset: f64,
    /// Whether the row's sum is that of the rounded P, as tensor cores sum it, or of P itself, as threads do.
    pub sums_rounded: bool,
}

/// The ingredients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EightBit {
    /// What Q and K are rotated by.
    pub rotation: Option<Rotation>,
    /// Scales of Q.
    pub q: Sharing,
    /// Scales of K.
    pub k: Sharing,
    /// Scales of V.
    pub v: Sharing,
    /// None: P is not rounded.
    pub probabilities: Option<Probabilities>,
}

impl Default for EightBit {
    /// What the kernels do by default: rotated, Q by 64 rows, K by 128, V by head, P up to 2^8 and summed as rounded.
    fn default() -> Self {
        Self {
            rotation: Some(Rotation { seed: 0 }),
            q: Sharing::Block(64),
            k: Sharing::Block(128),
            v: Sharing::Head,
            probabilities: Some(Probabilities { offset: 8.0, sums_rounded: true }),
        }
    }
}

impl EightBit {
    /// FP8 as it is without any of this: one scale a tensor, nothing rotated.
    pub fn plain() -> Self {
        let [q, k, v] = [Sharing::Tensor; 3];
        Self { rotation: None, q, k, v, ..Self::default() }
    }
}

/// Attention with Q, K, V and P rounded to e4m3 as asked for, everything else in f64. P is taken relative to the row's
/// final maximum; a kernel's running maximum differs from it by the blocks before that one is seen.
///
/// # Panics
/// As [`super::attention`].
pub fn eight_bit<T>(problem: &Problem, at: Host<'_, T>, which: Rows<'_>, how: &EightBit) -> Output
where
    T: Copy + Into<f64> + Sync,
{
    let [q, k, v, _] = problem.layouts();
    let (q, k, v) = (
        through_codes(&q, at.q, how.rotation, how.q),
        through_codes(&k, at.k, how.rotation, how.k),
        through_codes(&v, at.v, None, how.v),
    );
    let close = |layout: Layout| {
        let [_, tokens, heads, dim] = layout.extents;
        Strides::contiguous(tokens, heads, dim)
    };
    let [ql, kl, vl, _] = problem.layouts().map(close);
    let problem = Problem { q: ql, k: kl, v: vl, ..*problem };
    let at = Host { q: &q[..], k: &k[..], v: &v[..] };
    super::rows(&problem, which, |row, o| one(&problem, &at, row, how.probabilities, o))
}

fn one(problem: &Problem, at: &Host<'_, f64>, row: &Row<'_>, round: Option<Probabilities>, out: &mut [f64]) -> f64 {
    let q = row.q(at.q);
    let scores: Vec<f64> = (0..row.visible())
        .map(|j| problem.scale() * q.iter().zip(row.k(at.k, j)).map(|(q, k)| q * k).sum::<f64>())
        .collect();
    if scores.is_empty() {
        return f64::NEG_INFINITY;
    }
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, |most, s| if s.is_nan() || s > most { s } else { most });
    let lift = round.map_or(1.0, |round| round.offset.exp2());
    let mut sum = 0.0;
    for (j, score) in scores.iter().enumerate() {
        let exact = if *score == most { lift } else { lift * (score - most).exp() };
        let rounded = round.map_or(exact, |_| e4m3::decode(e4m3::encode(exact as f32)).into());
        sum += if round.is_some_and(|round| round.sums_rounded) { rounded } else { exact };
        for (o, v) in out.iter_mut().zip(row.v(at.v, j as u64)) {
            *o += rounded * v;
        }
    }
    out.iter_mut().for_each(|o| *o /= sum);
    most + (sum / lift).ln()
}

/// Rotates a tensor, rounds it to codes and scales and back: `[B, S, H, D]` without gaps.
fn through_codes<T: Copy + Into<f64>>(
    layout: &Layout,
    data: &[T],
    rotation: Option<Rotation>,
    sharing: Sharing,
) -> Vec<f64> {
    let [batch, tokens, heads, dim] = layout.extents;
    let mut all = Vec::with_capacity((batch * tokens * heads * dim) as usize);
    for b in 0..batch {
        for (s, h) in (0..tokens).flat_map(|s| (0..heads).map(move |h| (s, h))) {
            let row = super::slice(data, layout.strides.row(b, s, h), dim as u32);
            let mut row: Vec<f64> = row.iter().map(|&x| x.into()).collect();
            if let Some(rotation) = rotation {
                rotation.apply(&mut row);
            }
            all.extend(row);
        }
    }
    if sharing == Sharing::Exact {
        return all;
    }
    let share = |at: usize| {
        let (row, column) = (at as u64 / dim, at as u64 % dim);
        let (token, head) = (row / heads % tokens, row / heads / tokens * heads + row % heads);
        match sharing {
            Sharing::Exact | Sharing::Tensor => 0,
            Sharing::Head => head,
            Sharing::Block(length) => head * tokens.div_ceil(length) + token / length,
            Sharing::Channel => head * dim + column,
        }
    };
    let shares = (0..all.len()).map(share).max().map_or(0, |last| last + 1);
    let mut most = vec![0.0_f64; shares as usize];
    for (at, value) in all.iter().enumerate() {
        let most = &mut most[share(at) as usize];
        *most = most.max(value.abs());
    }
    for (at, value) in all.iter_mut().enumerate() {
        let most = most[share(at) as usize];
        if most > 0.0 {
            let scale = most / f64::from(e4m3::MAX);
            *value = f64::from(e4m3::decode(e4m3::encode((*value / scale) as f32))) * scale;
        }
    }
    all
}

#[cfg(test)]
mod tests;
