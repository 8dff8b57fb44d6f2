//! Attention on the CPU, to hold a GPU's result against.
//!
//! [`attention`] computes in f64 from the formula; [`sixteen_bit`] computes as 16-bit hardware must at best, so that
//! its error against [`attention`] says what error a kernel of that element type may have. [`eight_bit`] takes the
//! ingredients of e4m3 attention one by one; [`codes`] are what the quantizer writes.

pub mod e4m3;
mod eight_bit;
mod exact;
mod half_precision;
mod rotation;
mod sample;

/// Codes and scales as the quantizer writes them.
pub mod codes {
    pub use super::eight_bit::{Codes, Rounded, key_order, rows, values};
}

pub use eight_bit::{EightBit, Probabilities, Sharing, eight_bit};
pub use exact::attention;
pub use half_precision::sixteen_bit;
pub use rotation::Rotation;
pub use sample::{normal, with_outliers};

use rayon::prelude::*;

use crate::Problem;

/// Which query rows are computed, in every batch and head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows<'a> {
    /// All.
    All,
    /// These, in this order: large shapes are checked in part.
    These(&'a [u64]),
}

impl Rows<'_> {
    /// How many.
    pub fn count(&self, problem: &Problem) -> usize {
        match self {
            Self::All => problem.queries() as usize,
            Self::These(rows) => rows.len(),
        }
    }

    /// The row at a place.
    fn at(&self, place: usize) -> u64 {
        match self {
            Self::All => place as u64,
            Self::These(rows) => rows[place],
        }
    }
}

/// Q, K and V in host memory, laid out as the problem says.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a, T> {
    /// Q.
    pub q: &'a [T],
    /// K.
    pub k: &'a [T],
    /// V.
    pub v: &'a [T],
}

/// O and LSE of the rows asked for, contiguous whatever the problem's strides.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// `[B, rows, Hq, Dv]`.
    pub o: Vec<f64>,
    /// `[B, Hq, rows]`, natural logarithm.
    pub lse: Vec<f64>,
}

impl Output {
    /// Picks the rows of a kernel's O, laid out by the problem's strides, in the order of [`Output::o`].
    ///
    /// # Panics
    /// If the buffer is shorter than shape and strides reach.
    pub fn pick_o<T: Copy + Into<f64>>(problem: &Problem, rows: Rows<'_>, o: &[T]) -> Vec<f64> {
        let (dim, strides) = (problem.head_dim().v as usize, problem.strides()[3]);
        let mut picked =
            Vec::with_capacity(problem.batch() as usize * rows.count(problem) * problem.heads() as usize * dim);
        for b in 0..problem.batch() {
            for row in (0..rows.count(problem)).map(|place| rows.at(place)) {
                for h in 0..problem.heads() {
                    let at = strides.row(b, row, h) as usize;
                    picked.extend(o[at..at + dim].iter().map(|&x| -> f64 { x.into() }));
                }
            }
        }
        picked
    }

    /// Picks the rows of a kernel's LSE `[B, Hq, Sq]` in the order of [`Output::lse`].
    ///
    /// # Panics
    /// If the buffer is shorter than the shape.
    pub fn pick_lse(problem: &Problem, rows: Rows<'_>, lse: &[f32]) -> Vec<f64> {
        let heads = problem.batch() * problem.heads();
        let places = || (0..rows.count(problem)).map(|place| rows.at(place));
        (0..heads)
            .flat_map(|head| places().map(move |row| head * problem.queries() + row))
            .map(|at| lse[at as usize].into())
            .collect()
    }
}

/// One row to compute: its query vector's offset, the offsets of its keys and values, how many it sees.
struct Row<'a> {
    problem: &'a Problem,
    batch: u64,
    head: u64,
    query: u64,
}

impl Row<'_> {
    /// Keys it sees.
    fn visible(&self) -> u64 {
        self.problem.visible(self.query)
    }

    /// Its query vector.
    fn q<'t, T>(&self, q: &'t [T]) -> &'t [T] {
        slice(q, self.problem.q.row(self.batch, self.query, self.head), self.problem.head_dim.qk)
    }

    /// Key `j` as it sees it.
    fn k<'t, T>(&self, k: &'t [T], j: u64) -> &'t [T] {
        slice(k, self.problem.k.row(self.batch, j, self.head / self.problem.group()), self.problem.head_dim.qk)
    }

    /// Value `j` as it sees it.
    fn v<'t, T>(&self, v: &'t [T], j: u64) -> &'t [T] {
        slice(v, self.problem.v.row(self.batch, j, self.head / self.problem.group()), self.problem.head_dim.v)
    }
}

fn slice<T>(all: &[T], at: u64, dim: u32) -> &[T] {
    &all[at as usize..at as usize + dim as usize]
}

/// Computes every row by `one`, which fills its O and gives its LSE, in parallel.
fn rows(problem: &Problem, which: Rows<'_>, one: impl Fn(&Row<'_>, &mut [f64]) -> f64 + Sync) -> Output {
    let (heads, dim, count) = (problem.heads() as usize, problem.head_dim().v as usize, which.count(problem));
    let total = problem.batch() as usize * count * heads;
    let mut o = vec![0.0; total * dim];
    // In the order of O: batch, row, head.
    let by_row: Vec<f64> = o
        .par_chunks_mut(dim)
        .enumerate()
        .map(|(at, o)| {
            let (outer, head) = (at / heads, at % heads);
            let (batch, place) = ((outer / count) as u64, outer % count);
            one(&Row { problem, batch, head: head as u64, query: which.at(place) }, o)
        })
        .collect();
    let mut lse = vec![0.0; total];
    for (at, value) in by_row.into_iter().enumerate() {
        let (outer, head) = (at / heads, at % heads);
        let (batch, place) = (outer / count, outer % count);
        lse[(batch * heads + head) * count + place] = value;
    }
    Output { o, lse }
}

#[cfg(test)]
mod tests;
