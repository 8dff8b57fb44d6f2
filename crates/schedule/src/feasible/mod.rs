//! Whether a target can hold a schedule: every impossibility, with the field that it concerns and the arithmetic.
//!
//! One file a kind of limit. A rule is a function that pushes [`Finding`]s; it may assume nothing of the schedule,
//! whose numbers can be absurd. What the machine could do and the lowering does not do yet is no finding: the lowering
//! refuses that itself.

mod fp8;
mod memory;
mod numerics;
mod registers;
mod roles;
mod shape;
mod split;
#[cfg(test)]
pub(crate) mod tests;

use crate::{Schedule, Target};
use std::fmt;

/// The part of a schedule that a finding concerns, as fine as the grammar has tokens for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Field {
    /// The schedule's own name.
    Name,
    /// `pass`.
    Pass,
    /// `element`.
    Element,
    /// `variant`.
    Variant,
    /// The row length of Q and K.
    HeadDimQk,
    /// The row length of V and O.
    HeadDimV,
    /// The rows of `tile`.
    TileRows,
    /// The columns of `tile`.
    TileColumns,
    /// `stages: { q }`.
    StagesQ,
    /// `stages: { kv }`.
    StagesKv,
    /// The producer's warps.
    ProducerWarps,
    /// The producer's registers.
    ProducerRegisters,
    /// The consumers' warpgroups.
    ConsumerWarpgroups,
    /// The consumers' registers.
    ConsumerRegisters,
    /// `within_warpgroup` in `overlap`.
    WithinWarpgroup,
    /// `pingpong` in `overlap`.
    Pingpong,
    /// `across_tiles` in `overlap`.
    AcrossTiles,
    /// `queries`.
    Queries,
    /// `probabilities`.
    Probabilities,
    /// `rescale`.
    Rescale,
    /// `row_sum`.
    RowSum,
    /// `output`.
    Output,
    /// `scales`.
    Scales,
    /// `values`.
    Values,
    /// `accumulate`.
    Accumulate,
    /// `exponential`.
    Exponential,
    /// `split`.
    Split,
    /// The scheduler of `grid`.
    Scheduler,
    /// The order of `grid`.
    Order,
}

impl Field {
    /// The path that messages use: the words of the grammar from the outside in.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Pass => "pass",
            Self::Element => "element",
            Self::Variant => "variant",
            Self::HeadDimQk => "head_dim qk",
            Self::HeadDimV => "head_dim v",
            Self::TileRows => "tile rows",
            Self::TileColumns => "tile columns",
            Self::StagesQ => "stages q",
            Self::StagesKv => "stages kv",
            Self::ProducerWarps => "producer warps",
            Self::ProducerRegisters => "producer registers",
            Self::ConsumerWarpgroups => "consumer warpgroups",
            Self::ConsumerRegisters => "consumer registers",
            Self::WithinWarpgroup => "overlap within_warpgroup",
            Self::Pingpong => "overlap pingpong",
            Self::AcrossTiles => "overlap across_tiles",
            Self::Queries => "queries",
            Self::Probabilities => "probabilities",
            Self::Rescale => "rescale",
            Self::RowSum => "row_sum",
            Self::Output => "output",
            Self::Scales => "scales",
            Self::Values => "values",
            Self::Accumulate => "accumulate",
            Self::Exponential => "exponential",
            Self::Split => "split",
            Self::Scheduler => "grid scheduler",
            Self::Order => "grid order",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

/// One thing that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Finding {
    /// The field whose change would mend it most directly.
    pub field: Field,
    /// `<field>: <what, with the arithmetic, and what would do>`.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Everything about the schedule that the target cannot do, in the order of the rules. Empty: it fits.
pub fn check(schedule: &Schedule, target: &Target) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    shape::check(schedule, target, &mut findings);
    roles::check(schedule, target, &mut findings);
    numerics::check(schedule, &mut findings);
    fp8::check(schedule, &mut findings);
    split::check(schedule, &mut findings);
    memory::check(schedule, target, &mut findings);
    registers::check(schedule, target, &mut findings);
    findings.0
}

/// The findings so far.
struct Findings(Vec<Finding>);

impl Findings {
    /// Adds `<field>: <what>`.
    fn push(&mut self, field: Field, what: impl fmt::Display) {
        self.0.push(Finding { field, message: format!("{field}: {what}") });
    }
}
