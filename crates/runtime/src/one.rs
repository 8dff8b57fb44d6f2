//! The number one in device memory: the scale of tensors that come without.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::CudaContext;
use cudarc::driver::sys;

use crate::driver::{Current, Relaxed, ok};
use crate::home::Home;
use crate::{Error, Result};

/// Its bytes.
const BYTES: usize = size_of::<f32>();

/// An f32 of 1 in device memory, made when it is first asked for and there as long as this is.
#[derive(Debug)]
pub(crate) struct One {
    context: Home,
    at: Mutex<Option<u64>>,
}

impl One {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Self {
        Self { context: Home::new(context), at: Mutex::new(None) }
    }

    /// Its address. The first call allocates and waits; it may run while another stream captures.
    pub(crate) fn address(&self) -> Result<u64> {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = *at {
            return Ok(at);
        }
        let _current = Current::enter(self.context.cu_ctx())?;
        let _relaxed = Relaxed::enter()?;
        let mut made = 0;
        // SAFETY: the context is current; `made` outlives the call.
        ok("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut made, BYTES) }).map_err(|error| match error {
            Error::OutOfMemory { .. } => Error::OutOfMemory { what: "a scale".into(), bytes: BYTES as u64 },
            other => other,
        })?;
        if let Err(error) = set(made) {
            // SAFETY: allocated above and known to nobody else.
            let _ = unsafe { sys::cuMemFree_v2(made) };
            return Err(error);
        }
        *at = Some(made);
        Ok(made)
    }
}

/// Writes it on a non-blocking stream and waits.
fn set(at: u64) -> Result<()> {
    let mut stream = std::ptr::null_mut();
    let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: the caller made the context current; `stream` outlives the call.
    ok("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, flags) })?;
    // SAFETY: the memory is the caller's, a word long; the stream was created above.
    let written = unsafe { sys::cuMemsetD32Async(at, 1_f32.to_bits(), 1, stream) };
    // SAFETY: created above.
    let done = ok("cuMemsetD32Async", written)
        .and_then(|()| ok("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream) }));
    // SAFETY: created above and not used again.
    let gone = ok("cuStreamDestroy", unsafe { sys::cuStreamDestroy_v2(stream) });
    done.and(gone)
}

impl Drop for One {
    fn drop(&mut self) {
        let at = self.at.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (Some(at), Ok(_current)) = (*at, Current::enter(self.context.cu_ctx())) else { return };
        // SAFETY: allocated in this context; freeing waits for kernels that still run.
        let _ = unsafe { sys::cuMemFree_v2(at) };
    }
}
