//! Can a schedule compute a problem: right or refused, with no thought of speed.

use std::fmt;

use runtime::Error;
use schedule::{Element, HeadDim, Pass, Schedule, Variant};

use crate::{Problem, abi};

/// Why a schedule cannot compute a problem.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Ineligible {
    /// It is of another pass.
    Pass(Pass),
    /// It is for another element type.
    Element(Element),
    /// It is for another head dimension.
    HeadDim(HeadDim),
    /// It has another mask.
    Mask(Variant),
    /// The problem passes a limit of its tiling.
    Limit(Error),
}

impl fmt::Display for Ineligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass(pass) => write!(f, "is of the {pass} pass"),
            Self::Element(element) => write!(f, "takes {element}"),
            Self::HeadDim(head_dim) => write!(f, "has head dimension {head_dim}"),
            Self::Mask(Variant::Full) => f.write_str("has no mask"),
            Self::Mask(variant) => write!(f, "has the {variant} mask"),
            Self::Limit(error) => write!(f, "{error}"),
        }
    }
}

/// Whether the schedule computes exactly this problem.
///
/// A causal problem of one query hides nothing, so that a schedule without a mask does as well as the causal one.
///
/// # Errors
/// The first reason against it.
pub fn eligible(schedule: &Schedule, problem: &Problem) -> Result<(), Ineligible> {
    if schedule.pass != Pass::Forward {
        return Err(Ineligible::Pass(schedule.pass));
    }
    if schedule.element != problem.element() {
        return Err(Ineligible::Element(schedule.element));
    }
    if schedule.head_dim != problem.head_dim() {
        return Err(Ineligible::HeadDim(schedule.head_dim));
    }
    match schedule.variant {
        Variant::Full if !problem.is_masked() => {}
        Variant::Causal if problem.causal() => {}
        other => return Err(Ineligible::Mask(other)),
    }
    abi::forward::scalars(problem, schedule).map(|_| ()).map_err(Ineligible::Limit)
}
