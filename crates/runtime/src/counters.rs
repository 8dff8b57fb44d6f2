//! Device memory for words that kernels find at zero and leave at zero: the tile counters of dynamic grids, and what the
//! quantizer's blocks tell one another.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{self, CUstream};

use crate::driver::{Current, Relaxed, is_capturing, ok};
use crate::home::Home;
use crate::slots::{POOL, SPACING, Slots};
use crate::{Error, Result};

/// Free counters below which memory is added outside of captures, so that captures find some.
const LOW: usize = POOL / 2;

/// Counters of a device: 32-bit words in device memory, zero whenever no kernel counts in them.
///
/// Memory is added while no capture runs; it goes back when the device handle and all kernels loaded by it are dropped.
/// A graph that was captured with them must not be replayed after that, and two graphs instantiated from one capture
/// must not run at the same time.
#[derive(Debug)]
pub struct Counters {
    context: Home,
    slots: Mutex<Slots>,
    /// Pools that there may be.
    most: usize,
}

impl Counters {
    /// The first pool; more as they are needed.
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Self> {
        let counters = Self::none_yet(context, usize::MAX);
        counters.grow(&mut counters.lock())?;
        Ok(counters)
    }

    /// No pool before the first launch, and never more than so many.
    pub(crate) fn none_yet(context: &Arc<CudaContext>, most: usize) -> Self {
        Self { context: Home::new(context), slots: Mutex::new(Slots::default()), most }
    }

    /// The bookkeeping; a thread that panicked inside left it whole.
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of so many bytes of counters for one launch on the stream: the stream's own, or fresh ones if the launch
    /// is being recorded.
    ///
    /// # Errors
    /// [`Error::CountersExhausted`] for more than a quarter megabyte, and inside a capture with none left;
    /// [`Error::OutOfMemory`], the driver's answer.
    ///
    /// # Safety
    /// The stream must be alive and belong to the counters' context.
    pub unsafe fn for_launch(&self, stream: CUstream, bytes: u64) -> Result<u64> {
        let _current = Current::enter(self.context.cu_ctx())?;
        // SAFETY: the caller vouches for the stream; its context is current.
        if unsafe { is_capturing(stream) }? {
            let mut slots = self.lock();
            let capacity = slots.capacity();
            return slots.fresh(bytes).ok_or(Error::CountersExhausted { capacity });
        }
        let mut id = 0;
        // SAFETY: the caller vouches for the stream; `id` outlives the call.
        ok("cuStreamGetId", unsafe { sys::cuStreamGetId(stream, &mut id) })?;
        let mut slots = self.lock();
        let more = self.keep(&mut slots, LOW);
        match slots.of_stream(id, bytes).or_else(|| slots.give(id, bytes)) {
            Some(slot) => Ok(slot),
            None => Err(more.err().unwrap_or(Error::CountersExhausted { capacity: slots.capacity() })),
        }
    }

    /// The same for a launch that has memory of its own for them: where no counters are left, that is zeroed in the stream's
    /// order, and its address given.
    ///
    /// # Errors
    /// The driver's answer.
    ///
    /// # Safety
    /// As for [`Counters::for_launch`]; `own` must be the address of so many bytes of the device's memory, which no other
    /// work uses until the stream has done this.
    pub unsafe fn for_launch_or(&self, stream: CUstream, bytes: u64, own: u64) -> Result<u64> {
        // SAFETY: asked of the caller.
        match unsafe { self.for_launch(stream, bytes) } {
            Err(Error::CountersExhausted { .. } | Error::OutOfMemory { .. }) => {
                let _current = Current::enter(self.context.cu_ctx())?;
                // SAFETY: the context is current and the stream is one of it; the caller vouches for the memory.
                let set = unsafe { sys::cuMemsetD8Async(own, 0, bytes as usize, stream) };
                ok("cuMemsetD8Async", set).map(|()| own)
            }
            other => other,
        }
    }

    /// The address of so many bytes of counters that no other launch has or will have. Never given back, so they cost
    /// multiples of 64 bytes for good.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], the driver's answer. Adds memory when none is left, so not to be called while capturing.
    pub fn fresh(&self, bytes: u64) -> Result<u64> {
        let mut slots = self.lock();
        if let Some(fresh) = slots.fresh(bytes) {
            return Ok(fresh);
        }
        self.grow(&mut slots)?;
        slots.fresh(bytes).ok_or(Error::CountersExhausted { capacity: slots.capacity() })
    }

    /// Makes room for this many launches that a capture is going to record.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], the driver's answer.
    pub fn reserve(&self, launches: usize) -> Result<()> {
        self.keep(&mut self.lock(), launches)
    }

    /// Adds pools until so many are free.
    fn keep(&self, slots: &mut Slots, free: usize) -> Result<()> {
        while slots.free() < free {
            if slots.pools().len() >= self.most {
                return Err(Error::CountersExhausted { capacity: slots.capacity() });
            }
            self.grow(slots)?;
        }
        Ok(())
    }

    /// Allocates and zeroes one pool on a stream of its own, waiting for it.
    fn grow(&self, slots: &mut Slots) -> Result<()> {
        let _current = Current::enter(self.context.cu_ctx())?;
        let _relaxed = Relaxed::enter()?;
        let bytes = POOL as u64 * SPACING;
        let mut base = 0;
        // SAFETY: the context is current; `base` outlives the call.
        ok("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut base, bytes as usize) }).map_err(|error| match error {
            Error::OutOfMemory { .. } => Error::OutOfMemory { what: "a pool of tile counters".into(), bytes },
            other => other,
        })?;
        let zeroed = zero(base, bytes as usize);
        if zeroed.is_err() {
            // SAFETY: allocated above and known to nobody else.
            let _ = unsafe { sys::cuMemFree_v2(base) };
        } else {
            slots.add(base);
        }
        zeroed
    }
}

/// Zeroes device memory on a non-blocking stream and waits for it.
fn zero(base: u64, bytes: usize) -> Result<()> {
    let mut stream = std::ptr::null_mut();
    let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: the caller made the context current; `stream` outlives the call.
    ok("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, flags) })?;
    // SAFETY: the memory is the caller's, `bytes` long; the stream was created above.
    let set = ok("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(base, 0, bytes, stream) });
    // SAFETY: created above.
    let done = set.and_then(|()| ok("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream) }));
    // SAFETY: created above and not used again.
    let gone = ok("cuStreamDestroy", unsafe { sys::cuStreamDestroy_v2(stream) });
    done.and(gone)
}

impl Drop for Counters {
    fn drop(&mut self) {
        let Ok(_current) = Current::enter(self.context.cu_ctx()) else { return };
        for &base in self.lock().pools() {
            // SAFETY: allocated by `grow` in this context; freeing waits for kernels that still run.
            let _ = unsafe { sys::cuMemFree_v2(base) };
        }
    }
}
