//! Device memory that a launch leaves its own intermediate results in.
//!
//! A launch on a stream takes it in the stream's order from a pool of the device's and gives it back behind itself, so that
//! launches that may run at the same time never share it and those of one stream use it again. What the pool has once got it
//! keeps, so that taking costs the host about a microsecond. In a capture taking and giving back become nodes of the graph,
//! whose memory then is the graph's. A launch that is prepared for good keeps a workspace of its own.

use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{self, CUmemPool_attribute as Attribute, CUmemoryPool, CUstream};

use crate::driver::{Current, Relaxed, ok};
use crate::home::Home;
use crate::{Error, Result};

/// The workspaces of a device.
#[derive(Debug)]
pub struct Workspaces {
    context: Home,
    pool: Mutex<Option<Pool>>,
}

/// The driver's handle.
#[derive(Debug, Clone, Copy)]
struct Pool(CUmemoryPool);

// SAFETY: a handle of the driver, which may be used from any thread.
unsafe impl Send for Pool {}

/// A launch's workspace. Goes back, in the stream's order, when it is dropped: behind the launch.
#[derive(Debug)]
#[must_use]
pub struct Workspace {
    address: u64,
    stream: CUstream,
}

/// Memory for launches that do not run at the same time. Freed when it is dropped, which waits for kernels that still run.
#[derive(Debug)]
pub struct OwnWorkspace {
    context: Home,
    address: u64,
}

impl Workspaces {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Self {
        Self { context: Home::new(context), pool: Mutex::new(None) }
    }

    /// So many bytes on a boundary of 256, not initialised, for one launch on the stream.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], the driver's answer.
    ///
    /// # Safety
    /// The stream must be alive, until the workspace is dropped, belong to the workspaces' context, and that be current until
    /// then. Only work on the stream between this and the drop may use the memory.
    pub unsafe fn for_launch(&self, stream: CUstream, bytes: u64) -> Result<Workspace> {
        let pool = self.pool()?;
        let mut address = 0;
        // SAFETY: the caller vouches for the stream; the pool lives as long as this, `address` outlives the call.
        let code = unsafe { sys::cuMemAllocFromPoolAsync(&mut address, bytes as usize, pool.0, stream) };
        ok("cuMemAllocFromPoolAsync", code).map_err(|error| out_of_memory(error, bytes))?;
        Ok(Workspace { address, stream })
    }

    /// So many bytes that stay, not initialised. Not to be called while the thread captures.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], the driver's answer.
    pub fn own(&self, bytes: u64) -> Result<OwnWorkspace> {
        let _current = Current::enter(self.context.cu_ctx())?;
        let _relaxed = Relaxed::enter()?;
        let mut address = 0;
        // SAFETY: the context is current; `address` outlives the call.
        let code = unsafe { sys::cuMemAlloc_v2(&mut address, bytes as usize) };
        ok("cuMemAlloc", code).map_err(|error| out_of_memory(error, bytes))?;
        Ok(OwnWorkspace { context: Home::new(&self.context), address })
    }

    /// The pool, made at its first use.
    fn pool(&self) -> Result<Pool> {
        // Making it is one assignment at the end, so that a thread that panicked inside left it whole.
        let mut held = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        match *held {
            Some(pool) => Ok(pool),
            None => Ok(*held.insert(self.create()?)),
        }
    }

    fn create(&self) -> Result<Pool> {
        let _current = Current::enter(self.context.cu_ctx())?;
        let _relaxed = Relaxed::enter()?;
        /// `CU_MEM_ALLOCATION_TYPE_PINNED` and `CU_MEM_LOCATION_TYPE_DEVICE`.
        const DEVICE_MEMORY: u32 = 1;
        let mut properties = MaybeUninit::<sys::CUmemPoolProps>::zeroed();
        let words = properties.as_mut_ptr().cast::<u32>();
        let mut pool = std::ptr::null_mut();
        // SAFETY: in every version of the driver's header the structure starts with four words (kind of allocation, of
        // handle, of location, the device's number) and zeros are right for the rest.
        unsafe {
            words.write(DEVICE_MEMORY);
            words.add(2).write(DEVICE_MEMORY);
            words.add(3).write(self.context.ordinal() as u32);
        }
        // SAFETY: the structure was filled above; it and `pool` outlive the call.
        ok("cuMemPoolCreate", unsafe { sys::cuMemPoolCreate(&mut pool, properties.as_ptr()) })?;
        let set = |attribute, value: *mut std::ffi::c_void| {
            // SAFETY: the pool was created above; the value is of the attribute's type and outlives the call.
            ok("cuMemPoolSetAttribute", unsafe { sys::cuMemPoolSetAttribute(pool, attribute, value) })
        };
        // Keep everything; and let no stream wait for another for the sake of its memory.
        let (mut all, mut no) = (u64::MAX, 0_i32);
        let kept = set(Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, (&raw mut all).cast());
        let apart = set(Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, (&raw mut no).cast());
        if let Err(error) = kept.and(apart) {
            // SAFETY: created above and known to nobody else.
            let _ = unsafe { sys::cuMemPoolDestroy(pool) };
            return Err(error);
        }
        Ok(Pool(pool))
    }
}

impl Workspace {
    /// Where it is.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl OwnWorkspace {
    /// Where it is.
    pub fn address(&self) -> u64 {
        self.address
    }
}

fn out_of_memory(error: Error, bytes: u64) -> Error {
    match error {
        Error::OutOfMemory { .. } => Error::OutOfMemory { what: "a workspace".into(), bytes },
        other => other,
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // SAFETY: allocated on this stream, which is alive by the contract of `for_launch`; work that uses it comes before.
        let _ = unsafe { sys::cuMemFreeAsync(self.address, self.stream) };
    }
}

impl Drop for OwnWorkspace {
    fn drop(&mut self) {
        let Ok(_current) = Current::enter(self.context.cu_ctx()) else { return };
        // SAFETY: allocated by `own` in this context; freeing waits for kernels that still run.
        let _ = unsafe { sys::cuMemFree_v2(self.address) };
    }
}

impl Drop for Workspaces {
    fn drop(&mut self) {
        let held = self.pool.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(pool), Ok(_current)) = (held, Current::enter(self.context.cu_ctx())) else { return };
        // SAFETY: created by `create`; the driver keeps it until all of it has come back.
        let _ = unsafe { sys::cuMemPoolDestroy(pool.0) };
    }
}
