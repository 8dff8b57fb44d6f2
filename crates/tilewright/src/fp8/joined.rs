//! Q, K and V of 16 bits: rounded and multiplied.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut};

use super::*;
use crate::run::{check_element, check_inputs};
use crate::{Half, Inputs, Outputs, QuantizeOptions, quantizer};

/// A quantizer and the plan that reads what it writes. May be used from any thread.
#[derive(Debug)]
pub struct Fp8Plan {
    quantizer: Quantizer,
    attention: Plan,
    workspace: Workspace,
}

impl Fp8Plan {
    pub(super) fn new(engine: &Tilewright, problem: &Problem, options: &Fp8Options) -> Result<Self> {
        let Fp8Options { incoherent, scales, seed, accumulation, exponentials, all_at_once } = *options;
        if problem.fp8().is_some() {
            let reason = "it has 8 bits already: plan it as it is".to_owned();
            return Err(Error::Element { found: problem.element().to_string(), reason });
        }
        // The schedule says how long a block of keys is; until it is known, keys have a scale a head.
        let any = Granularities { k: Granularity::Head, ..granularities(scales, 0) };
        let any = quantized(problem, any, [None; 2], (accumulation, exponentials))?;
        let entry = policy::choose(engine.registry(), &any, engine.device().sms())?;
        let scales = granularities(scales, entry.schedule().tile.columns);
        let rotation = if incoherent { Rotation::Hadamard } else { Rotation::Off };
        let schedule = Quantize::for_hopper(problem.element(), problem.head_dim(), rotation, scales);
        let options = QuantizeOptions { seed, all_at_once, ..QuantizeOptions::default() };
        let quantizer = Quantizer::new(engine, problem, &schedule, &options)?;
        let problem = quantizer.attention_problem(accumulation, exponentials)?;
        let attention = Plan::new(engine.clone(), problem, entry, false)?;
        let workspace = Workspace::of(&quantizer);
        Ok(Self { quantizer, attention, workspace })
    }

    /// The problem of 16 bits.
    pub fn problem(&self) -> &Problem {
        self.quantizer.problem()
    }

    /// What rounds Q, K and V. May be run alone; the attention takes what it wrote ([`crate::Quantized::inputs`]).
    pub fn quantizer(&self) -> &Quantizer {
        &self.quantizer
    }

    /// What multiplies them.
    pub fn attention(&self) -> &Plan {
        &self.attention
    }

    /// Bytes of the workspace.
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace.bytes()
    }

    /// Bytes at its beginning that must be zero before the first launch; launches leave them zero. The rest may be
    /// anything.
    pub fn workspace_zeros(&self) -> u64 {
        self.workspace.zeros()
    }

    /// A workspace. Launches that may run at the same time need one each.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] for a stream of another; [`Error::OutOfMemory`].
    pub fn allocate(&self, stream: &Arc<CudaStream>) -> Result<CudaSlice<u8>> {
        allocate(&self.attention, stream, self.workspace_bytes())
    }

    /// Loads both kernels if no plan of the device did yet.
    ///
    /// # Errors
    /// Those of [`Plan::warm_up`].
    pub fn warm_up(&self) -> Result<()> {
        self.quantizer.warm_up()?;
        self.attention.warm_up()?;
        Ok(())
    }

    /// Rounds and computes on the stream, in its order, and returns without waiting.
    ///
    /// # Errors
    /// Those of [`Plan::run`]; [`Error::Buffer`] with `workspace`. Nothing is launched then.
    pub fn run<T: Half>(
        &self,
        stream: &Arc<CudaStream>,
        inputs: Inputs<'_, T>,
        outputs: Outputs<'_, T>,
        workspace: &mut dyn DevicePtrMut<u8>,
    ) -> Result<()> {
        let Inputs { q, k, v } = inputs;
        let Outputs { o, lse } = outputs;
        check_element::<T>(self.problem())?;
        check_inputs(self.attention.engine(), self.problem(), stream, &inputs, &*o, &*lse)?;
        check_home("workspace", self.attention.engine().device().context(), workspace.stream().context())?;
        quantizer::at_least("workspace", self.workspace_bytes(), workspace.len())?;
        if self.problem().is_empty() {
            return Ok(());
        }
        // Current until the events below are recorded: cudarc would make the context current and leave it so.
        let _current = self.attention.engine().device().enter()?;
        let ((q, _q), (k, _k), (v, _v)) = (q.device_ptr(stream), k.device_ptr(stream), v.device_ptr(stream));
        let ((o, _o), (lse, _lse)) = (o.device_ptr_mut(stream), lse.device_ptr_mut(stream));
        let (workspace, _workspace) = workspace.device_ptr_mut(stream);
        // SAFETY: the stream lives and is of the plan's context (checked); the buffers are of that context and long
        // enough (checked), borrowed for this call and, by cudarc's events on them, not reused before the stream's work
        // is done; outputs and workspace are borrowed mutably, so nothing overlaps them.
        unsafe { self.run_raw(stream.cu_stream(), RawPointers { q, k, v, o, lse }, workspace) }
    }

    /// Checks, encodes and launches both kernels on the stream, and returns; nothing is allocated on the device, set or
    /// waited for.
    ///
    /// # Errors
    /// Those of [`Plan::run_raw`], before anything is launched; [`Error::Misaligned`] with `workspace` too.
    ///
    /// # Safety
    /// As for [`Plan::run_raw`]; the workspace is [`Fp8Plan::workspace_bytes`] long, its first
    /// [`Fp8Plan::workspace_zeros`] bytes are zero unless a launch left them, and it is shared with no launch that may run
    /// at the same time.
    pub unsafe fn run_raw(&self, stream: CUstream, at: RawPointers, workspace: u64) -> Result<()> {
        // SAFETY: asked of the caller.
        unsafe { self.launch(stream, at, workspace, Holds::Zeros) }
    }

    /// The same over a workspace that may hold anything, as [`Quantizer::run_raw_unzeroed`] takes it.
    ///
    /// # Errors
    /// Those of [`Fp8Plan::run_raw`].
    ///
    /// # Safety
    /// As for [`Fp8Plan::run_raw`], but for what the workspace holds, and as for [`Quantizer::run_raw_unzeroed`].
    pub unsafe fn run_raw_unzeroed(&self, stream: CUstream, at: RawPointers, workspace: u64) -> Result<()> {
        // SAFETY: asked of the caller.
        unsafe { self.launch(stream, at, workspace, Holds::Anything) }
    }

    /// # Safety
    /// As for what the workspace holds.
    unsafe fn launch(&self, stream: CUstream, at: RawPointers, workspace: u64, holds: Holds) -> Result<()> {
        if self.problem().is_empty() {
            return Ok(());
        }
        let _current = self.attention.engine().device().enter()?;
        let (quantizing, codes, scales) = self.addresses(&at, workspace)?;
        // SAFETY: asked of the caller; the context was made current above.
        unsafe { run(stream, (&self.quantizer, quantizing, holds), &self.attention, &codes, &scales) }
    }

    /// Checks and encodes once, for launches with these very addresses. Loads the kernels if need be, so not to be called
    /// while a stream captures.
    ///
    /// # Errors
    /// Those of [`Fp8Plan::run_raw`].
    ///
    /// # Safety
    /// The addresses must be as for [`Fp8Plan::run_raw`] whenever the result is launched.
    pub unsafe fn prepare_raw(&self, at: RawPointers, workspace: u64) -> Result<PreparedFp8> {
        if self.problem().is_empty() {
            return Ok(PreparedFp8 { launches: None });
        }
        let (quantizing, codes, scales) = self.addresses(&at, workspace)?;
        // SAFETY: asked of the caller.
        unsafe { prepare(&self.quantizer, &quantizing, &self.attention, codes, scales) }
    }

    fn addresses(&self, at: &RawPointers, workspace: u64) -> Result<(QuantizePointers, RawPointers, ScalePointers)> {
        Workspace::check(workspace)?;
        let (codes, scales) = self.workspace.quantized(workspace, at);
        Ok((self.workspace.quantizing(workspace, [at.q, at.k, at.v]), codes, scales))
    }
}
