//! Arrays with `__dlpack__`, and the structures of that protocol (DLPack 1.0, dlpack.h).

use std::ffi::{CStr, c_void};

use pyo3::exceptions::PyTypeError;
use pyo3::types::PyDict;
use pyo3::{ffi, intern, prelude::*};

use super::{Ask, Dtype, Found, LEGACY};
use crate::error::InvalidArgument;

/// `kDLCUDA`.
pub const CUDA: i32 = 2;
/// Name of a capsule of [`Managed`].
pub const NAME: &CStr = c"dltensor";
/// Name of a capsule of [`Versioned`].
const NAME_VERSIONED: &CStr = c"dltensor_versioned";
/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
const READ_ONLY: u64 = 1;
/// `kDLFloat` and `kDLBfloat`.
pub const FLOAT: u8 = 2;
/// `kDLBfloat`.
pub const BFLOAT: u8 = 4;
/// `kDLUInt`.
pub const UINT: u8 = 1;
/// `kDLFloat8_e4m3fn` (DLPack 1.1).
const E4M3FN: u8 = 10;
/// `kDLFloat8_e5m2` (DLPack 1.1).
const E5M2: u8 = 12;

/// `DLTensor`.
#[repr(C)]
pub struct Tensor {
    /// Of the storage; the first element is `byte_offset` further.
    pub data: *mut c_void,
    /// `DLDeviceType`.
    pub device_type: i32,
    /// The device's number.
    pub device_id: i32,
    /// Dimensions.
    pub ndim: i32,
    /// `DLDataTypeCode`.
    pub code: u8,
    /// Of one lane.
    pub bits: u8,
    /// Elements of a vector.
    pub lanes: u16,
    /// `ndim` extents.
    pub shape: *const i64,
    /// `ndim` strides in elements; null where contiguous.
    pub strides: *const i64,
    /// Bytes to the first element.
    pub byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
pub struct Managed {
    /// The tensor.
    pub tensor: Tensor,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Called by whoever consumed it.
    pub deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// Borrows an array that has it. The capsule is never consumed: it gives the memory back when it is dropped.
pub(super) fn read<const N: usize>(ask: &Ask<'_>, array: &Bound<'_, PyAny>, stream: u64) -> PyResult<Found<N>> {
    let py = array.py();
    let (device_type, _): (i32, i32) = array.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
    if device_type != CUDA {
        let place = if device_type == 1 { "cpu".to_owned() } else { format!("a device of DLPack type {device_type}") };
        return Err(ask.elsewhere(&place));
    }
    // The protocol's number of the legacy default stream.
    let stream = if stream == LEGACY { 1 } else { stream };
    let capsule = capsule(array, stream)?;
    let (tensor, flags) = tensor(&capsule).ok_or_else(|| {
        InvalidArgument::new_err(format!("tensor {}: its __dlpack__ gives no capsule of DLPack 0 or 1", ask.name))
    })?;
    // SAFETY: the capsule is valid, so that its structure lives until it is dropped or consumed, and nobody else has it.
    let tensor = unsafe { &*tensor };
    let dimensions = usize::try_from(tensor.ndim).unwrap_or(0);
    if dimensions != N {
        return Err(ask.dimensions(dimensions, N));
    }
    // SAFETY: the structure's arrays have as many entries as it has dimensions.
    let numbers = |at: *const i64| -> [i64; N] { unsafe { *at.cast() } };
    Ok(Found {
        address: tensor.data as u64 + tensor.byte_offset,
        extents: numbers(tensor.shape),
        strides: (!tensor.strides.is_null()).then(|| numbers(tensor.strides)),
        dtype: match (tensor.code, tensor.bits, tensor.lanes) {
            (BFLOAT, 16, 1) => Dtype::Bf16,
            (FLOAT, 16, 1) => Dtype::F16,
            (FLOAT, 32, 1) => Dtype::F32,
            (E4M3FN, 8, 1) => Dtype::E4m3,
            (E5M2, 8, 1) => Dtype::E5m2,
            (UINT, 8, 1) => Dtype::U8,
            (code, bits, lanes) => Dtype::Other(format!("DLPack type {code} with {lanes} x {bits} bits")),
        },
        device: usize::try_from(tensor.device_id).unwrap_or(0),
        read_only: flags & READ_ONLY != 0,
        held: Some(capsule.unbind()),
    })
}

/// Asks for a capsule, first of version 1, which older producers do not know how to be asked for.
fn capsule<'py>(array: &Bound<'py, PyAny>, stream: u64) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let how = PyDict::new(py);
    how.set_item("stream", stream)?;
    how.set_item("max_version", (1, 0))?;
    match array.call_method("__dlpack__", (), Some(&how)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            how.del_item("max_version")?;
            array.call_method("__dlpack__", (), Some(&how))
        }
        other => other,
    }
}

/// The tensor of a capsule and its flags; none for what is no capsule of a known version.
fn tensor(capsule: &Bound<'_, PyAny>) -> Option<(*const Tensor, u64)> {
    let object = capsule.as_ptr();
    // SAFETY: any object and name may be asked about; a valid capsule of that name gives a pointer that is not null.
    let pointer = |name: &CStr| unsafe {
        (ffi::PyCapsule_IsValid(object, name.as_ptr()) != 0).then(|| ffi::PyCapsule_GetPointer(object, name.as_ptr()))
    };
    if let Some(managed) = pointer(NAME) {
        // SAFETY: that name promises this structure.
        return Some((unsafe { &raw const (*managed.cast::<Managed>()).tensor }, 0));
    }
    let versioned = pointer(NAME_VERSIONED)?.cast::<Versioned>();
    // SAFETY: that name promises that at least the version can be read; the layout below is that of major version 1.
    let major = unsafe { (*versioned).major };
    // SAFETY: as above, and the version was looked at.
    (major == 1).then(|| unsafe { (&raw const (*versioned).tensor, (*versioned).flags) })
}
