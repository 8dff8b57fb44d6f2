//! Q of 16 bits over K and V of 8 bits: Q alone is rounded.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};

use super::*;
use crate::run::{check_element, check_elements, check_lengths, check_scales};
use crate::{Eight, Half, Outputs, QuantizeOptions, Scales, quantizer};

/// A quantizer of Q alone and the plan that reads what it writes, with K and V as they are. May be used from any thread.
#[derive(Debug)]
pub struct Fp8CachePlan {
    quantizer: Quantizer,
    attention: Plan,
    workspace: Workspace,
}

/// What is read: slices or views, each starting at the first element of its tensor.
#[derive(Clone, Copy)]
pub struct CacheInputs<'a, T, E> {
    /// Q of 16 bits.
    pub q: &'a dyn DevicePtr<T>,
    /// K.
    pub k: &'a dyn DevicePtr<E>,
    /// V.
    pub v: &'a dyn DevicePtr<E>,
    /// Scales of K and V; those of Q are made here and must be none.
    pub scales: Scales<'a>,
}

impl Fp8CachePlan {
    pub(super) fn new(
        engine: &Tilewright,
        problem: &Problem,
        queries: Element,
        options: &CacheOptions,
    ) -> Result<Self> {
        let refuse =
            |found: Element, reason: &str| Err(Error::Element { found: found.to_string(), reason: reason.into() });
        let Some(fp8) = problem.fp8().filter(|_| problem.element() == Element::E4m3) else {
            return refuse(problem.element(), "Q is rounded to e4m3, and products have K of the same type");
        };
        if queries.is_fp8() {
            return refuse(queries, "Q of a cache's plan has 16 bits: plan it as it is");
        }
        // Nothing but Q is rounded.
        let alone = Problem { element: queries, fp8: None, keys: 0, ..*problem };
        let rotation = if options.rotation.is_some() { Rotation::Hadamard } else { Rotation::Off };
        let scales = Granularities { k: Granularity::Block(QUERY_SCALE_ROWS), ..granularities(ScalesOf::Block, 0) };
        let schedule = Quantize::for_hopper(queries, problem.head_dim(), rotation, scales);
        let options = QuantizeOptions { seed: options.rotation.unwrap_or(0), ..QuantizeOptions::default() };
        let quantizer = Quantizer::new(engine, &alone, &schedule, &options)?;
        let fp8 = Fp8 { q: ScaleBy::Block(QUERY_SCALE_ROWS).into(), ..*fp8 };
        let problem = Problem { fp8: Some(fp8), q: quantizer.code_strides()[0], ..*problem };
        let attention = engine.plan(&problem)?;
        let workspace = Workspace::of(&quantizer);
        Ok(Self { quantizer, attention, workspace })
    }

    /// The problem of the cache, with the scales of Q that the quantizer writes.
    pub fn problem(&self) -> &Problem {
        self.attention.problem()
    }

    /// What rounds Q: of a problem without keys.
    pub fn quantizer(&self) -> &Quantizer {
        &self.quantizer
    }

    /// What multiplies.
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

    /// Rounds Q and computes on the stream, in its order, and returns without waiting.
    ///
    /// # Errors
    /// Those of [`Plan::run_fp8`]; [`Error::Element`] for Q of another type; [`Error::Buffer`] with `workspace`. Nothing
    /// is launched then.
    pub fn run<T: Half, E: Eight, O: Half>(
        &self,
        stream: &Arc<CudaStream>,
        inputs: CacheInputs<'_, T, E>,
        outputs: Outputs<'_, O>,
        workspace: &mut dyn DevicePtrMut<u8>,
    ) -> Result<()> {
        let CacheInputs { q, k, v, scales } = inputs;
        let Outputs { o, lse } = outputs;
        let problem = self.problem();
        check_element::<T>(self.quantizer.problem())?;
        check_elements::<E, O>(problem)?;
        let home = self.attention.engine().device().context();
        let homes = [
            ("the stream", stream),
            ("tensor q", q.stream()),
            ("tensor k", k.stream()),
            ("tensor v", v.stream()),
            ("tensor o", o.stream()),
            ("tensor lse", lse.stream()),
            ("workspace", workspace.stream()),
        ];
        homes.into_iter().try_for_each(|(what, at)| check_home(what, home, at.context()))?;
        // Q lies by the strides of what is rounded.
        let reads = Problem { q: self.quantizer.problem().q, ..*problem };
        check_lengths(&reads, [q.len(), k.len(), v.len(), o.len()], lse.len())?;
        if let Some(given) = scales.q {
            let why = format!("the plan makes them, the call brings {}", given.len());
            return Err(Error::Shape(format!("q scales: {why}")));
        }
        let given = [scales.k, scales.v];
        for (grid, scales) in problem.scale_grids().iter().flat_map(|grids| &grids[1..]).zip(given) {
            check_scales(grid, scales.map(|scales| scales.len()))?;
            if let Some(scales) = scales {
                check_home(&format!("tensor {}", grid.name), home, scales.stream().context())?;
            }
        }
        quantizer::at_least("workspace", self.workspace_bytes(), workspace.len())?;
        if problem.is_empty() {
            return Ok(());
        }
        // Current until the events below are recorded: cudarc would make the context current and leave it so.
        let _current = self.attention.engine().device().enter()?;
        let ((q, _q), (k, _k), (v, _v)) = (q.device_ptr(stream), k.device_ptr(stream), v.device_ptr(stream));
        let [ks, vs] = given.map(|scales| scales.map(|scales| scales.device_ptr(stream)));
        let [k_scales, v_scales] = [&ks, &vs].map(|at| at.as_ref().map_or(0, |(address, _)| *address));
        let ((o, _o), (lse, _lse)) = (o.device_ptr_mut(stream), lse.device_ptr_mut(stream));
        let (workspace, _workspace) = workspace.device_ptr_mut(stream);
        let (at, scales) = (RawPointers { q, k, v, o, lse }, ScalePointers { q: 0, k: k_scales, v: v_scales });
        // SAFETY: the stream lives and is of the plan's context (checked); the buffers are of that context and long
        // enough (checked), borrowed for this call and, by cudarc's events on them, not reused before the stream's work
        // is done; outputs and workspace are borrowed mutably, so nothing overlaps them.
        unsafe { self.run_raw(stream.cu_stream(), at, scales, workspace) }
    }

    /// Checks, encodes and launches both kernels on the stream, and returns; nothing is allocated on the device, set or
    /// waited for. The address of the scales of Q is not looked at.
    ///
    /// # Errors
    /// Those of [`Plan::run_scaled_raw`], before anything is launched; [`Error::Misaligned`] with `workspace` too.
    ///
    /// # Safety
    /// As for [`Plan::run_scaled_raw`], with Q of 16 bits; the workspace is as for [`crate::Fp8Plan::run_raw`].
    pub unsafe fn run_raw(
        &self,
        stream: CUstream,
        at: RawPointers,
        scales: ScalePointers,
        workspace: u64,
    ) -> Result<()> {
        // SAFETY: asked of the caller.
        unsafe { self.launch(stream, at, scales, workspace, Holds::Zeros) }
    }

    /// The same over a workspace that may hold anything, as [`Quantizer::run_raw_unzeroed`] takes it.
    ///
    /// # Errors
    /// Those of [`Fp8CachePlan::run_raw`].
    ///
    /// # Safety
    /// As for [`Fp8CachePlan::run_raw`], but for what the workspace holds, and as for [`Quantizer::run_raw_unzeroed`].
    pub unsafe fn run_raw_unzeroed(
        &self,
        stream: CUstream,
        at: RawPointers,
        scales: ScalePointers,
        workspace: u64,
    ) -> Result<()> {
        // SAFETY: asked of the caller.
        unsafe { self.launch(stream, at, scales, workspace, Holds::Anything) }
    }

    /// # Safety
    /// As for what the workspace holds.
    unsafe fn launch(
        &self,
        stream: CUstream,
        at: RawPointers,
        scales: ScalePointers,
        workspace: u64,
        holds: Holds,
    ) -> Result<()> {
        if self.problem().is_empty() {
            return Ok(());
        }
        let _current = self.attention.engine().device().enter()?;
        let (quantizing, codes, scales) = self.addresses(&at, &scales, workspace)?;
        // SAFETY: asked of the caller; the context was made current above.
        unsafe { run(stream, (&self.quantizer, quantizing, holds), &self.attention, &codes, &scales) }
    }

    /// Checks and encodes once, for launches with these very addresses. Loads the kernels if need be, so not to be called
    /// while a stream captures.
    ///
    /// # Errors
    /// Those of [`Fp8CachePlan::run_raw`].
    ///
    /// # Safety
    /// The addresses must be as for [`Fp8CachePlan::run_raw`] whenever the result is launched.
    pub unsafe fn prepare_raw(&self, at: RawPointers, scales: ScalePointers, workspace: u64) -> Result<PreparedFp8> {
        if self.problem().is_empty() {
            return Ok(PreparedFp8 { launches: None });
        }
        let (quantizing, codes, scales) = self.addresses(&at, &scales, workspace)?;
        // SAFETY: asked of the caller.
        unsafe { prepare(&self.quantizer, &quantizing, &self.attention, codes, scales) }
    }

    fn addresses(
        &self,
        at: &RawPointers,
        given: &ScalePointers,
        workspace: u64,
    ) -> Result<(QuantizePointers, RawPointers, ScalePointers)> {
        Workspace::check(workspace)?;
        let (codes, scales) = self.workspace.quantized(workspace, at);
        let quantizing = self.workspace.quantizing(workspace, [at.q, 0, 0]);
        Ok((quantizing, RawPointers { q: codes.q, ..*at }, ScalePointers { q: scales.q, ..*given }))
    }
}
