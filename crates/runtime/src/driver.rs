//! The thin layer over the driver's C functions: whether it is there, what its codes say, which context is current.

use std::marker::PhantomData;
use std::sync::OnceLock;

use cudarc::driver::sys::{self, CUcontext, CUresult, CUstream};

use crate::{Error, Result, judge};

/// Whether the driver's library can be opened. Asked once per process.
///
/// The bindings panic at the first call when it cannot, so that every entry point asks here first.
pub fn present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    const NAMES: &[&str] =
        if cfg!(windows) { &["nvcuda.dll", "cuda.dll"] } else { &["libcuda.so.1", "libcuda.so", "libnvcuda.so"] };
    *PRESENT.get_or_init(|| {
        NAMES.iter().any(|name| {
            // SAFETY: opening the NVIDIA driver's library runs its initialisers, which have no preconditions; the
            // bindings open the same file under the same names.
            unsafe { libloading::Library::new(*name) }.is_ok()
        })
    })
}

/// The driver's own words for a code.
pub(crate) fn text(code: CUresult) -> String {
    let mut name = std::ptr::null();
    // SAFETY: the driver stores a pointer to a static NUL-terminated string, or null for a code it does not know.
    let known = unsafe { sys::cuGetErrorString(code, &mut name) } == CUresult::CUDA_SUCCESS && !name.is_null();
    if known {
        // SAFETY: checked above to be a string of the driver.
        unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy().into_owned()
    } else {
        "no text for this code".into()
    }
}

/// An answer of the driver as a result.
///
/// # Errors
/// Whatever [`judge::answer`] makes of the code.
pub(crate) fn ok(call: &'static str, code: CUresult) -> Result<()> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(failed(call, code)),
    }
}

/// A failed call as an error: whatever [`judge::answer`] makes of the code.
pub(crate) fn failed(call: &'static str, code: CUresult) -> Error {
    judge::answer(call, code as u32, &text(code))
}

/// Initialises the driver and gives its CUDA version, as 13000 for 13.0.
///
/// # Errors
/// [`Error::NoDriver`], [`Error::NoDevice`], [`Error::DriverTooOld`].
pub(crate) fn init() -> Result<i32> {
    if !present() {
        return Err(Error::NoDriver);
    }
    // SAFETY: the library is there; cuInit may be called any number of times from any thread.
    let code = unsafe { sys::cuInit(0) };
    if code != CUresult::CUDA_SUCCESS {
        return Err(judge::init(code as u32, &text(code)));
    }
    let mut version = 0;
    // SAFETY: `version` outlives the call.
    ok("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
    judge::driver_version(version)?;
    Ok(version)
}

/// The context that is current on this thread; null if none is.
pub(crate) fn current() -> Result<CUcontext> {
    let mut context = std::ptr::null_mut();
    // SAFETY: `context` outlives the call.
    ok("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&mut context) })?;
    Ok(context)
}

/// Makes a context current for as long as this lives, and then the caller's again. Stays on its thread.
#[derive(Debug)]
#[must_use]
pub struct Current {
    pushed: bool,
    stays: PhantomData<*const ()>,
}

impl Current {
    /// Pushes the context unless it is current already.
    pub(crate) fn enter(context: CUcontext) -> Result<Self> {
        if current()? == context {
            return Ok(Self { pushed: false, stays: PhantomData });
        }
        // SAFETY: the caller holds the context alive.
        ok("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(context) })?;
        Ok(Self { pushed: true, stays: PhantomData })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = std::ptr::null_mut();
            // SAFETY: what `enter` pushed on this thread's stack is on its top again; `Current` is not `Send` and
            // whatever was pushed later by this crate was popped by its own.
            let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut popped) };
        }
    }
}

/// Lets this thread allocate and load while this lives, though some other thread may be capturing: what is done here
/// touches no stream of theirs, and without this the driver would fail the call and their capture with it.
pub(crate) struct Relaxed {
    before: sys::CUstreamCaptureMode,
    stays: PhantomData<*const ()>,
}

impl Relaxed {
    /// Sets the thread's capture mode.
    pub(crate) fn enter() -> Result<Self> {
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: `mode` outlives the call, which puts the mode before into it.
        ok("cuThreadExchangeStreamCaptureMode", unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) })?;
        Ok(Self { before: mode, stays: PhantomData })
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: the field outlives the call; it holds what this thread's mode was.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut self.before) };
    }
}

/// Whether work on the stream is being recorded instead of run.
///
/// # Errors
/// The driver's answer; among them that the legacy default stream may not be asked while another stream captures.
///
/// # Safety
/// The stream must be alive and its context current.
pub unsafe fn is_capturing(stream: CUstream) -> Result<bool> {
    if !present() {
        return Err(Error::NoDriver);
    }
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the caller vouches for the stream; `status` outlives the call.
    ok("cuStreamIsCapturing", unsafe { sys::cuStreamIsCapturing(stream, &mut status) })?;
    Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}
