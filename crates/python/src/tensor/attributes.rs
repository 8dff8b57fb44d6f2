//! Torch tensors, by their attributes: `data_ptr()`, `shape`, `stride()`, `dtype`, `device`, `is_cuda`.

use std::sync::{Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;

use super::{Ask, Dtype, Found};

/// Reads a tensor that has them.
pub(super) fn read<const N: usize>(ask: &Ask<'_>, tensor: &Bound<'_, PyAny>) -> PyResult<Found<N>> {
    let py = tensor.py();
    let device = tensor.getattr(intern!(py, "device"))?;
    if !tensor.getattr(intern!(py, "is_cuda"))?.is_truthy()? {
        return Err(ask.elsewhere(&device.str()?.to_string_lossy()));
    }
    let extents = ask.numbers(&tensor.getattr(intern!(py, "shape"))?)?;
    let strides = ask.numbers(&tensor.call_method0(intern!(py, "stride"))?)?;
    Ok(Found {
        address: tensor.call_method0(intern!(py, "data_ptr"))?.extract()?,
        extents,
        strides: Some(strides),
        dtype: dtype(&tensor.getattr(intern!(py, "dtype"))?)?,
        // A device without a number is the current one, which a tensor never has.
        device: device.getattr(intern!(py, "index"))?.extract::<Option<usize>>()?.unwrap_or(0),
        read_only: false,
        held: None,
    })
}

/// Type objects that are remembered.
const MOST: usize = 64;

/// Type objects seen so far, which stay alive here, so that a type is told by identity.
static SEEN: Mutex<Vec<(Py<PyAny>, Dtype)>> = Mutex::new(Vec::new());

/// By the type object's name, such as `torch.bfloat16`.
fn dtype(object: &Bound<'_, PyAny>) -> PyResult<Dtype> {
    let held = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, dtype)) = held().iter().find(|(known, _)| known.is(object)) {
        return Ok(dtype.clone());
    }
    // Python code runs here, and with it maybe another thread that wants the lock: it is not held.
    let text = object.str()?;
    let text = text.to_string_lossy();
    let dtype = Dtype::named(text.rsplit('.').next().unwrap_or(&text));
    let mut seen = held();
    // There are few types; what is no type object could be many.
    if seen.len() < MOST {
        seen.push((object.clone().unbind(), dtype.clone()));
    }
    Ok(dtype)
}
