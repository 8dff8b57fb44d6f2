//! Refusals: an option that a schedule may name and the lowering does not have.

use std::fmt;

/// Why a schedule is not lowered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The option as the schedule spells it.
    pub option: String,
    /// Why, and what would do instead.
    pub reason: String,
}

impl Refused {
    pub(crate) fn new(option: impl Into<String>, reason: impl Into<String>) -> Refused {
        Refused { option: option.into(), reason: reason.into() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not lowered: {}", self.option, self.reason)
    }
}

impl std::error::Error for Refused {}
