//! A choice in words: what was taken and why, what was not and why.

use std::fmt;

use runtime::LoadReport;
use schedule::{HOPPER, Schedule, cost};

use super::eligible::is_accurate;
use super::{Preference, eligible, estimate, is_exact, measured, split, wants_accurate};
use crate::{Entry, Problem, Registry};

/// What a plan can say for itself. Its `Display` is for people.
#[derive(Debug)]
pub struct Explanation<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) problem: &'a Problem,
    pub(crate) chosen: &'a Entry,
    pub(crate) sms: u32,
    /// Where the schedule was given and not chosen.
    pub(crate) given: bool,
    pub(crate) report: Option<&'a LoadReport>,
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (problem, schedule) = (self.problem, self.chosen.schedule());
        writeln!(f, "{problem}, scale {}", problem.scale())?;
        writeln!(f, "schedule {} ({:016x}), tile {}", schedule.name, schedule.hash(), schedule.tile)?;
        if self.given {
            writeln!(f, "  given by the caller")?;
        } else {
            self.reason(f)?;
        }
        let shares = split::shares(schedule, problem, self.sms);
        if schedule.splits() {
            writeln!(f, "  the keys of each query tile in {shares} shares")?;
        }
        writeln!(f, "  a step: {}", cost::step(schedule, &HOPPER))?;
        self.resources(f, schedule)?;
        if self.given {
            return Ok(());
        }
        for entry in self.registry.candidates(problem) {
            let other = entry.schedule();
            if other != schedule {
                write!(f, "not {}: ", other.name)?;
                self.against(f, entry)?;
            }
        }
        Ok(())
    }
}

impl Explanation<'_> {
    /// Why the chosen one was taken.
    fn reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let estimate = estimate(self.chosen.schedule(), self.problem, self.sms);
        match self.preference() {
            Some(preference) => writeln!(f, "  tuned: {preference}\n  estimate: {estimate}"),
            None => writeln!(f, "  estimated: {estimate}"),
        }
    }

    /// The entry of the tuning that the choice follows.
    fn preference(&self) -> Option<&Preference> {
        let (preference, entry) = measured(self.registry, self.problem, self.sms)?;
        (entry.schedule() == self.chosen.schedule()).then_some(preference)
    }

    /// Registers and shared memory: as asked for, and as loaded.
    fn resources(&self, f: &mut fmt::Formatter<'_>, schedule: &Schedule) -> fmt::Result {
        if let Ok(lowered) = self.chosen.lowered() {
            let (kernel, roles) = (lowered.kernel(), schedule.roles);
            let kib = f64::from(kernel.shared_bytes()) / 1024.0;
            let (threads, produce, consume) = (kernel.threads, roles.producer.registers, roles.consumer.registers);
            writeln!(
                f,
                "  {threads} threads, {kib:.1} KiB of shared memory, registers: producer {produce}, consumer {consume}"
            )?;
        }
        match self.report {
            Some(report) => writeln!(f, "  {report}"),
            None => writeln!(f, "  not loaded yet"),
        }
    }

    /// Why another schedule was not taken.
    fn against(&self, f: &mut fmt::Formatter<'_>, entry: &Entry) -> fmt::Result {
        if let Err(why) = eligible(entry.schedule(), self.problem) {
            return writeln!(f, "{why}");
        }
        // One that was too slow to be a candidate was not lowered, and is not now.
        if let Some(why) = entry.refusal() {
            return writeln!(f, "{why}");
        }
        if !is_exact(entry.schedule()) {
            return writeln!(f, "eligible; approximates P, so it is planned with by name alone");
        }
        if is_accurate(entry.schedule()) != wants_accurate(self.problem) {
            return writeln!(f, "eligible; keeps sums of O otherwise than the problem would rather have them");
        }
        let estimated = estimate(entry.schedule(), self.problem, self.sms);
        match self.preference() {
            Some(_) => writeln!(f, "eligible, estimated {estimated}; the tuning prefers another"),
            None => writeln!(f, "eligible, estimated {estimated}, not enough faster to go before the registry's order"),
        }
    }
}
