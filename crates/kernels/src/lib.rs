//! Lowering: a schedule becomes a tile program, one file a part of the algorithm.
//!
//! `lower` is the only entry. The families' modules know the algorithm and nothing of how they are judged, loaded or
//! launched; the launch side knows a kernel by the names of its parameters.

mod forward;
mod refused;

pub use refused::Refused;

use schedule::{Pass, Schedule};

/// Lowers a schedule to the kernel it describes.
///
/// # Errors
/// The first option of the schedule that the lowering does not have, by name.
pub fn lower(schedule: &Schedule) -> Result<ptx::Module, Refused> {
    match schedule.pass {
        Pass::Forward => forward::lower(schedule),
        other => Err(Refused::new(format!("pass: {other}"), "only forward is lowered")),
    }
}
