//! Options of 8-bit attention as Python says them.

use pyo3::prelude::*;
use schedule::Schedule;
use tilewright::policy::{is_accurate, is_exact};
use tilewright::{Accumulation, Exponentials, ScalesOf};

use crate::error::InvalidArgument;

/// `fast`, `accurate` or `auto`.
///
/// # Errors
/// Any other word, with these.
pub fn accumulation(word: &str) -> PyResult<Accumulation> {
    Ok(match word {
        "fast" => Accumulation::Fast,
        "accurate" => Accumulation::Accurate,
        "auto" => Accumulation::Auto,
        _ => return Err(unknown("accumulate", word, "fast, accurate, auto")),
    })
}

/// `exact` or `linear`.
///
/// # Errors
/// Any other word, with these.
pub fn exponentials(word: &str) -> PyResult<Exponentials> {
    Ok(match word {
        "exact" => Exponentials::Exact,
        "linear" => Exponentials::Linear,
        _ => return Err(unknown("exponential", word, "exact, linear")),
    })
}

/// How a schedule keeps sums of O and makes P.
pub fn of_schedule(schedule: &Schedule) -> (Accumulation, Exponentials) {
    let accumulation = if is_accurate(schedule) { Accumulation::Accurate } else { Accumulation::Fast };
    (accumulation, if is_exact(schedule) { Exponentials::Exact } else { Exponentials::Linear })
}

/// `block`, `head` or `tensor`.
///
/// # Errors
/// Any other word, with these.
pub fn scales(word: &str) -> PyResult<ScalesOf> {
    Ok(match word {
        "block" => ScalesOf::Block,
        "head" => ScalesOf::Head,
        "tensor" => ScalesOf::Tensor,
        _ => return Err(unknown("scales", word, "block, head, tensor")),
    })
}

fn unknown(argument: &str, word: &str, known: &str) -> PyErr {
    InvalidArgument::new_err(format!("argument {argument} = {word:?} is none of {known}"))
}
