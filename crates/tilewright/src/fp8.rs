//! Attention in 8 bits on 16-bit tensors: a quantizer and the plan that reads what it writes, on one stream.
//!
//! Two roads: Q, K and V of 16 bits are rounded together ([`Fp8Plan`]); or Q alone is, over a cache of K and V that has
//! 8 bits already ([`Fp8CachePlan`]).

mod cached;
mod joined;
mod workspace;

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use runtime::{CUstream, Error, Result};
use schedule::fp8::QUERY_SCALE_ROWS;
use schedule::{Element, Granularities, Granularity, Output, Quantize, Rotation, Values};

pub use cached::{CacheInputs, Fp8CachePlan};
pub use joined::Fp8Plan;
use workspace::{Holds, Workspace};

use crate::run::check_home;
use crate::{
    Accumulation, Exponentials, Fp8, Plan, PreparedPlan, PreparedQuantizer, Problem, QuantizePointers, Quantizer,
    RawPointers, ScaleBy, ScaleLayout, ScalePointers, Strides, Tilewright, policy,
};

/// Which elements share a scale when 16-bit Q, K and V are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ScalesOf {
    /// 64 rows of Q, a key tile of K, a head of V: the least error, and the fastest, since every tile of Q and K is read
    /// once.
    #[default]
    Block,
    /// A head of each.
    Head,
    /// The whole tensor.
    Tensor,
}

/// How 16-bit Q, K and V are rounded and multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fp8Options {
    /// Whether Q and K are rotated by random signs and a Hadamard matrix before, which spreads outliers over their rows
    /// and leaves Q K^T.
    pub incoherent: bool,
    /// Which elements share a scale.
    pub scales: ScalesOf,
    /// Chooses the signs.
    pub seed: u32,
    /// Where sums of O are kept.
    pub accumulation: Accumulation,
    /// How P is made.
    pub exponentials: Exponentials,
    /// Whether rounding may ask for all SMs at the same time, so that V is read once
    /// ([`crate::QuantizeOptions::all_at_once`]).
    pub all_at_once: bool,
}

/// How 16-bit Q is rounded over a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CacheOptions {
    /// The seed of the rotation that K of the cache was rotated by; none: it was not.
    pub rotation: Option<u32>,
}

/// Both launches with fixed addresses: two driver calls.
#[derive(Debug)]
pub struct PreparedFp8 {
    /// None where there is nothing to compute.
    launches: Option<(PreparedQuantizer, PreparedPlan)>,
}

impl Default for Fp8Options {
    fn default() -> Self {
        Self {
            incoherent: true,
            scales: ScalesOf::default(),
            seed: 0,
            accumulation: Accumulation::default(),
            exponentials: Exponentials::default(),
            all_at_once: true,
        }
    }
}

impl Fp8Options {
    /// The same with P made so.
    pub const fn exponentials(self, exponentials: Exponentials) -> Self {
        Self { exponentials, ..self }
    }
}

impl Tilewright {
    /// Attention in e4m3 on Q, K and V of 16 bits: chooses a schedule, and the quantizer whose key block is the schedule's.
    /// O has the problem's element type. Nothing is loaded yet.
    ///
    /// # Errors
    /// [`Error::Element`] for a problem of 8 bits; those of [`Tilewright::plan`] and [`Quantizer::new`].
    pub fn plan_fp8(&self, problem: &Problem, options: &Fp8Options) -> Result<Fp8Plan> {
        Fp8Plan::new(self, problem, options)
    }

    /// Attention of Q of 16 bits (`queries`: bf16 or f16) over K and V of 8 bits, as caches hold them. The problem is that
    /// of the cache: its element, strides, order of V, scales of K and V, and the type of O. Its scales of Q are not
    /// looked at: Q gets one for every 64 rows.
    ///
    /// # Errors
    /// [`Error::Element`] for Q that does not have 16 bits and for a cache that is not of e4m3, to which Q is rounded;
    /// those of [`Tilewright::plan`] and [`Quantizer::new`].
    pub fn plan_fp8_cache(&self, problem: &Problem, queries: Element, options: &CacheOptions) -> Result<Fp8CachePlan> {
        Fp8CachePlan::new(self, problem, queries, options)
    }
}

impl PreparedFp8 {
    /// Puts the work on the stream and returns. May be recorded by a capture.
    ///
    /// # Errors
    /// The driver's answer.
    ///
    /// # Safety
    /// Stream and addresses must be as for the call that prepared it. Two launches of one prepared plan, those of graphs
    /// that recorded it among them, must not run at the same time.
    pub unsafe fn launch(&self, stream: CUstream) -> Result<()> {
        let Some((quantizer, attention)) = &self.launches else { return Ok(()) };
        // SAFETY: asked of the caller above; the arguments were built when it was prepared.
        unsafe { quantizer.launch(stream) }?;
        // SAFETY: as above.
        unsafe { attention.launch(stream) }
    }
}

/// The 8-bit problem that reads what a quantizer writes: codes of Q and K by those strides or without gaps, V transposed.
fn quantized(
    problem: &Problem,
    scales: Granularities,
    codes: [Option<Strides>; 2],
    (accumulation, exponentials): (Accumulation, Exponentials),
) -> Result<Problem> {
    let by = |granularity: Granularity| -> ScaleLayout {
        match granularity {
            Granularity::Block(rows) => ScaleBy::Block(rows),
            Granularity::Head => ScaleBy::Head,
            _ => ScaleBy::Tensor,
        }
        .into()
    };
    let output = if problem.element() == Element::F16 { Output::F16 } else { Output::Bf16 };
    let values = Values::Transposed;
    let [q, k, v] = [scales.q, scales.k, scales.v].map(by);
    let fp8 = Fp8 { output, values, q, k, v, accumulation, exponentials };
    let dims = problem.head_dim();
    let mut made = Problem::builder()
        .element(Element::E4m3)
        .fp8(fp8)
        .batch(problem.batch())
        .queries(problem.queries())
        .keys(problem.keys())
        .heads(problem.heads())
        .kv_heads(problem.kv_heads())
        .head_dims(dims.qk, dims.v)
        .causal(problem.causal())
        .scale(problem.scale())
        .o_strides(problem.strides()[3]);
    let [q, k] = codes;
    made = if let Some(q) = q { made.q_strides(q) } else { made };
    made = if let Some(k) = k { made.k_strides(k) } else { made };
    made.build()
}

/// Zeroed device memory.
fn allocate(attention: &Plan, stream: &Arc<CudaStream>, bytes: u64) -> Result<CudaSlice<u8>> {
    check_home("the stream", attention.engine().device().context(), stream.context())?;
    let _current = attention.engine().device().enter()?;
    stream.alloc_zeros(bytes as usize).map_err(|answer| Error::OutOfMemory {
        what: format!("the workspace of attention in 8 bits ({answer})"),
        bytes,
    })
}

/// Both launches with fixed addresses.
///
/// # Safety
/// As for `prepare_raw` of either.
unsafe fn prepare(
    quantizer: &Quantizer,
    quantizing: &QuantizePointers,
    attention: &Plan,
    codes: RawPointers,
    scales: ScalePointers,
) -> Result<PreparedFp8> {
    // SAFETY: asked of the caller.
    let (first, second) = unsafe { (quantizer.prepare_raw(quantizing)?, attention.prepare_scaled_raw(codes, scales)?) };
    Ok(PreparedFp8 { launches: Some((first, second)) })
}

/// Makes both launches ready before either is put on the stream, then puts them there.
///
/// # Safety
/// As for `run_raw` of either, or `run_raw_unzeroed` by what the quantizer's workspace holds, and their engine's context must
/// be current.
unsafe fn run(
    stream: CUstream,
    (quantizer, mut quantizing, holds): (&Quantizer, QuantizePointers, Holds),
    attention: &Plan,
    codes: &RawPointers,
    scales: &ScalePointers,
) -> Result<()> {
    if holds == Holds::Anything {
        // SAFETY: asked of the caller.
        quantizing.workspace = unsafe { quantizer.zero_words(stream, quantizing.workspace) }?;
    }
    // SAFETY: asked of the caller; the workspace is zero in the stream's order.
    let (first, second) = unsafe { (quantizer.ready(stream, &quantizing)?, attention.ready(stream, codes, scales)?) };
    if let Some(launch) = first {
        // SAFETY: as above.
        unsafe { launch.launch(stream) }?;
    }
    match second {
        // SAFETY: as above; it was made for this stream.
        Some(launch) => unsafe { launch.launch(stream) },
        None => Ok(()),
    }
}

/// The granularities of [`ScalesOf`] for a key tile of so many rows.
fn granularities(scales: ScalesOf, key_block: u32) -> Granularities {
    match scales {
        ScalesOf::Block => Granularities {
            q: Granularity::Block(QUERY_SCALE_ROWS),
            k: Granularity::Block(key_block),
            v: Granularity::Head,
        },
        ScalesOf::Head => Granularities { q: Granularity::Head, k: Granularity::Head, v: Granularity::Head },
        ScalesOf::Tensor => Granularities { q: Granularity::Tensor, k: Granularity::Tensor, v: Granularity::Tensor },
    }
}

impl Quantizer {
    /// The 8-bit problem that reads what this quantizer writes, to be planned with [`Tilewright::plan`]: its scales of K by
    /// block admit schedules of that key tile alone.
    ///
    /// # Errors
    /// Those of [`crate::ProblemBuilder::build`].
    pub fn attention_problem(&self, accumulation: Accumulation, exponentials: Exponentials) -> Result<Problem> {
        let strides = self.code_strides().map(Some);
        quantized(self.problem(), self.schedule().scales, strides, (accumulation, exponentials))
    }
}
