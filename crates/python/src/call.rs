//! The calls: tensors to views, views to a plan, the plan onto the stream.

use std::sync::Arc;

use pyo3::prelude::*;
use tilewright::{CUstream, Plan, Problem, RawPointers};

use crate::compiled::{Schedule, Source};
use crate::engines::engine;
use crate::error::{InvalidArgument, OrRaise};
use crate::plans::{self, Key};
use crate::predicted::Prediction;
use crate::tensor::{self, Dtype, View};

/// The four tensors of a call and their plan. Holds what was borrowed from them.
struct Call {
    plan: Arc<Plan>,
    tensors: [View<4>; 4],
}

impl Call {
    fn new(
        py: Python<'_>,
        tensors: [&Bound<'_, PyAny>; 4],
        causal: bool,
        scale: Option<f64>,
        stream: u64,
        source: Option<&Source>,
    ) -> PyResult<Self> {
        let [q, k, v, o] = tensors;
        let tensors = [
            View::read("q", q, "[B, Sq, Hq, D]", stream)?,
            View::read("k", k, "[B, Sk, Hk, D]", stream)?,
            View::read("v", v, "[B, Sk, Hk, Dv]", stream)?,
            View::read("out", o, "[B, Sq, Hq, Dv]", stream)?,
        ];
        let [q, k, v, o] = &tensors;
        let key = Key::new([q, k, v, o], causal, scale, source.map(Source::number))?;
        let plan = plans::plan(py, key, source)?;
        tensors[3].writable("out")?;
        Ok(Self { plan, tensors })
    }

    /// Launches, waiting for the end only if some tensor was borrowed through DLPack: its owner may reuse the memory in an order that the
    /// stream knows nothing of.
    fn launch(&self, py: Python<'_>, lse: &View<3>, stream: u64) -> PyResult<()> {
        check_lse(lse, self.plan.problem(), self.tensors[0].device)?;
        let [q, k, v, o] = self.tensors.each_ref().map(|view| view.address);
        let at = RawPointers { q, k, v, o, lse: lse.address };
        let waits = self.tensors.iter().any(View::is_borrowed) || lse.is_borrowed();
        py.detach(|| {
            // SAFETY: each address is memory of a tensor whose extents, strides, type and device were read from the tensor just now and are
            // those of the plan's problem; the stream is the caller's current one on that device; frameworks reuse memory in stream order,
            // and for others the end is waited for while the tensors are held.
            unsafe { self.plan.run_raw(stream_at(stream), at) }?;
            if waits { crate::array::synchronize(self.plan.engine(), stream) } else { Ok(()) }
        })
        .or_raise()
    }
}

/// Holds LSE against the problem.
///
/// # Errors
/// Another shape, with gaps, read-only, of another type or on another device.
pub fn check_lse(lse: &View<3>, problem: &Problem, home: usize) -> PyResult<()> {
    let wanted = [problem.batch(), problem.heads(), problem.queries()];
    lse.writable("lse")?;
    if lse.extents != wanted || !lse.is_contiguous() {
        let (extents, strides) = (lse.extents, lse.strides);
        return Err(InvalidArgument::new_err(format!(
            "tensor lse has shape {extents:?} with strides {strides:?}, expected {wanted:?} = [B, Hq, Sq] contiguous"
        )));
    }
    if lse.dtype != Dtype::F32 || lse.device != home {
        let (dtype, device) = (&lse.dtype, lse.device);
        return Err(InvalidArgument::new_err(format!(
            "tensor lse is of {dtype} on GPU {device}, expected float32 on GPU {home}"
        )));
    }
    Ok(())
}

/// A driver stream of that address.
pub fn stream_at(address: u64) -> CUstream {
    std::ptr::without_provenance_mut::<CUstreamTarget>(address as usize)
}

/// What a driver stream points to.
type CUstreamTarget = <CUstream as PointsTo>::Target;

/// The target of a pointer type.
trait PointsTo {
    /// What is pointed to.
    type Target;
}

impl<T> PointsTo for *mut T {
    type Target = T;
}

/// Computes attention of `q` `[B, Sq, Hq, D]`, `k` `[B, Sk, Hk, D]`, `v` `[B, Sk, Hk, Dv]` into `out` `[B, Sq, Hq, Dv]` and `lse`
/// f32 `[B, Hq, Sq]` on the stream of that address.
#[pyfunction]
#[pyo3(signature = (q, k, v, out, lse, causal, scale, stream, schedule=None))]
#[expect(clippy::too_many_arguments, reason = "a flat call is the cheapest from Python")]
pub fn run(
    py: Python<'_>,
    q: &Bound<'_, PyAny>,
    k: &Bound<'_, PyAny>,
    v: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    lse: &Bound<'_, PyAny>,
    causal: bool,
    scale: Option<f64>,
    stream: u64,
    schedule: Option<&Schedule>,
) -> PyResult<()> {
    let call = Call::new(py, [q, k, v, out], causal, scale, stream, schedule.map(Schedule::source))?;
    let lse = View::read("lse", lse, "[B, Hq, Sq]", stream)?;
    call.launch(py, &lse, stream)
}

/// Q, K, V and O of a question.
type Four<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Plans and loads for these tensors, so that their first call is as fast as the others and may be recorded by a CUDA graph. Says how the
/// kernel was loaded.
#[pyfunction]
#[pyo3(signature = (tensors, causal, scale, schedule=None))]
pub fn warm_up(
    py: Python<'_>,
    tensors: Four<'_>,
    causal: bool,
    scale: Option<f64>,
    schedule: Option<&Schedule>,
) -> PyResult<String> {
    let call = asked(py, &tensors, causal, scale, schedule)?;
    py.detach(|| call.plan.warm_up()).or_raise().map(|report| report.to_string())
}

/// What is chosen for these tensors and why, what was rejected and why, registers and shared memory.
#[pyfunction]
#[pyo3(signature = (tensors, causal, scale, schedule=None))]
pub fn explain(
    py: Python<'_>,
    tensors: Four<'_>,
    causal: bool,
    scale: Option<f64>,
    schedule: Option<&Schedule>,
) -> PyResult<String> {
    let call = asked(py, &tensors, causal, scale, schedule)?;
    let device = py.detach(|| engine(call.tensors[0].device)).or_raise()?.device().to_string();
    Ok(format!("{device}\n{}", call.plan.explain()))
}

/// What a launch is predicted to take, and by which schedule.
#[pyfunction]
#[pyo3(signature = (tensors, causal, scale, schedule=None))]
pub fn predict(
    py: Python<'_>,
    tensors: Four<'_>,
    causal: bool,
    scale: Option<f64>,
    schedule: Option<&Schedule>,
) -> PyResult<Prediction> {
    asked(py, &tensors, causal, scale, schedule).map(|call| Prediction::of(&call.plan))
}

/// The call that a question is about. Nothing runs.
fn asked(
    py: Python<'_>,
    (q, k, v, o): &Four<'_>,
    causal: bool,
    scale: Option<f64>,
    schedule: Option<&Schedule>,
) -> PyResult<Call> {
    Call::new(py, [q, k, v, o], causal, scale, tensor::LEGACY, schedule.map(Schedule::source))
}
