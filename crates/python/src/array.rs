//! Device memory of our own, for results where the caller's framework has no allocator that can be asked: any framework takes it over
//! by DLPack.

use std::ffi::c_void;

use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::types::PyDict;
use pyo3::{ffi, prelude::*};
use tilewright::cudarc::driver::sys;
use tilewright::{Error, Result, Tilewright};

use crate::engines::engine;
use crate::error::{InvalidArgument, OrRaise};
use crate::tensor::dlpack::{BFLOAT, CUDA, FLOAT, Managed, NAME, Tensor, UINT};

/// An array in device memory, contiguous and not initialised. Speaks DLPack and, where NumPy knows the type, the CUDA array interface.
///
/// The work that writes it must be done before anybody reads it: who makes one waits for that.
#[pyclass(frozen, module = "tilewright._native")]
pub struct DeviceArray {
    engine: Tilewright,
    address: u64,
    extents: Vec<i64>,
    dtype: String,
}

/// Bytes, DLPack's code and NumPy's name of a type.
fn kind(dtype: &str) -> Option<(u64, u8, Option<&'static str>)> {
    match dtype {
        "bfloat16" => Some((2, BFLOAT, None)),
        "float16" => Some((2, FLOAT, Some("<f2"))),
        "float32" => Some((4, FLOAT, Some("<f4"))),
        "uint8" => Some((1, UINT, Some("|u1"))),
        _ => None,
    }
}

#[pymethods]
impl DeviceArray {
    #[new]
    fn new(py: Python<'_>, shape: Vec<u32>, dtype: String, device: usize) -> PyResult<Self> {
        let Some((bytes, ..)) = kind(&dtype) else {
            return Err(InvalidArgument::new_err(format!("{dtype} is none of bfloat16, float16, float32, uint8")));
        };
        let elements = shape.iter().try_fold(1_u64, |all, &extent| all.checked_mul(extent.into()));
        let Some(bytes) = elements.and_then(|elements| elements.checked_mul(bytes)) else {
            return Err(InvalidArgument::new_err(format!("an array of shape {shape:?} has too many elements")));
        };
        let (engine, address) = py
            .detach(|| {
                let engine = engine(device)?;
                let address = allocate(&engine, bytes)?;
                Ok((engine, address))
            })
            .or_raise()?;
        Ok(Self { engine, address, extents: shape.into_iter().map(i64::from).collect(), dtype })
    }

    /// Elements along each dimension.
    #[getter]
    fn shape(&self) -> Vec<i64> {
        self.extents.clone()
    }

    /// `bfloat16`, `float16`, `float32` or `uint8`.
    #[getter]
    fn dtype(&self) -> &str {
        &self.dtype
    }

    /// Type and number of the device, as DLPack counts them.
    fn __dlpack_device__(&self) -> (i32, usize) {
        (CUDA, self.engine.device().ordinal())
    }

    /// A capsule of this memory. It is ready: no stream has to wait.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        slf: Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<Bound<'py, PyAny>>,
        dl_device: Option<(i32, usize)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Ready for any stream, and in the form that every version of the protocol reads.
        drop((stream, max_version));
        if copy == Some(true) || dl_device.is_some_and(|wanted| wanted != slf.get().__dlpack_device__()) {
            return Err(PyBufferError::new_err("this array lends its own memory alone, neither a copy nor elsewhere"));
        }
        export(slf)
    }

    /// The same for who prefers that protocol.
    #[getter(__cuda_array_interface__)]
    fn interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some((_, _, Some(typestr))) = kind(&self.dtype) else {
            return Err(PyAttributeError::new_err("NumPy has no name for bfloat16: take it by __dlpack__"));
        };
        let interface = PyDict::new(py);
        interface.set_item("shape", pyo3::types::PyTuple::new(py, &self.extents)?)?;
        interface.set_item("typestr", typestr)?;
        interface.set_item("data", (self.address, false))?;
        interface.set_item("version", 3)?;
        interface.set_item("strides", py.None())?;
        interface.set_item("stream", py.None())?;
        Ok(interface)
    }

    fn __repr__(&self) -> String {
        format!("<tilewright array {:?} of {} on GPU {}>", self.extents, self.dtype, self.engine.device().ordinal())
    }
}

impl Drop for DeviceArray {
    fn drop(&mut self) {
        let Ok(_current) = self.engine.device().enter() else { return };
        if self.address != 0 {
            // SAFETY: allocated by `allocate` in this context, freed only here; freeing waits for work that still uses it.
            let _ = unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

/// What a capsule's tensor points to, and what it keeps alive.
struct Lent {
    managed: Managed,
    extents: Vec<i64>,
    strides: Vec<i64>,
    owner: Option<Py<DeviceArray>>,
}

/// A capsule that keeps the array alive until its consumer is done with it.
fn export(array: Bound<'_, DeviceArray>) -> PyResult<Bound<'_, PyAny>> {
    let py = array.py();
    let this = array.get();
    let (bytes, code, _) = kind(&this.dtype).unwrap_or((2, FLOAT, None));
    let mut strides = vec![1_i64; this.extents.len()];
    for at in (1..strides.len()).rev() {
        strides[at - 1] = strides[at] * this.extents[at].max(1);
    }
    let tensor = Tensor {
        data: std::ptr::without_provenance_mut::<c_void>(this.address as usize),
        device_type: CUDA,
        device_id: i32::try_from(this.engine.device().ordinal()).unwrap_or(0),
        ndim: i32::try_from(strides.len()).unwrap_or(0),
        code,
        bits: (bytes * 8) as u8,
        lanes: 1,
        shape: std::ptr::null(),
        strides: std::ptr::null(),
        byte_offset: 0,
    };
    let managed = Managed { tensor, manager_ctx: std::ptr::null_mut(), deleter: Some(give_back) };
    let extents = this.extents.clone();
    let mut lent = Box::new(Lent { managed, extents, strides, owner: Some(array.unbind()) });
    (lent.managed.tensor.shape, lent.managed.tensor.strides) = (lent.extents.as_ptr(), lent.strides.as_ptr());
    let lent = Box::into_raw(lent);
    // SAFETY: `lent` is a live allocation; its field outlives the capsule, whose destructor or consumer frees it.
    let managed = unsafe {
        (*lent).managed.manager_ctx = lent.cast();
        &raw mut (*lent).managed
    };
    // SAFETY: the pointer is not null and the name is static.
    let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), NAME.as_ptr(), Some(unused)) };
    // SAFETY: a new reference, or null with an exception set.
    let capsule = unsafe { Bound::from_owned_ptr_or_err(py, capsule) };
    if capsule.is_err() {
        // SAFETY: no capsule has it.
        unsafe { give_back(managed) };
    }
    capsule
}

/// Frees what a capsule lent. Called once, by its consumer or by [`unused`], from any thread.
unsafe extern "C" fn give_back(managed: *mut Managed) {
    // SAFETY: the caller has what `export` made, whose context is its own allocation, and drops it here.
    let mut lent = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Lent>()) };
    let owner = lent.owner.take();
    // An interpreter that is gone took its objects along.
    let left = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Python::try_attach(|py| drop(owner.map(|o| o.into_bound(py))))
    }));
    drop(left);
}

/// The destructor of a capsule: gives back what nobody consumed.
unsafe extern "C" fn unused(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule; a consumer renames it, so that it is valid by this name only if there was none.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) != 0 {
            give_back(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

/// An answer of the driver as a result.
fn ok(call: &'static str, code: sys::CUresult) -> Result<()> {
    match code {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Error::Driver { call, code: code as u32, text: format!("{code:?}") }),
    }
}

/// Memory of so many bytes; none for none.
fn allocate(engine: &Tilewright, bytes: u64) -> Result<u64> {
    if bytes == 0 {
        return Ok(0);
    }
    let _current = engine.device().enter()?;
    let mut address = 0;
    // SAFETY: the context is current; `address` outlives the call.
    match unsafe { sys::cuMemAlloc_v2(&mut address, bytes as usize) } {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(Error::OutOfMemory { what: "an array".into(), bytes }),
        code => ok("cuMemAlloc", code).map(|()| address),
    }
}

/// Waits until the work on a stream is done.
///
/// # Errors
/// The driver's answer, which may be that of the work.
pub fn synchronize(engine: &Tilewright, stream: u64) -> Result<()> {
    let _current = engine.device().enter()?;
    let stream = std::ptr::without_provenance_mut(stream as usize);
    // SAFETY: the context is current and the stream is one of it, as the caller of the launch says.
    ok("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream) })
}

/// The number of the device that an address belongs to.
///
/// # Errors
/// [`Error::NoDriver`], the driver's answer for what is no device memory.
pub fn device_of(address: u64) -> Result<usize> {
    // The driver is there once this has succeeded.
    let engine = engine(0)?;
    let _current = engine.device().enter()?;
    let mut ordinal = 0_i32;
    let what = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: the attribute is of that type; `ordinal` outlives the call; any address may be asked about.
    let code = unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), what, address) };
    ok("cuPointerGetAttribute", code).map(|()| usize::try_from(ordinal).unwrap_or(0))
}
