//! Lowering: a schedule becomes a tile program, one file a part of the algorithm.
//!
//! `lower` is the only entry. The families' modules know the algorithm and nothing of how they are judged, loaded or
//! launched; the launch side knows a kernel by the names of its parameters.

mod forward;
mod refused;

pub use refused::Refused;

use schedule::{HOPPER, Pass, Schedule, feasible};

/// Lowers a schedule to the kernel it describes.
///
/// # Errors
/// A schedule that does not fit the target, with the arithmetic; an option that the lowering does not have, by name.
pub fn lower(schedule: &Schedule) -> Result<ptx::Module, Refused> {
    if let Some(finding) = feasible::check(schedule, &HOPPER).into_iter().next() {
        return Err(Refused::new(finding.field.path(), finding.message));
    }
    match schedule.pass {
        Pass::Forward => forward::lower(schedule),
        other => Err(Refused::new(format!("pass: {other}"), "only forward is lowered")),
    }
}
