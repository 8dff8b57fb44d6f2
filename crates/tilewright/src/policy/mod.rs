//! Which schedule a problem gets: eligibility (can it) apart from preference (is it the fastest here: measured, or for
//! lack of that estimated).

mod eligible;
mod explain;
mod prefer;
pub mod split;
pub mod tune;
pub mod tuned;

use std::sync::Arc;

use runtime::{Error, Result};

pub use eligible::{Ineligible, eligible, is_accurate, is_exact};
pub use explain::Explanation;
pub use prefer::{MARGIN, estimate, work};
pub use tuned::{Preference, Tuning, TuningError};

use crate::{Entry, Exponentials, Problem, Registry};

/// SMs of an H100 SXM or H200, for choosing where there is no device to ask.
pub const USUAL_SMS: u32 = 132;

/// The schedule for a problem on a device of so many SMs.
///
/// The first of the registry's tuning that fits the problem and is eligible and lowered. Where there is none: among those
/// that are eligible and lowered, the first of the registry, unless a later one is estimated at less than [`MARGIN`] of
/// its time. Of 8-bit problems, those that keep sums of O as the problem would rather have them go before the others.
/// What is not [`is_exact`] is chosen where the problem asks for it and has fast sums, before all that is, and never else.
///
/// # Errors
/// [`Error::HeadDim`] with the supported ones if none has the problem's; [`Error::NoSchedule`] with each schedule's
/// reason.
pub fn choose(registry: &Registry, problem: &Problem, sms: u32) -> Result<Arc<Entry>> {
    if let Some((_, entry)) = measured(registry, problem, sms) {
        return Ok(entry.clone());
    }
    let (accurate, linear) = (wants_accurate(problem), takes_linear(registry, problem));
    let candidates = || registry.candidates(problem).filter(|entry| is_exact(entry.schedule()) != linear);
    let fitting = |entry: &&Arc<Entry>| eligible::is_accurate(entry.schedule()) == accurate;
    let first = fastest(candidates().filter(fitting), problem, sms);
    let found = first.or_else(|| fastest(candidates(), problem, sms));
    found.cloned().ok_or_else(|| refusal(registry, problem))
}

/// Whether sums of O would better go to a total apart.
pub(crate) fn wants_accurate(problem: &Problem) -> bool {
    problem.fp8().is_some_and(|fp8| fp8.accumulation.is_accurate(problem.keys()))
}

/// Whether P would better be linear: where sums are fast.
pub(crate) fn wants_linear(problem: &Problem) -> bool {
    problem.fp8().is_some_and(|fp8| fp8.exponentials == Exponentials::Linear) && !wants_accurate(problem)
}

/// Whether the choice is among schedules that take P for linear: it would better be, and there is one.
pub(crate) fn takes_linear(registry: &Registry, problem: &Problem) -> bool {
    wants_linear(problem)
        && registry.candidates(problem).any(|entry| {
            let schedule = entry.schedule();
            !is_exact(schedule) && eligible(schedule, problem).is_ok() && entry.lowered().is_ok()
        })
}

/// The first, unless a later one is clearly faster by estimate.
fn fastest<'r>(
    candidates: impl Iterator<Item = &'r Arc<Entry>>,
    problem: &Problem,
    sms: u32,
) -> Option<&'r Arc<Entry>> {
    let mut best: Option<(&Arc<Entry>, f64)> = None;
    for entry in candidates {
        let schedule = entry.schedule();
        if eligible(schedule, problem).is_err() {
            continue;
        }
        let seconds = estimate(schedule, problem, sms).seconds;
        if best.as_ref().is_some_and(|(_, held)| seconds >= MARGIN * held) || entry.lowered().is_err() {
            continue;
        }
        best = Some((entry, seconds));
    }
    best.map(|(entry, _)| entry)
}

/// The registry's first preference for the problem whose schedule can compute it, with P as the problem is to have it, and
/// that schedule.
pub fn measured<'r>(registry: &'r Registry, problem: &Problem, sms: u32) -> Option<(&'r Preference, &'r Arc<Entry>)> {
    let linear = takes_linear(registry, problem);
    registry.tuning().fitting(problem, sms).find_map(|preference| {
        let entry = registry.named(&preference.schedule)?;
        let schedule = entry.schedule();
        let can = is_exact(schedule) != linear && eligible(schedule, problem).is_ok() && entry.lowered().is_ok();
        can.then_some((preference, entry))
    })
}

/// Why nothing was chosen.
fn refusal(registry: &Registry, problem: &Problem) -> Error {
    let element = problem.element();
    let schedules = || registry.candidates(problem).map(|entry| entry.schedule()).filter(|s| s.element == element);
    if schedules().all(|schedule| schedule.head_dim != problem.head_dim()) {
        let mut supported: Vec<_> = schedules().map(|schedule| (schedule.head_dim.qk, schedule.head_dim.v)).collect();
        supported.sort_unstable();
        supported.dedup();
        let words = supported.into_iter().map(|(qk, v)| schedule::HeadDim { qk, v }.to_string()).collect::<Vec<_>>();
        let supported = if words.is_empty() { "none".into() } else { words.join(", ") };
        return Error::HeadDim { asked: problem.head_dim().to_string(), element: element.to_string(), supported };
    }
    let reasons = registry.candidates(problem).map(|entry| {
        let name = &entry.schedule().name;
        match eligible(entry.schedule(), problem) {
            Err(why) => format!("  {name}: {why}"),
            Ok(()) => match entry.lowered() {
                Err(why) => format!("  {name}: {why}"),
                Ok(_) if !is_exact(entry.schedule()) => {
                    format!("  {name}: approximates P, and the problem has it exact")
                }
                Ok(_) => format!("  {name}: eligible"),
            },
        }
    });
    Error::NoSchedule { problem: problem.to_string(), reasons: reasons.collect::<Vec<_>>().join("\n") }
}

#[cfg(test)]
mod fp8_tests;
#[cfg(test)]
mod tests;
