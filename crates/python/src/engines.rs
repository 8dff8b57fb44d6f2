//! One handle a device for the whole process, in the primary context, which is the one that frameworks use, and the schedules that all
//! of them choose from.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use schedule::Schedule;
use tilewright::{Registry, Result, Tilewright};

use crate::compiled::read;
use crate::error::{InvalidArgument, OrRaise};
use crate::{fp8, plans};

/// What there is of the process.
#[derive(Default)]
struct Engines {
    by_device: HashMap<usize, Tilewright>,
    /// What is chosen from; none: what is shipped.
    registry: Option<Registry>,
}

static ENGINES: Mutex<Option<Engines>> = Mutex::new(None);

impl Engines {
    /// What is chosen from.
    fn registry(&self) -> Registry {
        self.registry.clone().unwrap_or_else(|| Registry::shipped().as_ref().clone())
    }
}

fn held() -> MutexGuard<'static, Option<Engines>> {
    // What a thread that panicked inside left is whole: every change is one insertion, or one assignment a device.
    ENGINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device's handle, made at its first use.
///
/// # Errors
/// Those of [`Tilewright::open`]; the next call tries again.
pub fn engine(device: usize) -> Result<Tilewright> {
    let mut held = held();
    let engines = held.get_or_insert_default();
    if let Some(engine) = engines.by_device.get(&device) {
        return Ok(engine.clone());
    }
    let engine = Tilewright::open(device)?.with_registry(engines.registry());
    engines.by_device.insert(device, engine.clone());
    Ok(engine)
}

/// What plans are chosen from, on every device.
pub fn registry() -> Registry {
    held().get_or_insert_default().registry()
}

/// Makes plans go by the entries of a tuning file before those that are shipped, and choose from more schedules, those of a text; by
/// what is shipped alone if there is no tuning. Plans that were made are forgotten.
#[pyfunction]
pub fn use_tuning(py: Python<'_>, tuning: Option<&str>, schedules: Option<&str>) -> PyResult<()> {
    py.detach(|| {
        let registry = tuning.map(|tuning| tuned(tuning, schedules.map_or(Ok(Vec::new()), read)?)).transpose()?;
        let mut held = held();
        let engines = held.get_or_insert_default();
        engines.registry = registry;
        let registry = engines.registry();
        for engine in engines.by_device.values_mut() {
            *engine = engine.with_registry(registry.clone());
        }
        drop(held);
        plans::forget();
        fp8::forget();
        Ok(())
    })
}

/// What is shipped with more schedules and a tuning before its own.
fn tuned(tuning: &str, mut schedules: Vec<Schedule>) -> PyResult<Registry> {
    let shipped = Registry::shipped();
    let differs = |new: &&Schedule| shipped.named(&new.name).is_some_and(|old| old.schedule() != *new);
    if let Some(Schedule { name, .. }) = schedules.iter().find(differs) {
        return Err(InvalidArgument::new_err(format!("the schedule {name} differs from the shipped one of that name")));
    }
    schedules.retain(|new| shipped.named(&new.name).is_none());
    let all = shipped.with_schedules(schedules).with_tuning(tuning);
    all.map_err(|error| InvalidArgument::new_err(error.to_string()))
}

/// The device in words, such as `GPU 0 (NVIDIA H200, 132 SMs, CUDA 13.0)`.
#[pyfunction]
pub fn device_name(py: Python<'_>, device: usize) -> PyResult<String> {
    py.detach(|| engine(device)).or_raise().map(|engine| engine.device().to_string())
}

/// Makes room for this many launches that CUDA graphs are going to record.
#[pyfunction]
pub fn reserve_counters(py: Python<'_>, launches: usize, device: usize) -> PyResult<()> {
    py.detach(|| engine(device)?.reserve_counters(launches)).or_raise()
}

/// Finds the fastest schedules on a GPU, as the words of a command line say; gives the exit code.
#[pyfunction]
pub fn tune(py: Python<'_>, words: Vec<String>) -> u8 {
    py.detach(|| ::tune::run(words.into_iter().map(Into::into)))
}
