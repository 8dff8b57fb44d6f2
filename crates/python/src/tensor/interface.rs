//! Arrays with `__cuda_array_interface__`, as CuPy's and Numba's have it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Ask, Dtype, Found};
use crate::array::device_of;
use crate::error::{InvalidArgument, OrRaise};

/// Reads an array that has it. None for one that has not, and for a type that it has no name for while DLPack has one.
pub(super) fn read<const N: usize>(ask: &Ask<'_>, array: &Bound<'_, PyAny>) -> PyResult<Option<Found<N>>> {
    let py = array.py();
    let Some(interface) = array.getattr_opt(intern!(py, "__cuda_array_interface__"))? else { return Ok(None) };
    let interface = interface.cast_into::<PyDict>()?;
    let get = |key: &str| -> PyResult<Bound<'_, PyAny>> {
        interface.get_item(key)?.ok_or_else(|| {
            InvalidArgument::new_err(format!("tensor {}: its __cuda_array_interface__ has no {key}", ask.name))
        })
    };
    let (address, read_only): (u64, bool) = get("data")?.extract()?;
    let typestr: String = get("typestr")?.extract()?;
    let (dtype, bytes) = match typestr.as_str() {
        "<f2" => (Dtype::F16, 2),
        "<f4" => (Dtype::F32, 4),
        "|u1" => (Dtype::U8, 1),
        _ if array.hasattr(intern!(py, "__dlpack__"))? => return Ok(None),
        other => (Dtype::Other(format!("type {other}")), 1),
    };
    let strides = match interface.get_item("strides")? {
        Some(strides) if !strides.is_none() => {
            let in_bytes: [i64; N] = ask.numbers(&strides)?;
            Some(in_bytes.map(|stride| stride / bytes))
        }
        _ => None,
    };
    let extents = ask.numbers(&get("shape")?)?;
    let device = if address == 0 { 0 } else { py.detach(|| device_of(address)).or_raise()? };
    Ok(Some(Found { address, extents, strides, dtype, device, read_only, held: None }))
}
