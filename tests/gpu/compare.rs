//! What counts as right: twice the error of a 16-bit reference, or a value known in closed form.

use rayon::prelude::*;
use tilewright::reference::{self, Host, Output, Rows};
use tilewright::{Element, Half, Problem, error};

use crate::gpu::call::{Answer, every_row};
use crate::gpu::data::{Tensors, bits};

/// How far LSE may be off.
pub const LSE: f64 = 1e-3;

/// Where both errors are next to nothing, their ratio means nothing.
const FLOOR: f64 = 1e-5;

/// Whether it is within the bound; NaN is within none.
fn within(off: f64, bound: f64) -> bool {
    off <= bound
}

/// Errors of one call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Errors {
    /// Of O, relative in norm.
    pub kernel: f64,
    /// Of the 16-bit reference's O.
    pub reference: f64,
    /// Of LSE, absolute.
    pub lse: f64,
}

impl Errors {
    /// The kernel's error in units of the reference's.
    pub fn ratio(&self) -> f64 {
        if self.kernel <= FLOOR { 0.0 } else { self.kernel / self.reference }
    }

    /// The worse of each.
    pub fn worse(self, other: Self) -> Self {
        let lse = self.lse.max(other.lse);
        if other.ratio() > self.ratio() { Self { lse, ..other } } else { Self { lse, ..self } }
    }
}

/// Query rows to look at: all of a short problem; of a long one the ends, both sides of every kind of tile boundary, and 32 others.
pub fn rows(problem: &Problem, tile: u64) -> Vec<u64> {
    let queries = problem.queries();
    if queries <= 192 {
        return (0..queries).collect();
    }
    let last_tile = (queries - 1) / tile * tile;
    let edges = [64, tile, 2 * tile, last_tile, queries.saturating_sub(problem.keys()), queries - 1];
    let mut rows: Vec<u64> = edges.iter().flat_map(|&edge| [edge.saturating_sub(1), edge, edge + 1]).collect();
    rows.extend((0..32).map(|at| bits(queries, at) % queries));
    rows.push(0);
    rows.retain(|&row| row < queries);
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Holds an answer against both references in the given rows.
///
/// # Errors
/// What is off, in words.
pub fn against_references<T: Half>(answer: &Answer<T>, host: &Tensors<T>, which: &[u64]) -> Result<Errors, String> {
    let (problem, rows) = (&answer.problem, Rows::These(which));
    // Widened once, without loss, instead of in the innermost loop.
    let [q, k, v] = [&host.q, &host.k, &host.v].map(|all| all.par_iter().map(|x| x.widen()).collect::<Vec<f32>>());
    let exact = reference::attention(problem, Host { q: &q, k: &k, v: &v }, rows);
    let best = reference::sixteen_bit(problem, host.host(), rows);
    let o = Output::pick_o(problem, rows, &answer.o);
    let lse = Output::pick_lse(problem, rows, &answer.lse);
    let errors = Errors {
        kernel: error::relative(&o, &exact.o),
        reference: error::relative(&best.o, &exact.o),
        lse: error::absolute(&lse, &exact.lse),
    };
    let Errors { kernel, reference, lse: off } = errors;
    if !within(kernel, 2.0 * reference + FLOOR) {
        let first = first_off(problem, which, &o, &exact.o, 8.0 * reference);
        return Err(format!("O is off by {kernel:.2e}, a 16-bit reference by {reference:.2e}; {first}"));
    }
    if !within(off, LSE) {
        let pairs = lse.iter().zip(&exact.lse);
        let worst = pairs.enumerate().find(|&(_, (a, b))| a != b && !within((a - b).abs(), LSE));
        let (at, (found, right)) = worst.unwrap_or((0, (&f64::NAN, &f64::NAN)));
        let row = which[at % which.len()];
        return Err(format!("LSE is off by {off:.2e}, first in row {row}: {found} instead of {right}"));
    }
    Ok(errors)
}

/// The first element that is far off, by its place.
fn first_off(problem: &Problem, which: &[u64], found: &[f64], right: &[f64], bound: f64) -> String {
    let (dim, heads) = (problem.head_dim().v as usize, problem.heads() as usize);
    let bound = bound.max(FLOOR);
    let far = |(a, b): (&f64, &f64)| !within((a - b).abs(), bound * b.abs().max(1.0));
    let pairs = || found.iter().zip(right);
    let Some(at) = pairs().position(far) else { return "no single element is far off".to_owned() };
    let (row, channel) = (at / dim, at % dim);
    let (outer, head) = (row / heads, row % heads);
    let (batch, query) = (outer / which.len(), which[outer % which.len()]);
    let many = pairs().filter(|&pair| far(pair)).count();
    let (a, b) = (found[at], right[at]);
    format!(
        "{many} elements far off, first batch {batch} row {query} head {head} channel {channel}: {a} instead of {b}"
    )
}

/// The house tolerance of O, absolute or relative.
pub fn tolerance(element: Element) -> f64 {
    match element {
        Element::F16 => 2_f64.powi(-10),
        _ => 2_f64.powi(-7),
    }
}

/// What a row must be: the same O in every channel, and its LSE.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// O.
    pub o: f64,
    /// LSE.
    pub lse: f64,
}

/// A row that sees no key.
pub const EMPTY: Row = Row { o: 0.0, lse: f64::NEG_INFINITY };

/// How far a row may be off.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// O, absolute or relative.
    pub o: f64,
    /// LSE, absolute.
    pub lse: f64,
}

/// Holds every row against its known value within the house tolerances.
pub fn every<T: Half>(answer: &Answer<T>, right: impl Fn([u64; 3]) -> Row) {
    every_within(answer, Bounds { o: tolerance(T::ELEMENT), lse: LSE }, right);
}

/// Holds every row against its known value. Rows that see nothing must be right to the bit.
pub fn every_within<T: Half>(answer: &Answer<T>, bounds: Bounds, right: impl Fn([u64; 3]) -> Row) {
    for [b, i, h] in every_row(&answer.problem) {
        let right = right([b, i, h]);
        let empty = right.lse == f64::NEG_INFINITY;
        let o = if empty { 0.0 } else { bounds.o * right.o.abs().max(1.0) };
        for (channel, &found) in answer.o(b, i, h).iter().enumerate() {
            let (found, problem): (f64, _) = (found.into(), &answer.problem);
            assert!(
                (found - right.o).abs() <= o,
                "{problem}: O of batch {b} row {i} head {h} channel {channel} is {found} instead of {}",
                right.o
            );
        }
        let found = f64::from(answer.lse(b, i, h));
        let fits = if empty { found == right.lse } else { (found - right.lse).abs() <= bounds.lse };
        assert!(fits, "{}: LSE of batch {b} row {i} head {h} is {found} instead of {}", answer.problem, right.lse);
    }
}

/// Fails unless both hold the same bits in every row.
pub fn same<T: Half>(what: &str, found: &Answer<T>, right: &Answer<T>) {
    let different = every_row(&right.problem).find(|&row| !found.same_row(right, row));
    if let Some([b, i, h]) = different {
        let (x, y) = (found.o(b, i, h), right.o(b, i, h));
        let channel = x.iter().zip(y).position(|(x, y)| x.widen().to_bits() != y.widen().to_bits());
        let at = channel.unwrap_or(0);
        let (l, m) = (found.lse(b, i, h), right.lse(b, i, h));
        panic!(
            "{what}: {}: batch {b} row {i} head {h} channel {at}: {} instead of {}, LSE {l} instead of {m}",
            right.problem,
            x[at].widen(),
            y[at].widen()
        );
    }
}

/// Whether all of a long slice is one value, compared in parallel.
pub fn all_are<T: Half>(values: &[T], value: f32) -> bool {
    let bits = T::round(value).widen().to_bits();
    values.par_iter().all(|x| x.widen().to_bits() == bits)
}
