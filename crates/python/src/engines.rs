//! One handle a device for the whole process, in the primary context, which is the one that frameworks use.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use tilewright::{Result, Tilewright};

use crate::error::OrRaise;

static ENGINES: Mutex<Option<HashMap<usize, Tilewright>>> = Mutex::new(None);

/// The device's handle, made at its first use.
///
/// # Errors
/// Those of [`Tilewright::open`]; the next call tries again.
pub fn engine(device: usize) -> Result<Tilewright> {
    // What a thread that panicked inside left is whole: every change is one insertion.
    let mut held = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    let engines = held.get_or_insert_default();
    if let Some(engine) = engines.get(&device) {
        return Ok(engine.clone());
    }
    let engine = Tilewright::open(device)?;
    engines.insert(device, engine.clone());
    Ok(engine)
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
