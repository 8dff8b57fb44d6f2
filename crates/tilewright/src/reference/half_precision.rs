//! Attention as a kernel of 16-bit elements computes it when nothing else is lost.

use super::{Host, Output, Row, Rows, rows};
use crate::{Half, Problem};

/// Attention with the roundings that 16-bit tensor cores force and no others: scores in f32, P rounded to the element
/// after the row maximum is subtracted, row sums in f32 over P before it is rounded, O accumulated in f32 and rounded
/// to the element.
///
/// A kernel is held to twice the error of this against [`super::attention`].
///
/// # Panics
/// As [`super::attention`].
pub fn sixteen_bit<T: Half>(problem: &Problem, at: Host<'_, T>, which: Rows<'_>) -> Output {
    rows(problem, which, |row, o| one(problem, &at, row, o))
}

fn one<T: Half>(problem: &Problem, at: &Host<'_, T>, row: &Row<'_>, out: &mut [f64]) -> f64 {
    let q: Vec<f32> = row.q(at.q).iter().map(|x| x.widen()).collect();
    let scale = problem.scale() as f32;
    let scores: Vec<f32> = (0..row.visible())
        .map(|j| scale * q.iter().zip(row.k(at.k, j)).map(|(q, k)| q * k.widen()).sum::<f32>())
        .collect();
    if scores.is_empty() {
        return f64::NEG_INFINITY;
    }
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, |most, s| if s.is_nan() || s > most { s } else { most });
    let mut o = vec![0.0_f32; out.len()];
    let mut sum = 0.0_f32;
    for (j, score) in scores.iter().enumerate() {
        let weight = if *score == most { 1.0 } else { (score - most).exp() };
        sum += weight;
        let weight = T::round(weight).widen();
        for (o, v) in o.iter_mut().zip(row.v(at.v, j as u64)) {
            *o += weight * v.widen();
        }
    }
    for (out, o) in out.iter_mut().zip(o) {
        *out = T::round(o / sum).into();
    }
    f64::from(most + sum.ln())
}
