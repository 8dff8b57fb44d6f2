//! Attention in f64, from the formula.

use super::{Host, Output, Row, Rows, rows};
use crate::Problem;

/// O = softmax(scale * Q K^T + mask) V and LSE in f64.
///
/// A row that sees no key gives O = 0 and LSE = -inf. NaN in a score the row sees gives NaN in that row.
///
/// # Panics
/// If a buffer is shorter than the problem's shapes and strides reach, or a row is not of the problem.
pub fn attention<T: Copy + Into<f64> + Sync>(problem: &Problem, at: Host<'_, T>, which: Rows<'_>) -> Output {
    rows(problem, which, |row, o| one(problem, &at, row, o))
}

fn one<T: Copy + Into<f64>>(problem: &Problem, at: &Host<'_, T>, row: &Row<'_>, o: &mut [f64]) -> f64 {
    let q: Vec<f64> = row.q(at.q).iter().map(|&x| x.into()).collect();
    let scores: Vec<f64> = (0..row.visible())
        .map(|j| {
            let dot: f64 = q.iter().zip(row.k(at.k, j)).map(|(q, &k)| q * k.into()).sum();
            problem.scale() * dot
        })
        .collect();
    if scores.is_empty() {
        return f64::NEG_INFINITY;
    }
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, |most, s| if s.is_nan() || s > most { s } else { most });
    let mut sum = 0.0;
    for (j, score) in scores.iter().enumerate() {
        // Equal scores weigh the same whatever their size: infinity minus itself would not be 0.
        let weight = if *score == most { 1.0 } else { (score - most).exp() };
        sum += weight;
        for (o, &v) in o.iter_mut().zip(row.v(at.v, j as u64)) {
            *o += weight * v.into();
        }
    }
    o.iter_mut().for_each(|o| *o /= sum);
    most + sum.ln()
}
