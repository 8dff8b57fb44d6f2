//! The quantizer alone: Q, K and V of 16 bits to codes and scales that stay.

use std::sync::Arc;

use pyo3::prelude::*;
use schedule::fp8::QUERY_SCALE_ROWS;
use tilewright::policy::{self, USUAL_SMS};
use tilewright::{
    Element, Fp8, Granularities, Granularity, Problem, Quantize, QuantizeOptions, QuantizePointers, Rotation, ScaleBy,
    ScalesOf, Values,
};

use super::words;
use crate::array::synchronize;
use crate::call::stream_at;
use crate::engines::{engine, registry};
use crate::error::{InvalidArgument, OrRaise};
use crate::plans::{Kept, Shapes, alike, sixteen};
use crate::tensor::{Dtype, View};

/// Q, K and V of a question.
type Tensors<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// All that a quantizer depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    shapes: Shapes,
    element: Element,
    incoherent: bool,
    scales: ScalesOf,
    key_block: u32,
    seed: u32,
    all_at_once: bool,
}

static QUANTIZERS: Kept<Key, tilewright::Quantizer> = Kept::new();

/// Tensors that were read, with what rounds them. Keeps them alive.
#[pyclass(frozen, module = "tilewright._native")]
pub struct Quantizer {
    quantizer: Arc<tilewright::Quantizer>,
    tensors: [View<4>; 3],
    stream: u64,
    _kept: [Py<PyAny>; 3],
}

#[pymethods]
impl Quantizer {
    /// Bytes of the workspace that `run` takes.
    #[getter]
    fn workspace_bytes(&self) -> u64 {
        self.quantizer.workspace_bytes()
    }

    /// Rounds into codes (bytes or float8_e4m3fn) and float32 scales of Q, K and V, all without gaps. The workspace is bytes in device
    /// memory, not initialised.
    fn run(
        &self,
        py: Python<'_>,
        codes: Tensors<'_>,
        scales: Tensors<'_>,
        workspace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (home, stream, bytes) = (self.tensors[0].device, self.stream, self.workspace_bytes());
        let workspace = super::workspace_of(Some(workspace), bytes, home, stream)?;
        let mut written = Vec::with_capacity(6);
        let elements = self.quantizer.code_elements().into_iter().chain(self.quantizer.scale_elements());
        let ((q, k, v), (qs, ks, vs)) = (&codes, &scales);
        let named = [("q codes", q), ("k codes", k), ("v codes", v), ("q_scale", qs), ("k_scale", ks), ("v_scale", vs)];
        for (at, ((name, tensor), elements)) in named.into_iter().zip(elements).enumerate() {
            written.push(Written::read(name, tensor, elements, at < 3, home, stream)?);
        }
        let address = |at: usize| written[at].address;
        let base = workspace.as_ref().map_or(0, |view| view.address);
        let at = QuantizePointers {
            tensors: self.tensors.each_ref().map(|view| view.address),
            codes: [address(0), address(1), address(2)],
            scales: [address(3), address(4), address(5)],
            workspace: base,
        };
        let waits = self.tensors.iter().any(View::is_borrowed) || written.iter().any(|one| one.borrowed);
        let on = self.tensors[0].device;
        py.detach(|| {
            // SAFETY: each address is memory of a tensor whose extents, strides, type and device were read from the tensor and are those
            // of the quantizer's problem, as long as it says (checked) and held by the caller; so is the workspace, which is the caller's
            // alone; frameworks reuse memory in stream order, and for others the end is waited for; the engine lives as long as the process.
            unsafe { self.quantizer.run_raw_unzeroed(stream_at(stream), &at) }?;
            if waits { synchronize(&engine(on)?, stream) } else { Ok(()) }
        })
        .or_raise()
    }
}

/// A tensor of any number of dimensions that is written without gaps.
struct Written {
    address: u64,
    borrowed: bool,
    /// Holds what was borrowed.
    _held: Option<Py<PyAny>>,
}

impl Written {
    fn read(
        name: &str,
        tensor: &Bound<'_, PyAny>,
        elements: u64,
        codes: bool,
        home: usize,
        stream: u64,
    ) -> PyResult<Self> {
        macro_rules! of {
            ($n:literal) => {{
                let view = View::<$n>::read(name, tensor, "as the quantizer writes it", stream)?;
                view.writable(name)?;
                let found: u64 = view.extents.iter().product();
                let fits = if codes {
                    matches!(view.dtype, Dtype::U8 | Dtype::E4m3)
                } else {
                    view.dtype == Dtype::F32
                };
                if !fits || view.device != home || !view.is_contiguous() || found < elements {
                    let (extents, dtype, device) = (&view.extents, &view.dtype, view.device);
                    let what = if codes { "uint8 or float8_e4m3fn" } else { "float32" };
                    return Err(InvalidArgument::new_err(format!(
                        "tensor {name} is {extents:?} of {dtype} on GPU {device}, expected {elements} elements of {what} \
                         without gaps on GPU {home}"
                    )));
                }
                Self { address: view.address, borrowed: view.is_borrowed(), _held: view.into_held() }
            }};
        }
        Ok(match tensor.getattr("shape")?.len()? {
            1 => of!(1),
            2 => of!(2),
            3 => of!(3),
            _ => of!(4),
        })
    }
}

/// The quantizer of Q, K and V. Nothing is loaded yet.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a flat call is the cheapest from Python")]
pub fn quantizer(
    py: Python<'_>,
    tensors: Tensors<'_>,
    incoherent: bool,
    scales: &str,
    key_block: u32,
    seed: u32,
    all_at_once: bool,
    stream: u64,
) -> PyResult<Quantizer> {
    let (q, k, v) = tensors;
    let scales = words::scales(scales)?;
    let tensors = [
        View::read("q", &q, "[B, Sq, Hq, D]", stream)?,
        View::read("k", &k, "[B, Sk, Hk, D]", stream)?,
        View::read("v", &v, "[B, Sk, Hk, Dv]", stream)?,
    ];
    let kept = [q, k, v].map(Bound::unbind);
    let [q, k, v] = &tensors;
    let shapes = Shapes::of_inputs([q, k, v])?;
    alike(q, &[("k", k), ("v", v)])?;
    let key = Key { shapes, element: sixteen("q", &q.dtype)?, incoherent, scales, key_block, seed, all_at_once };
    let quantizer = QUANTIZERS.get(key, |key| py.detach(|| key.make()).or_raise())?;
    Ok(Quantizer { quantizer, tensors, stream, _kept: kept })
}

impl Key {
    fn make(&self) -> tilewright::Result<tilewright::Quantizer> {
        let problem = self.shapes.problem(false, None).element(self.element).build()?;
        let all = |granularity| Granularities { q: granularity, k: granularity, v: granularity };
        let scales = match self.scales {
            ScalesOf::Head => all(Granularity::Head),
            ScalesOf::Tensor => all(Granularity::Tensor),
            _ => Granularities {
                q: Granularity::Block(QUERY_SCALE_ROWS),
                k: Granularity::Block(self.key_block),
                v: Granularity::Head,
            },
        };
        let rotation = if self.incoherent { Rotation::Hadamard } else { Rotation::Off };
        let schedule = Quantize::for_hopper(self.element, problem.head_dim(), rotation, scales);
        let options = QuantizeOptions { seed: self.seed, all_at_once: self.all_at_once, ..QuantizeOptions::default() };
        tilewright::Quantizer::new(&engine(self.shapes.device())?, &problem, &schedule, &options)
    }
}

/// Rows of K that share a scale by block: the key tile of the schedule for codes of these head dimensions, whatever the mask. Needs no
/// GPU.
#[pyfunction]
pub fn key_block(py: Python<'_>, head_dim: u32, value_dim: u32, keys: u64, accumulate: &str) -> PyResult<u32> {
    let accumulation = words::accumulation(accumulate)?;
    py.detach(|| {
        let scales = ScaleBy::Head.into();
        let fp8 = Fp8 { values: Values::Transposed, q: scales, k: scales, v: scales, accumulation, ..Fp8::default() };
        let problem = Problem::builder().element(Element::E4m3).fp8(fp8).queries(keys).heads(1);
        let entry = policy::choose(&registry(), &problem.head_dims(head_dim, value_dim).build()?, USUAL_SMS)?;
        Ok(entry.schedule().tile.columns)
    })
    .or_raise()
}
