//! Can a schedule compute a problem: right or refused, with no thought of speed.

use std::fmt;

use runtime::Error;
use schedule::{Accumulate, Element, HeadDim, Output, Pass, Scales, Schedule, Values, Variant};

use crate::abi::forward::{self, scales};
use crate::{Accumulation, Problem};

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
    /// It writes another type of O.
    Output(Output),
    /// It takes V in another order.
    Values(Values),
    /// It has one scale a head for Q and K, the problem more.
    ScalesByHead,
    /// A scale of its K is for a key tile of so many rows, the problem's for another number.
    KeyBlock(u32),
    /// It keeps sums of O in the tensor cores, the problem asks for accurate ones.
    Sums,
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
            Self::Output(output) => write!(f, "writes O in {output}"),
            Self::Values(Values::Transposed) => f.write_str("takes V transposed"),
            Self::Values(_) => f.write_str("takes V by rows"),
            Self::ScalesByHead => f.write_str("has one scale a head"),
            Self::KeyBlock(rows) => write!(f, "has a scale for every {rows} rows of K"),
            Self::Sums => f.write_str("keeps sums of O in the tensor cores"),
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
    eight_bit(schedule, problem)?;
    forward::scalars(problem, schedule).map(|_| ()).map_err(Ineligible::Limit)
}

/// What only 8-bit elements have.
fn eight_bit(schedule: &Schedule, problem: &Problem) -> Result<(), Ineligible> {
    let (Some(has), Some(wants)) = (schedule.fp8, problem.fp8()) else { return Ok(()) };
    if has.output != wants.output {
        return Err(Ineligible::Output(has.output));
    }
    if has.values != wants.values {
        return Err(Ineligible::Values(has.values));
    }
    match (has.scales, scales::key_block(problem)) {
        (Scales::Head, _) if !scales::is_by_head(problem) => return Err(Ineligible::ScalesByHead),
        (Scales::Block, Some(rows)) if rows != schedule.tile.columns => {
            return Err(Ineligible::KeyBlock(schedule.tile.columns));
        }
        _ => {}
    }
    if wants.accumulation == Accumulation::Accurate && !is_accurate(schedule) {
        return Err(Ineligible::Sums);
    }
    Ok(())
}

/// Whether sums of O go to a total apart from the tensor cores' accumulator.
pub fn is_accurate(schedule: &Schedule) -> bool {
    schedule.fp8.is_some_and(|fp8| fp8.accumulate != Accumulate::TensorCore)
}

/// Whether P is exact but for rounding. A schedule that takes it for linear between powers of two is chosen for problems
/// alone that ask for it ([`crate::Exponentials::Linear`]): its error beside rounding is the caller's to judge.
pub fn is_exact(schedule: &Schedule) -> bool {
    schedule.fp8.is_none_or(|fp8| fp8.exponential.is_exact())
}
