//! Schedules from text: read, lowered and proven without a GPU, run like the shipped ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use schedule::parse;
use tilewright::Entry;

use crate::error::{OrRaise, ScheduleError};

/// A schedule of the caller's own with its kernel.
#[derive(Debug)]
pub struct Source {
    entry: Arc<Entry>,
    number: u64,
}

impl Source {
    /// The schedule.
    pub fn schedule(&self) -> &schedule::Schedule {
        self.entry.schedule()
    }

    /// The schedule with its kernel, lowered at most once.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// No other of the process has it.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// A schedule that was read from text, lowered and proven.
#[pyclass(frozen, module = "tilewright._native")]
pub struct Schedule {
    source: Arc<Source>,
}

impl Schedule {
    /// What plans are made of.
    pub fn source(&self) -> &Source {
        &self.source
    }
}

#[pymethods]
impl Schedule {
    /// Its name.
    #[getter]
    pub fn name(&self) -> &str {
        &self.source.schedule().name
    }

    /// Its text, which reads back to the same schedule.
    #[getter]
    fn text(&self) -> String {
        self.source.schedule().to_string()
    }

    /// The whole PTX.
    #[getter]
    fn ptx(&self) -> PyResult<String> {
        self.source.entry.lowered().or_raise().map(|lowered| lowered.text().to_owned())
    }

    /// What a tile takes of the machine, in words.
    fn cost(&self) -> String {
        schedule::cost::step(self.source.schedule(), &schedule::HOPPER).to_string()
    }

    fn __repr__(&self) -> String {
        format!("<tilewright schedule {}>", self.name())
    }
}

/// The schedules of a text: what stands between the braces of `schedule! { ... }`, or a whole file.
///
/// # Errors
/// Every line that does not read, with its place.
pub fn read(text: &str) -> PyResult<Vec<schedule::Schedule>> {
    let read = if text.contains("schedule!") { parse::file(text) } else { parse::text(text) };
    read.map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        ScheduleError::new_err(lines.join("\n"))
    })
}

/// The schedules of a text. The one of that name, or the only one, is lowered and proven.
#[pyfunction]
#[pyo3(signature = (text, name=None))]
pub fn schedules(py: Python<'_>, text: &str, name: Option<&str>) -> PyResult<Vec<Schedule>> {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    py.detach(|| {
        let read = read(text)?;
        let alone = read.len() == 1;
        let lowered = read.into_iter().map(|schedule| {
            let wanted = name.map_or(alone, |name| name == schedule.name);
            let source =
                Source { entry: Arc::new(Entry::new(schedule)), number: NUMBERS.fetch_add(1, Ordering::Relaxed) };
            if wanted {
                source.entry.lowered().or_raise()?;
            }
            Ok(Schedule { source: Arc::new(source) })
        });
        lowered.collect()
    })
}
