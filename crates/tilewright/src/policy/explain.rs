//! A choice in words: what was taken and why, what was not and why.

use std::fmt;

use runtime::LoadReport;
use schedule::{HOPPER, Schedule, cost};

use super::eligible::is_accurate;
use super::{Preference, eligible, estimate, is_exact, measured, split, takes_linear, wants_accurate, wants_linear};
use crate::{Entry, Exponentials, Problem, Registry};

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
            self.exponentials(f)?;
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

    /// Whether P is linear, where that was asked for.
    fn exponentials(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.problem.fp8().is_none_or(|fp8| fp8.exponentials == Exponentials::Exact) {
            return Ok(());
        }
        f.write_str(match (is_exact(self.chosen.schedule()), wants_linear(self.problem)) {
            (false, _) => "  P is linear between powers of two, as asked for\n",
            (true, true) => "  P is exact: no schedule for this problem takes it for linear\n",
            (true, false) => "  P is exact, as it is with accurate sums\n",
        })
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
        match (is_exact(entry.schedule()), takes_linear(self.registry, self.problem)) {
            (false, false) => return writeln!(f, "eligible; approximates P, and the problem has it exact"),
            (true, true) => return writeln!(f, "eligible; P is exact, and linear ones go before"),
            _ => {}
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
