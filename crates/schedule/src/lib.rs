//! A tile schedule as plain data: what is computed and how it is tiled, the target's limits, what fits them and what it
//! costs.
//!
//! A [`Schedule`] is a value. Its `Display` is the text that the `schedule!` macro takes, and (feature `parse`) that
//! text reads back to an equal value, so names, hashes and file names can derive from it. The flow inside the crate is
//! one way:
//!
//! `parse` (text or tokens) -> [`data`] -> [`footprint`] (bytes, registers) -> [`feasible`] (against a [`target`]);
//! [`cost`] is apart.
//!
//! Units throughout: tiles and head dimensions in elements, memory in bytes, registers in 32-bit registers per thread,
//! time in clocks.
//!
//! The crate knows nothing of PTX, of how a schedule is lowered or of the driver. Feasible means that the machine can
//! hold it, not that the lowering supports it: the lowering refuses by name what it does not lower.

pub mod choices;
pub mod cost;
pub mod data;
pub mod feasible;
pub mod footprint;
pub mod fp8;
#[cfg(feature = "parse")]
pub mod parse;
mod quantize;
pub mod target;
mod text;
mod threshold;

pub use choices::{
    Accumulate, Element, Exponential, Order, Output, Pass, Probabilities, Queries, Rescale, RowSum, Scales, Scheduler,
    Split, Values, Variant,
};
pub use data::{Consumer, Fp8, Grid, HeadDim, Overlap, Producer, Roles, Schedule, Stages, Tile};
pub use feasible::{Field, Finding};
pub use quantize::{Granularities, Granularity, Quantize, Rotation};
pub use target::{HOPPER, Target};
pub use text::fnv1a;
pub use threshold::Threshold;
