//! Options of 8-bit attention as Python says them.

use pyo3::prelude::*;
use tilewright::{Accumulation, ScalesOf};

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
