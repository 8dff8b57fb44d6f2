//! Q, K and V of 16 bits to e4m3 with scales, as attention in e4m3 reads them.
//!
//! ```no_run
//! use tilewright::cudarc::driver::CudaContext;
//! use tilewright::half::bf16;
//! use tilewright::{Granularities, Granularity, Inputs, Problem, Quantize, Quantizer, Rotation, Tilewright};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = CudaContext::new(0)?;
//! let stream = context.new_stream()?;
//! let problem = Problem::builder().queries(4096).heads(16).kv_heads(4).head_dim(128).build()?;
//! let scales = Granularities { q: Granularity::Block(64), k: Granularity::Block(128), v: Granularity::Head };
//! let schedule = Quantize::for_hopper(problem.element(), problem.head_dim(), Rotation::Hadamard, scales);
//! let quantizer = Quantizer::new(&Tilewright::new(&context)?, &problem, &schedule, &Default::default())?;
//!
//! let q = stream.alloc_zeros::<bf16>(4096 * 16 * 128)?;
//! let (k, v) = (stream.alloc_zeros::<bf16>(4096 * 4 * 128)?, stream.alloc_zeros::<bf16>(4096 * 4 * 128)?);
//! let mut quantized = quantizer.allocate(&stream)?;
//! quantizer.run(&stream, Inputs { q: &q, k: &k, v: &v }, &mut quantized)?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is written
//!
//! | | shape | layout |
//! |---|---|---|
//! | codes of Q, K | `[B, S, H, D]` u8 | any strides of whole 16 bytes over a contiguous last dimension; without gaps by default |
//! | codes of V | `[B, Hk, Dv, Sk]` u8 | no gaps; keys of every 16 in the order 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15 |
//! | scales by blocks of n rows | `[B, H, ceil(S / n)]` f32 | no gaps |
//! | scales by head | `[B, H]` f32 | no gaps |
//! | one scale a tensor | `[1]` f32 | |
//!
//! D and Dv are rounded up to 16, Sk likewise, and what is added is zeros. A value is its code times its scale. Rotated
//! rows of Q and K are `x S H / sqrt(n)`: random signs S from the seed and the column, H of Sylvester's order over blocks of
//! n columns, the largest power of two that divides D. Both are rotated by the same, so that Q K^T stays.
//!
//! # How it is launched
//!
//! One launch, and no work for the host. V is read once where the warpgroups of all SMs can hold the tiles of a head, or of
//! the tensor where it has one scale (50,000 keys of 128 columns on 132 SMs): the blocks then wait for one another, and a
//! cooperative launch starts all of them or none. Longer heads are read twice, the second time from the L2 cache, and so
//! is everything with [`QuantizeOptions::all_at_once`] off.
//!
//! # Special values
//!
//! A scale is the largest magnitude over 448. A block of zeros (all below 2^-100) has scale 1 and zeros for codes.
//! Not-a-numbers stay so, each in its own element of V and its own row of rotated Q and K, and take no part in a maximum. An
//! infinity counts as the largest finite f32 in the maximum, becomes plus or minus 448, and leaves little of its block; in
//! a row of Q or K it also makes not-a-numbers of the columns that it is mixed with (all 64 around it, without a rotation).

use std::sync::{Arc, OnceLock};

use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut};
use runtime::{Argument, CUstream, Error, Kernel, LoadReport, Prepared, Result, is_capturing};
use schedule::Quantize;

use crate::abi::quantize::{Addresses, Numbers};
use crate::layout::Layout;
use crate::registry::lowered_quantizer;
use crate::run::{check_element, check_home};
use crate::{Fp8Inputs, Half, Inputs, Lowered, Problem, Scales, Strides, Tilewright};

pub use crate::abi::quantize::{Addresses as QuantizePointers, Options as QuantizeOptions};

/// A problem's Q, K and V with the kernel that rounds them, ready to be run any number of times. Mask and scale of the
/// problem play no part. A problem without queries, or without keys, has the others rounded alone.
///
/// May be used from any thread.
#[derive(Debug)]
pub struct Quantizer {
    engine: Tilewright,
    problem: Problem,
    schedule: Quantize,
    lowered: Arc<Lowered>,
    numbers: Numbers,
    kernel: OnceLock<Arc<Kernel>>,
}

/// Codes, scales and the workspace in device memory.
#[derive(Debug)]
pub struct Quantized {
    /// Of Q, K and V.
    pub codes: [CudaSlice<u8>; 3],
    /// Of Q, K and V.
    pub scales: [CudaSlice<f32>; 3],
    /// Zero between launches. Launches that may run at the same time need one each.
    pub workspace: CudaSlice<u32>,
}

/// A quantizer with fixed addresses: a launch is one driver call.
#[derive(Debug)]
pub struct PreparedQuantizer {
    /// None where there is nothing to round.
    launch: Option<Prepared>,
}

impl Quantized {
    /// As a plan of the quantizer's problem takes them.
    pub fn inputs(&self) -> Fp8Inputs<'_, u8> {
        let ([q, k, v], [qs, ks, vs]) = (&self.codes, &self.scales);
        Fp8Inputs { q, k, v, scales: Scales { q: Some(qs), k: Some(ks), v: Some(vs) } }
    }
}

impl Quantizer {
    /// The quantizer of that schedule for the problem. Lowers and proves the kernel; nothing is loaded yet.
    ///
    /// # Errors
    /// [`Error::Refused`] for a schedule that makes no kernel; [`Error::HeadDim`] and [`Error::Element`] where it does not
    /// read this problem's tensors; [`Error::Stride`] for strides of codes; [`Error::Shape`] for too many tiles.
    pub fn new(engine: &Tilewright, problem: &Problem, schedule: &Quantize, options: &QuantizeOptions) -> Result<Self> {
        let numbers = Numbers::new(problem, schedule, options, engine.device().sms())?;
        let lowered = lowered_quantizer(schedule)?;
        let (engine, schedule) = (engine.clone(), schedule.clone());
        Ok(Self { engine, problem: *problem, schedule, lowered, numbers, kernel: OnceLock::new() })
    }

    /// The problem.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// What it does, and by which kernel.
    pub fn schedule(&self) -> &Quantize {
        &self.schedule
    }

    /// The PTX that does it.
    pub fn lowered(&self) -> &Lowered {
        &self.lowered
    }

    /// Elements that the codes of Q, K and V reach from their bases on.
    pub fn code_elements(&self) -> [u64; 3] {
        self.numbers.code_elements(&self.problem)
    }

    /// Strides of the codes of Q and K, in elements.
    pub fn code_strides(&self) -> [Strides; 2] {
        self.numbers.code_strides()
    }

    /// Scales of Q, K and V.
    pub fn scale_elements(&self) -> [u64; 3] {
        self.numbers.scale_elements()
    }

    /// Bytes of the workspace. It must be zero before the first launch; launches leave it zero.
    pub fn workspace_bytes(&self) -> u64 {
        self.numbers.workspace_bytes()
    }

    /// Loads the kernel if no quantizer of the device did yet.
    ///
    /// # Errors
    /// [`Error::Jit`], [`Error::Spilled`], [`Error::Serialized`], [`Error::DriverTooOld`], the driver's answer.
    pub fn warm_up(&self) -> Result<LoadReport> {
        self.loaded().map(|kernel| kernel.report().clone())
    }

    /// Device memory for what a run writes, and its workspace, zeroed.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] for a stream of another; the driver's answer.
    pub fn allocate(&self, stream: &Arc<CudaStream>) -> Result<Quantized> {
        check_home("the stream", self.engine.device().context(), stream.context())?;
        let _current = self.engine.device().enter()?;
        let words = self.workspace_bytes() as usize / size_of::<u32>();
        let [q, k, v] = self.code_elements().map(|elements| zeroed(stream, elements));
        let [qs, ks, vs] = self.scale_elements().map(|elements| zeroed(stream, elements));
        Ok(Quantized { codes: [q?, k?, v?], scales: [qs?, ks?, vs?], workspace: zeroed(stream, words as u64)? })
    }

    /// Rounds on the stream, in its order, and returns without waiting.
    ///
    /// # Errors
    /// [`Error::Element`] for buffers of another type than the problem's; [`Error::WrongDevice`] with the tensor;
    /// [`Error::Buffer`] with the tensor and the length that it must have; and those of [`Quantizer::run_raw`]. Nothing is
    /// launched then.
    pub fn run<T: Half>(&self, stream: &Arc<CudaStream>, inputs: Inputs<'_, T>, into: &mut Quantized) -> Result<()> {
        let Inputs { q, k, v } = inputs;
        check_element::<T>(&self.problem)?;
        let home = self.engine.device().context();
        check_home("the stream", home, stream.context())?;
        for (tensor, at) in [("q", q.stream()), ("k", k.stream()), ("v", v.stream())] {
            check_home(&format!("tensor {tensor}"), home, at.context())?;
        }
        for (layout, found) in self.problem.layouts().iter().zip([q.len(), k.len(), v.len()]) {
            at_least(layout.name, Layout::reach(layout).unwrap_or(u64::MAX), found)?;
        }
        self.check_outputs(into)?;
        if self.numbers.items() == 0 {
            return Ok(());
        }
        let _current = self.engine.device().enter()?;
        let ((q, _q), (k, _k), (v, _v)) = (q.device_ptr(stream), k.device_ptr(stream), v.device_ptr(stream));
        let [c0, c1, c2] = &mut into.codes;
        let [s0, s1, s2] = &mut into.scales;
        let ((c0, _c0), (c1, _c1), (c2, _c2)) =
            (c0.device_ptr_mut(stream), c1.device_ptr_mut(stream), c2.device_ptr_mut(stream));
        let ((s0, _s0), (s1, _s1), (s2, _s2)) =
            (s0.device_ptr_mut(stream), s1.device_ptr_mut(stream), s2.device_ptr_mut(stream));
        let (workspace, _workspace) = into.workspace.device_ptr_mut(stream);
        let at = Addresses { tensors: [q, k, v], codes: [c0, c1, c2], scales: [s0, s1, s2], workspace };
        // SAFETY: the stream lives and is of the engine's context (checked); the buffers are of that context and long
        // enough (checked), borrowed for this call and, by cudarc's events on them, not reused before the stream's work
        // is done; outputs and workspace are borrowed mutably, so nothing overlaps them.
        unsafe { self.run_raw(stream.cu_stream(), &at) }
    }

    /// Checks, encodes and launches on the stream, and returns; nothing is allocated on the device, set or waited for. The
    /// first run loads the kernel unless [`Quantizer::warm_up`] did.
    ///
    /// # Errors
    /// [`Error::Misaligned`] with the tensor and the rule, before anything is launched; [`Error::CaptureCold`] inside a
    /// capture; those of [`Quantizer::warm_up`]; the driver's answer.
    ///
    /// # Safety
    /// The stream must be alive and belong to the engine's context. The addresses must be memory that the device can
    /// reach, as large as the problem's strides and the numbers here say, initialised for Q, K and V, and neither freed nor
    /// used otherwise until the work on the stream is done; what is written must not overlap anything else. The workspace
    /// must be zero unless a launch left it, and shared with no launch that may run at the same time.
    pub unsafe fn run_raw(&self, stream: CUstream, at: &QuantizePointers) -> Result<()> {
        if self.numbers.items() == 0 {
            return Ok(());
        }
        let _current = self.engine.device().enter()?;
        // SAFETY: asked of the caller above.
        match unsafe { self.ready(stream, at) }? {
            // SAFETY: the kernel was lowered for this schedule and its arguments describe the caller's memory; the caller
            // vouches for the memory and the stream.
            Some(launch) => unsafe { launch.launch(stream) },
            None => Ok(()),
        }
    }

    /// The same over a workspace that may hold anything: in its place the launch takes words that the device keeps at
    /// zero, the stream's own or fresh ones for a launch that a capture records. Where none are left, inside of captures
    /// above all, the workspace is zeroed on the stream first.
    ///
    /// # Errors
    /// Those of [`Quantizer::run_raw`].
    ///
    /// # Safety
    /// As for [`Quantizer::run_raw`], but for what the workspace holds. The engine must live as long as graphs that recorded
    /// the launch, and two graphs of one capture must not run at the same time.
    pub unsafe fn run_raw_unzeroed(&self, stream: CUstream, at: &QuantizePointers) -> Result<()> {
        if self.numbers.items() == 0 {
            return Ok(());
        }
        // SAFETY: asked of the caller.
        let workspace = unsafe { self.zero_words(stream, at.workspace) }?;
        // SAFETY: asked of the caller; the words are zero in the stream's order and no other launch's at the same time.
        unsafe { self.run_raw(stream, &QuantizePointers { workspace, ..*at }) }
    }

    /// The address of a workspace that is zero for one launch: the device's, or else the given one, zeroed.
    ///
    /// # Errors
    /// The driver's answer.
    ///
    /// # Safety
    /// As for [`Quantizer::run_raw_unzeroed`].
    pub(crate) unsafe fn zero_words(&self, stream: CUstream, own: u64) -> Result<u64> {
        // SAFETY: asked of the caller.
        unsafe { self.engine.device().words().for_launch_or(stream, self.workspace_bytes(), own) }
    }

    /// Everything but the launch itself; none where there is nothing to round.
    ///
    /// # Errors
    /// Those of [`Quantizer::run_raw`].
    ///
    /// # Safety
    /// As for [`Quantizer::run_raw`], and the engine's context must be current.
    pub(crate) unsafe fn ready(&self, stream: CUstream, at: &QuantizePointers) -> Result<Option<Prepared>> {
        if self.numbers.items() == 0 {
            return Ok(None);
        }
        let arguments = self.arguments(at)?;
        if self.kernel.get().is_none() && self.engine.loaded(&self.lowered).is_none() {
            // SAFETY: the caller vouches for the stream; its context is current.
            if unsafe { is_capturing(stream) }? {
                return Err(Error::CaptureCold { kernel: self.schedule.name.clone() });
            }
        }
        self.prepared(&arguments).map(Some)
    }

    /// Checks and encodes once, for launches with these very addresses. Loads the kernel if need be, so not to be called
    /// while a stream captures.
    ///
    /// # Errors
    /// Those of [`Quantizer::run_raw`].
    ///
    /// # Safety
    /// The addresses must be as for [`Quantizer::run_raw`] whenever the result is launched.
    pub unsafe fn prepare_raw(&self, at: &QuantizePointers) -> Result<PreparedQuantizer> {
        if self.numbers.items() == 0 {
            return Ok(PreparedQuantizer { launch: None });
        }
        let _current = self.engine.device().enter()?;
        Ok(PreparedQuantizer { launch: Some(self.prepared(&self.arguments(at)?)?) })
    }

    fn arguments(&self, at: &QuantizePointers) -> Result<Vec<(String, Argument)>> {
        self.numbers.arguments(self.lowered.kernel(), &self.problem, at)
    }

    fn prepared(&self, arguments: &[(String, Argument)]) -> Result<Prepared> {
        let arguments: Vec<(&str, Argument)> = arguments.iter().map(|(name, a)| (name.as_str(), a.clone())).collect();
        let launch = self.loaded()?.prepare(self.numbers.grid(), &arguments)?;
        Ok(if self.numbers.all_at_once() { launch.all_at_once() } else { launch })
    }

    fn loaded(&self) -> Result<&Arc<Kernel>> {
        if let Some(kernel) = self.kernel.get() {
            return Ok(kernel);
        }
        let kernel = self.engine.kernel(&self.lowered)?;
        Ok(self.kernel.get_or_init(|| kernel))
    }

    /// What is written must have the shapes that this quantizer writes.
    fn check_outputs(&self, into: &Quantized) -> Result<()> {
        let home = self.engine.device().context();
        let words = self.workspace_bytes() / size_of::<u32>() as u64;
        let Quantized { codes, scales, workspace } = into;
        for (t, name) in crate::abi::quantize::TENSORS.into_iter().enumerate() {
            check_home(&format!("{name} codes"), home, codes[t].context())?;
            check_home(&format!("{name} scales"), home, scales[t].context())?;
            at_least(&format!("{name} codes"), self.code_elements()[t], codes[t].len())?;
            at_least(&format!("{name} scales"), self.scale_elements()[t], scales[t].len())?;
        }
        check_home("workspace", home, workspace.context())?;
        at_least("workspace", words, workspace.len())
    }
}

impl PreparedQuantizer {
    /// Puts the work on the stream and returns. May be recorded by a capture.
    ///
    /// # Errors
    /// The driver's answer.
    ///
    /// # Safety
    /// Stream and addresses must be as for [`Quantizer::run_raw`].
    pub unsafe fn launch(&self, stream: CUstream) -> Result<()> {
        match &self.launch {
            // SAFETY: asked of the caller above; the arguments were built by `prepare_raw`.
            Some(launch) => unsafe { launch.launch(stream) },
            None => Ok(()),
        }
    }
}

/// Zeroed device memory; of nothing, one element.
fn zeroed<T: cudarc::driver::DeviceRepr + cudarc::driver::ValidAsZeroBits>(
    stream: &Arc<CudaStream>,
    elements: u64,
) -> Result<CudaSlice<T>> {
    stream.alloc_zeros(elements.max(1) as usize).map_err(|answer| {
        let bytes = elements.saturating_mul(size_of::<T>() as u64);
        Error::OutOfMemory { what: format!("an output of the quantizer ({answer})"), bytes }
    })
}

pub(crate) fn at_least(tensor: &str, needed: u64, found: usize) -> Result<()> {
    match found as u64 {
        found if found < needed => Err(Error::Buffer { tensor: tensor.into(), needed, found }),
        _ => Ok(()),
    }
}
