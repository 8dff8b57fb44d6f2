//! What was measured: for classes of problems, the schedule that was fastest. Reads and writes `tuned.toml`; knows
//! nothing of estimates, and leaves to `eligible` whether a schedule can compute a problem.
//!
//! ```toml
//! [[prefer]]
//! schedule = "fwd_across_bf16_d64_causal"   # a schedule of the registry
//! element = "bf16"                          # the class: as the schedule has it
//! head_dim = 64                             # or [192, 128]
//! variant = "causal"
//! keys = { from = 1, to = 2048 }            # inclusive, either may be left out, as may the whole line
//! queries = { from = 64 }
//! tiles_per_sm = { from = 1.0 }             # tiles of 128 query rows in all batches and heads, over the SMs
//! tflops = 453.0                            # what was measured, and where; for people
//! device = "NVIDIA H200"
//! ```

mod bounds;
mod line;
mod preference;

use std::fmt;

use schedule::Schedule;

use crate::Problem;

pub use bounds::Bounds;
pub use preference::{Preference, tiles_per_sm, variant};

/// Preferences in order: the first that fits a problem counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tuning {
    preferences: Vec<Preference>,
}

/// What is wrong with a tuning file: the line or the entry, and what would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuningError(String);

impl fmt::Display for TuningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TuningError {}

impl Tuning {
    /// Of any preferences.
    pub fn new(preferences: Vec<Preference>) -> Self {
        Self { preferences }
    }

    /// Reads the text of a `tuned.toml`. Whether its schedules are there is asked by [`Tuning::check`].
    ///
    /// # Errors
    /// The line that is no TOML or has an unknown or missing field; the entry whose value means nothing.
    pub fn parse(text: &str) -> Result<Self, TuningError> {
        line::preferences(text).map(Self::new).map_err(TuningError)
    }

    /// Its preferences in order.
    pub fn preferences(&self) -> &[Preference] {
        &self.preferences
    }

    /// Holds every entry against the schedules that there are.
    ///
    /// # Errors
    /// The first entry whose schedule is not among them, or is of another class than the entry.
    pub fn check<'a>(&self, schedules: impl Iterator<Item = &'a Schedule> + Clone) -> Result<(), TuningError> {
        for (index, preference) in self.preferences.iter().enumerate() {
            let place = format!("entry {} of the tuning file", index + 1);
            let name = &preference.schedule;
            let Some(schedule) = schedules.clone().find(|schedule| schedule.name == *name) else {
                let alike: Vec<&str> = schedules
                    .clone()
                    .filter(|schedule| preference.is_of_class(schedule))
                    .map(|schedule| schedule.name.as_str())
                    .collect();
                let alike = if alike.is_empty() { "none".to_owned() } else { alike.join(", ") };
                return Err(TuningError(format!(
                    "{place}: no schedule is called {name}; of its class there are: {alike}. A schedule of your own \
                     goes into templates/"
                )));
            };
            if !preference.is_of_class(schedule) {
                return Err(TuningError(format!(
                    "{place}: {name} is for {} {} at head dimension {}, the entry for {}",
                    schedule.element,
                    schedule.variant,
                    schedule.head_dim,
                    preference.class()
                )));
            }
        }
        Ok(())
    }

    /// These preferences before the others.
    #[must_use]
    pub fn before(mut self, others: &Self) -> Self {
        self.preferences.extend_from_slice(&others.preferences);
        self
    }

    /// The preferences that fit a problem on a device of so many SMs, in order.
    pub fn fitting(&self, problem: &Problem, sms: u32) -> impl Iterator<Item = &Preference> {
        self.preferences.iter().filter(move |preference| preference.fits(problem, sms))
    }
}

/// The text of a `tuned.toml`.
impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "prefer = [")?;
        for preference in &self.preferences {
            writeln!(f, "    {},", line::inline(preference))?;
        }
        writeln!(f, "]")
    }
}

#[cfg(test)]
mod tests;
