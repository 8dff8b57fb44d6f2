//! A GPU as a suite sees it, and device buffers that tell when somebody writes beside them or not at all.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DeviceRepr, result, sys};
use runtime::Device;
use tilewright::Tilewright;

use crate::gpu::suite;

/// A GPU with a handle of the facade and a stream of its own.
pub struct Gpu {
    /// The facade.
    pub attention: Tilewright,
    /// Its context.
    pub context: Arc<CudaContext>,
    /// A non-blocking stream.
    pub stream: Arc<CudaStream>,
}

/// What a call may take, milliseconds.
static LIMIT: AtomicU64 = AtomicU64::new(10_000);

/// Sets how long a call may take: 10 seconds unless something slows the GPU down.
pub fn allow(limit: Duration) {
    LIMIT.store(limit.as_millis() as u64, Ordering::Relaxed);
}

impl Gpu {
    /// The GPU of that number, or in words why there is none to use.
    pub fn open(ordinal: usize) -> Result<Self, String> {
        let words = |error: runtime::Error| match error {
            runtime::Error::NoDriver => "no NVIDIA driver".to_owned(),
            other => other.to_string(),
        };
        let device = Device::open(ordinal).map_err(words)?;
        let context = device.context().clone();
        let attention = Tilewright::new(&context).map_err(words)?;
        let stream = context.new_stream().map_err(|error| error.to_string())?;
        Ok(Self { attention, context, stream })
    }

    /// Another facade on the same context, which has loaded nothing yet.
    pub fn fresh(&self) -> Tilewright {
        Tilewright::new(&self.context).expect("a second handle on the same context")
    }

    /// Another non-blocking stream.
    pub fn new_stream(&self) -> Arc<CudaStream> {
        self.context.new_stream().expect("a stream")
    }

    /// Whether the context still answers.
    pub fn alive(&self) -> Result<(), String> {
        self.context.synchronize().map_err(|error| error.to_string())
    }

    /// Waits for the stream's work; a fault fails the trial, a hang ends the process.
    pub fn wait(&self, stream: &CudaStream) {
        let (start, limit) = (Instant::now(), Duration::from_millis(LIMIT.load(Ordering::Relaxed)));
        self.context.bind_to_thread().expect("the context binds");
        loop {
            // SAFETY: the stream is alive, its context is current.
            match unsafe { sys::cuStreamQuery(stream.cu_stream()) } {
                CUresult::CUDA_SUCCESS => return,
                CUresult::CUDA_ERROR_NOT_READY => {}
                fault => panic!("the work on the stream failed: {fault:?}"),
            }
            if start.elapsed() > limit {
                suite::abort(&format!("hangs: the work on the stream did not end within {limit:?}"));
            }
            let pause = if start.elapsed() < Duration::from_millis(1) { 5 } else { 200 };
            std::thread::sleep(Duration::from_micros(pause));
        }
    }
}

/// Puts a pause of so many milliseconds into a stream's order.
pub fn pause(stream: &CudaStream, milliseconds: usize) {
    unsafe extern "C" fn sleep(milliseconds: *mut c_void) {
        std::thread::sleep(Duration::from_millis(milliseconds.addr() as u64));
    }
    let argument = std::ptr::without_provenance_mut(milliseconds);
    // SAFETY: the stream is alive; the function takes a number in the pointer's place and calls nothing of the driver.
    let enqueued = unsafe { result::stream::launch_host_function(stream.cu_stream(), sleep, argument) };
    enqueued.expect("a pause is enqueued");
}

/// The context that is current on this thread.
pub fn current_context() -> sys::CUcontext {
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver is initialised wherever there is a `Gpu`; `context` outlives the call.
    let code = unsafe { sys::cuCtxGetCurrent(&mut context) };
    assert_eq!(code, CUresult::CUDA_SUCCESS, "the driver tells the current context");
    context
}

/// Elements on each side of a guarded buffer that nobody may write: more than a whole tile.
const GUARD: usize = 1 << 15;
/// The byte that guards are made of.
const CANARY: u8 = 0xA5;
/// The byte that buffers are made of before a call: NaN in every element type.
const POISON: u8 = 0xFF;

/// Fills device memory.
pub fn set<T>(stream: &CudaStream, slice: &CudaSlice<T>, range: std::ops::Range<usize>, byte: u8) {
    assert!(range.end <= slice.len());
    stream.context().bind_to_thread().expect("the context binds");
    let (base, _record) = slice.device_ptr(stream);
    let size = size_of::<T>();
    let (at, bytes) = (base + (range.start * size) as u64, range.len() * size);
    if bytes > 0 {
        // SAFETY: within the slice (checked), which is alive; every byte pattern is a value of the types used here.
        unsafe { result::memset_d8_async(at, byte, bytes, stream.cu_stream()) }.expect("memory is set");
    }
}

/// A buffer full of NaN between two guards.
pub struct Guarded<T> {
    name: String,
    buffer: CudaSlice<T>,
    len: usize,
}

impl<T: DeviceRepr> Guarded<T> {
    /// A buffer of so many elements.
    pub fn new(stream: &Arc<CudaStream>, name: impl Into<String>, len: usize) -> Self {
        // SAFETY: all of it is set below, before anybody reads it.
        let buffer = unsafe { stream.alloc::<T>(len + 2 * GUARD) }.expect("device memory");
        set(stream, &buffer, 0..len + 2 * GUARD, CANARY);
        let guarded = Self { name: name.into(), buffer, len };
        guarded.poison(stream);
        guarded
    }

    /// Fills it with NaN again.
    pub fn poison(&self, stream: &CudaStream) {
        set(stream, &self.buffer, GUARD..GUARD + self.len, POISON);
    }

    /// What lies between the guards.
    pub fn view(&self) -> CudaView<'_, T> {
        self.buffer.slice(GUARD..GUARD + self.len)
    }

    /// What lies between the guards, to be written.
    pub fn view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.buffer.slice_mut(GUARD..GUARD + self.len)
    }

    /// The address of its first element.
    pub fn address(&self, stream: &CudaStream) -> u64 {
        self.buffer.device_ptr(stream).0 + (GUARD * size_of::<T>()) as u64
    }

    /// Fails unless both guards are as they were.
    pub fn check(&self, stream: &Arc<CudaStream>) {
        let after = GUARD + self.len;
        for (side, range) in [("before", 0..GUARD), ("after", after..after + GUARD)] {
            let guard = stream.clone_dtoh(&self.buffer.slice(range)).expect("a guard comes back");
            stream.synchronize().expect("the copy ends");
            if let Some(at) = bytes(&guard).iter().position(|&byte| byte != CANARY) {
                panic!("{}: memory {side} it was written, byte {at} of the guard", self.name);
            }
        }
    }

    /// Its elements, after both guards were found intact.
    pub fn download(&self, stream: &Arc<CudaStream>) -> Vec<T> {
        self.check(stream);
        if self.len == 0 {
            return Vec::new();
        }
        let all = stream.clone_dtoh(&self.view()).expect("a buffer comes back");
        stream.synchronize().expect("the copy ends");
        all
    }
}

/// The bytes of plain numbers.
pub fn bytes<T: DeviceRepr>(values: &[T]) -> &[u8] {
    // SAFETY: the types used here are bytes and 16- and 32-bit floats, without padding; the lifetime is the slice's.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}
