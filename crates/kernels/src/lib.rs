//! Lowering: a schedule becomes a tile program, one file a part of the algorithm.
//!
//! [`lower`] is the entry for what a `Schedule` describes, [`lower_quantize`] for the quantizer beside it. The families' modules know the algorithm and nothing of how they are judged, loaded or
//! launched; the launch side knows a kernel by the names of its parameters.

mod forward;
mod quantize;
mod refused;

pub use refused::Refused;

use schedule::{HOPPER, Pass, Quantize, Schedule, feasible};

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

/// Lowers a quantizer to the kernel it describes.
///
/// # Errors
/// A quantizer that does not fit the target, with the arithmetic; an option that the lowering does not have, by name.
pub fn lower_quantize(quantize: &Quantize) -> Result<ptx::Module, Refused> {
    if let Some((field, message)) = quantize.findings(&HOPPER).into_iter().next() {
        return Err(Refused::new(field, message));
    }
    quantize::lower(quantize)
}

/// The comments at the head of every kernel: how it came to be, and the schedule whole.
fn header(schedule: &Schedule) -> Vec<String> {
    heading(&schedule.name, schedule.hash(), &schedule.to_string())
}

fn heading(name: &str, hash: u64, text: &str) -> Vec<String> {
    let mut lines = vec![format!("{name}: written by `cargo xtask gen`, schedule {hash:016x}")];
    lines.push(String::new());
    lines.extend(text.lines().map(str::to_owned));
    lines
}
