//! Attention in 8 bits: tensors to a plan of one of three kinds, and its launches. A call is two steps, since the caller's
//! framework allocates between them what the plan says it needs.

mod road;
mod rounding;
mod scales;
mod words;

use std::sync::Arc;

use pyo3::prelude::*;
use tilewright::{Element, Fp8, Fp8Options, RawPointers, ScaleBy, ScaleLayout, ScalePointers, Values};

use crate::array::synchronize;
use crate::call::{check_lse, stream_at};
use crate::compiled::{Schedule, Source};
use crate::engines::engine;
use crate::error::{InvalidArgument, NotSupported, OrRaise};
use crate::plans::{Shapes, alike, sixteen};
use crate::predicted::Prediction;
use crate::tensor::{Dtype, View};
use road::{Given, Key, Road, output};

pub use road::forget;
pub use rounding::{Quantizer, key_block, quantizer};
use scales::{Owner, Scales};

/// A call that was read and planned. Keeps the tensors alive.
#[pyclass(frozen, module = "tilewright._native")]
pub struct Fp8Call {
    road: Arc<Road>,
    tensors: [View<4>; 4],
    lse: View<3>,
    scales: [Option<Scales>; 3],
    stream: u64,
    _kept: Vec<Py<PyAny>>,
}

/// Q, K, V, O and LSE.
type Five<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);
/// Scales of Q, K and V, where there are any.
type Three<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

#[pymethods]
impl Fp8Call {
    /// Bytes of the workspace that `run` takes; 0 where it takes none.
    #[getter]
    fn workspace_bytes(&self) -> u64 {
        self.road.workspace_bytes()
    }

    /// Launches on the stream that the tensors were read for. The workspace is bytes in device memory, not initialised.
    #[pyo3(signature = (workspace=None))]
    fn run(&self, py: Python<'_>, workspace: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let workspace = workspace_of(workspace, self.road.workspace_bytes(), self.tensors[0].device, self.stream)?;
        let [q, k, v, o] = self.tensors.each_ref().map(|view| view.address);
        let at = RawPointers { q, k, v, o, lse: self.lse.address };
        let [q, k, v] = self.scales.each_ref().map(|scales| scales.as_ref().map_or(0, Scales::address));
        let scales = ScalePointers { q, k, v };
        let borrowed = self.scales.iter().flatten().any(Scales::is_borrowed);
        let waits = borrowed || self.tensors.iter().any(View::is_borrowed) || self.lse.is_borrowed();
        let (base, plan) = (workspace.as_ref().map_or(0, |view| view.address), self.road.attention());
        py.detach(|| {
            // SAFETY: each address is memory of a tensor whose extents, strides, type and device were read from the tensor and are those
            // of the plan's problem, and which the caller holds; the workspace is so long (checked) and the caller's alone; the stream is
            // the caller's current one on that device; frameworks reuse memory in stream order, and for others the end is waited for
            // while the tensors are held; the engine lives as long as the process.
            unsafe { self.road.run(stream_at(self.stream), at, scales, base) }?;
            if waits { synchronize(plan.engine(), self.stream) } else { Ok(()) }
        })
        .or_raise()
    }

    /// Loads what `run` launches. Says how the attention's kernel was loaded.
    fn warm_up(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.road.warm_up()).or_raise()
    }

    /// What a launch of the attention is predicted to take, and by which schedule.
    fn prediction(&self) -> Prediction {
        Prediction::of(self.road.attention())
    }

    /// What is chosen and why, what was rejected and why.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        let device = py.detach(|| engine(self.tensors[0].device)).or_raise()?.device().to_string();
        Ok(format!("{device}\n{}", self.road.attention().explain()))
    }
}

/// A workspace of at least so many bytes; none where none is needed.
fn workspace_of(given: Option<&Bound<'_, PyAny>>, bytes: u64, home: usize, stream: u64) -> PyResult<Option<View<1>>> {
    if bytes == 0 {
        return Ok(None);
    }
    let wrong = |found: &str| InvalidArgument::new_err(format!("the workspace is {found}, expected {bytes} bytes"));
    let view = View::<1>::read("workspace", given.ok_or_else(|| wrong("missing"))?, "bytes", stream)?;
    view.writable("workspace")?;
    if view.dtype != Dtype::U8 || view.device != home || view.extents[0] < bytes {
        return Err(wrong(&format!("{} of {} on GPU {}", view.extents[0], view.dtype, view.device)));
    }
    Ok(Some(view))
}

/// Q, K, V and O as the problem names them, LSE, and the tensors to keep.
type Read = ([View<4>; 4], View<3>, Vec<Py<PyAny>>);

fn read((q, k, v, o, lse): Five<'_>, values: &str, stream: u64) -> PyResult<Read> {
    let tensors = [
        View::read("q", &q, "[B, Sq, Hq, D]", stream)?,
        View::read("k", &k, "[B, Sk, Hk, D]", stream)?,
        View::read("v", &v, values, stream)?,
        View::read("out", &o, "[B, Sq, Hq, Dv]", stream)?,
    ];
    tensors[3].writable("out")?;
    let sums = View::read("lse", &lse, "[B, Hq, Sq]", stream)?;
    Ok((tensors, sums, [q, k, v, o, lse].map(Bound::unbind).into()))
}

/// Attention in e4m3 on Q, K and V of 16 bits. O has their type.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a flat call is the cheapest from Python")]
pub fn fp8_call(
    py: Python<'_>,
    tensors: Five<'_>,
    causal: bool,
    scale: Option<f64>,
    incoherent: bool,
    scales: &str,
    accumulate: &str,
    exponential: &str,
    seed: u32,
    all_at_once: bool,
    stream: u64,
) -> PyResult<Fp8Call> {
    let (scales, accumulation) = (words::scales(scales)?, words::accumulation(accumulate)?);
    let options = Fp8Options {
        incoherent,
        scales,
        seed,
        accumulation,
        exponentials: words::exponentials(exponential)?,
        all_at_once,
    };
    let (tensors, lse, kept) = read(tensors, "[B, Sk, Hk, Dv]", stream)?;
    let [q, k, v, o] = &tensors;
    let shapes = Shapes::new([q, k, v, o], false)?;
    alike(q, &[("k", k), ("v", v), ("out", o)])?;
    let given = Given::Joined(sixteen("q", &q.dtype)?, options);
    let road = Road::of(py, Key { shapes, given, causal, scale: scale.map(f64::to_bits) }, None)?;
    check_lse(&lse, road.attention().problem(), shapes.device())?;
    Ok(Fp8Call { road, tensors, lse, scales: [None, None, None], stream, _kept: kept })
}

/// Attention over K and V of 8 bits, with Q of the same type or of 16 bits. `key_block` says that they are a quantizer's codes: bytes
/// then count as e4m3, and scales of K by block have so many rows; V is transposed. `rotation` is the seed that K was rotated by, for
/// Q of 16 bits. A schedule of the caller's own takes Q of 8 bits, and it
/// is what says how sums are kept and P is made.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a flat call is the cheapest from Python")]
#[pyo3(signature = (tensors, scales, causal, scale, accumulate, exponential, key_block, rotation, stream, schedule=None))]
pub fn quantized_call(
    py: Python<'_>,
    tensors: Five<'_>,
    scales: Three<'_>,
    causal: bool,
    scale: Option<f64>,
    accumulate: &str,
    exponential: &str,
    key_block: Option<u32>,
    rotation: Option<u32>,
    stream: u64,
    schedule: Option<&Schedule>,
) -> PyResult<Fp8Call> {
    let source = schedule.map(Schedule::source);
    let (accumulation, exponentials) = match source {
        Some(source) => words::of_schedule(source.schedule()),
        None => (words::accumulation(accumulate)?, words::exponentials(exponential)?),
    };
    let transposed = key_block.is_some();
    let meaning = if transposed { "[B, Hk, Dv, Sk]" } else { "[B, Sk, Hk, Dv]" };
    let (tensors, lse, mut kept) = read(tensors, meaning, stream)?;
    let [q, k, v, o] = &tensors;
    let shapes = Shapes::new([q, k, v, o], transposed)?;
    let element = eight("k", &k.dtype, transposed)?;
    if eight("v", &v.dtype, transposed)? != element {
        let (keys, values) = (&k.dtype, &v.dtype);
        return Err(InvalidArgument::new_err(format!("tensor k is of {keys}, tensor v of {values}")));
    }
    let queries = match q.dtype {
        Dtype::Bf16 | Dtype::F16 => Some(sixteen("q", &q.dtype)?),
        _ => None,
    };
    if queries.is_none() && eight("q", &q.dtype, transposed)? != element {
        let (queries, keys) = (&q.dtype, &k.dtype);
        return Err(InvalidArgument::new_err(format!("tensor q is of {queries}, tensor k of {keys}")));
    }
    if let (Some(_), Some(schedule)) = (queries, schedule) {
        let (name, dtype) = (schedule.name(), &q.dtype);
        let why = format!("tensor q is of {dtype}: schedule {name} takes the 8 bits that quantize makes of it");
        return Err(InvalidArgument::new_err(why));
    }
    let (q_scale, k_scale, v_scale) = scales;
    if queries.is_some() && q_scale.is_some() {
        let why = format!("tensor q is of {} and gets its scales here: leave q_scale out", q.dtype);
        return Err(InvalidArgument::new_err(why));
    }
    if queries.is_none() && rotation.is_some() {
        let why = format!("tensor q is of {} and is rotated no more: leave rotation out", q.dtype);
        return Err(InvalidArgument::new_err(why));
    }
    let named = [("q_scale", q_scale), ("k_scale", k_scale), ("v_scale", v_scale)];
    let mut scales = [None, None, None];
    let mut layouts = [ScaleLayout::from(ScaleBy::One); 3];
    let owners = Owner::all(shapes.extents(), key_block);
    for (at, (name, tensor)) in named.into_iter().enumerate() {
        let Some(tensor) = tensor else { continue };
        let found = Scales::read(name, &tensor, stream)?;
        layouts[at] = found.layout(&owners[at], shapes.device())?;
        scales[at] = Some(found);
        kept.push(tensor.unbind());
    }
    let output = output(sixteen("out", &o.dtype)?);
    let values = if transposed { Values::Transposed } else { Values::Rows };
    let [q_layout, k_layout, v_layout] = layouts;
    let fp8 = Fp8 { output, values, q: q_layout, k: k_layout, v: v_layout, accumulation, exponentials };
    let given = match queries {
        Some(queries) => Given::Cached(queries, element, fp8, rotation),
        None => Given::Codes(element, fp8, source.map(Source::number)),
    };
    let road = Road::of(py, Key { shapes, given, causal, scale: scale.map(f64::to_bits) }, source)?;
    check_lse(&lse, road.attention().problem(), shapes.device())?;
    Ok(Fp8Call { road, tensors, lse, scales, stream, _kept: kept })
}

/// The element of a tensor that must have 8 bits.
fn eight(name: &str, dtype: &Dtype, codes: bool) -> PyResult<Element> {
    match dtype {
        Dtype::E4m3 => Ok(Element::E4m3),
        Dtype::E5m2 => Ok(Element::E5m2),
        Dtype::U8 if codes => Ok(Element::E4m3),
        Dtype::Bf16 | Dtype::F16 => Err(InvalidArgument::new_err(format!(
            "tensor {name} is of {dtype}, expected 8 bits: attention_fp8 rounds all three, quantize does it apart"
        ))),
        other => Err(NotSupported::new_err(format!(
            "tensor {name} is of {other}; 8-bit attention here takes float8_e4m3fn or float8_e5m2"
        ))),
    }
}
