//! One entry of a tuning: a class of problems and its schedule.

use std::fmt;

use schedule::{Element, HeadDim, Schedule, Variant};

use super::Bounds;
use crate::Problem;

/// Query rows of the tiles that [`tiles_per_sm`] counts.
const ROWS: u64 = 128;

/// The schedule that a class of problems prefers.
#[derive(Debug, Clone, PartialEq)]
pub struct Preference {
    /// The schedule's name.
    pub schedule: String,
    /// Element type of the problems.
    pub element: Element,
    /// Their head dimensions.
    pub head_dim: HeadDim,
    /// Their mask.
    pub variant: Variant,
    /// Their keys.
    pub keys: Bounds<u64>,
    /// Their queries.
    pub queries: Bounds<u64>,
    /// How much work an SM has: see [`tiles_per_sm`].
    pub tiles_per_sm: Bounds<f64>,
    /// What was measured, TFLOP/s.
    pub tflops: Option<f64>,
    /// On which device.
    pub device: Option<String>,
}

/// Tiles of 128 query rows in all batches and heads, over the SMs.
pub fn tiles_per_sm(problem: &Problem, sms: u32) -> f64 {
    let heads = problem.batch() as f64 * problem.heads() as f64;
    heads * problem.queries().div_ceil(ROWS) as f64 / f64::from(sms.max(1))
}

/// The mask of a problem.
pub fn variant(problem: &Problem) -> Variant {
    if problem.causal() { Variant::Causal } else { Variant::Full }
}

impl Preference {
    /// Whether a problem is of the class and within the bounds.
    pub fn fits(&self, problem: &Problem, sms: u32) -> bool {
        (self.element, self.head_dim, self.variant) == (problem.element(), problem.head_dim(), variant(problem))
            && self.keys.holds(problem.keys())
            && self.queries.holds(problem.queries())
            && self.tiles_per_sm.holds(tiles_per_sm(problem, sms))
    }

    /// Whether a schedule is of the class.
    pub fn is_of_class(&self, schedule: &Schedule) -> bool {
        (self.element, self.head_dim, self.variant) == (schedule.element, schedule.head_dim, schedule.variant)
    }

    /// The class in words.
    pub(super) fn class(&self) -> String {
        format!("{} {} at head dimension {}", self.element, self.variant, self.head_dim)
    }
}

/// `bf16 causal at head dimension 64, keys up to 768, tiles an SM from 1; 294 TFLOP/s on NVIDIA H200`
impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.class())?;
        for (name, bounds) in [("keys", self.keys), ("queries", self.queries)] {
            if !bounds.is_free() {
                write!(f, ", {name} {}", words(bounds.from, bounds.to))?;
            }
        }
        if !self.tiles_per_sm.is_free() {
            write!(f, ", tiles an SM {}", words(self.tiles_per_sm.from, self.tiles_per_sm.to))?;
        }
        if let Some(tflops) = self.tflops {
            write!(f, "; {tflops:.0} TFLOP/s")?;
        }
        match &self.device {
            Some(device) => write!(f, " on {device}"),
            None => Ok(()),
        }
    }
}

/// `from 1 to 2048`
fn words<T: fmt::Display>(from: Option<T>, to: Option<T>) -> String {
    match (from, to) {
        (Some(from), Some(to)) => format!("{from} to {to}"),
        (Some(from), None) => format!("from {from}"),
        (None, Some(to)) => format!("up to {to}"),
        (None, None) => "any".into(),
    }
}
