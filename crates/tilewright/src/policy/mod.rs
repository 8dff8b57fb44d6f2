//! Which schedule a problem gets: eligibility (can it) apart from preference (is it the fastest here).

mod eligible;
mod explain;
mod prefer;

use std::sync::Arc;

use runtime::{Error, Result};

pub use eligible::{Ineligible, eligible};
pub use explain::Explanation;
pub use prefer::{Estimate, MARGIN, estimate};

use crate::{Entry, Problem, Registry};

/// SMs of an H100 SXM or H200, for choosing where there is no device to ask.
pub const USUAL_SMS: u32 = 132;

/// The schedule for a problem on a device of so many SMs.
///
/// Among those that are eligible and lowered, the first of the registry, unless a later one is estimated at less than
/// [`MARGIN`] of its clocks.
///
/// # Errors
/// [`Error::HeadDim`] with the supported ones if none has the problem's; [`Error::NoSchedule`] with each schedule's
/// reason.
pub fn choose(registry: &Registry, problem: &Problem, sms: u32) -> Result<Arc<Entry>> {
    let mut best: Option<(&Arc<Entry>, Estimate)> = None;
    for entry in registry.entries() {
        let schedule = entry.schedule();
        if eligible(schedule, problem).is_err() {
            continue;
        }
        let estimate = estimate(schedule, problem, sms);
        if best.as_ref().is_some_and(|(_, held)| estimate.clocks >= MARGIN * held.clocks) || entry.lowered().is_err() {
            continue;
        }
        best = Some((entry, estimate));
    }
    best.map(|(entry, _)| entry.clone()).ok_or_else(|| refusal(registry, problem))
}

/// Why nothing was chosen.
fn refusal(registry: &Registry, problem: &Problem) -> Error {
    let element = problem.element();
    let schedules = || registry.entries().iter().map(|entry| entry.schedule()).filter(|s| s.element == element);
    if schedules().all(|schedule| schedule.head_dim != problem.head_dim()) {
        let mut supported: Vec<_> = schedules().map(|schedule| (schedule.head_dim.qk, schedule.head_dim.v)).collect();
        supported.sort_unstable();
        supported.dedup();
        let words = supported.into_iter().map(|(qk, v)| schedule::HeadDim { qk, v }.to_string()).collect::<Vec<_>>();
        let supported = if words.is_empty() { "none".into() } else { words.join(", ") };
        return Error::HeadDim { asked: problem.head_dim().to_string(), element: element.to_string(), supported };
    }
    let reasons = registry.entries().iter().map(|entry| {
        let name = &entry.schedule().name;
        match eligible(entry.schedule(), problem) {
            Err(why) => format!("  {name}: {why}"),
            Ok(()) => match entry.lowered() {
                Err(why) => format!("  {name}: {why}"),
                Ok(_) => format!("  {name}: eligible"),
            },
        }
    });
    Error::NoSchedule { problem: problem.to_string(), reasons: reasons.collect::<Vec<_>>().join("\n") }
}

#[cfg(test)]
mod tests;
