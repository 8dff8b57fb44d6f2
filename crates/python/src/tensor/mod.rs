//! What a tensor says of itself: address, extents, strides, type, device. One file for each way of asking.

mod attributes;
pub mod dlpack;
mod interface;

use std::fmt;

use pyo3::intern;
use pyo3::prelude::*;

use crate::array::DeviceArray;
use crate::engines::engine;
use crate::error::{InvalidArgument, OrRaise};

/// The address of the legacy default stream.
pub const LEGACY: u64 = 0;

/// An element type, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dtype {
    /// bfloat16.
    Bf16,
    /// float16.
    F16,
    /// float32.
    F32,
    /// 8-bit float with 4 bits of exponent.
    E4m3,
    /// 8-bit float with 5 bits of exponent.
    E5m2,
    /// Bytes: codes, and workspaces.
    U8,
    /// Any other, by the name that its framework gives it.
    Other(String),
}

impl Dtype {
    /// By the name that frameworks give it.
    fn named(name: &str) -> Self {
        match name {
            "bfloat16" => Self::Bf16,
            "float16" => Self::F16,
            "float32" => Self::F32,
            "float8_e4m3fn" => Self::E4m3,
            "float8_e5m2" => Self::E5m2,
            "uint8" => Self::U8,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bf16 => "bfloat16",
            Self::F16 => "float16",
            Self::F32 => "float32",
            Self::E4m3 => "float8_e4m3fn",
            Self::E5m2 => "float8_e5m2",
            Self::U8 => "uint8",
            Self::Other(name) => name,
        })
    }
}

/// A tensor of N dimensions in device memory.
#[derive(Debug)]
pub struct View<const N: usize> {
    /// Of the first element.
    pub address: u64,
    /// Elements along each dimension.
    pub extents: [u64; N],
    /// Distances in elements.
    pub strides: [u64; N],
    /// Element type.
    pub dtype: Dtype,
    /// The device's number.
    pub device: usize,
    read_only: bool,
    /// What keeps the memory alive, where that is not the tensor itself.
    held: Option<Py<PyAny>>,
}

/// What a reader found, before it is held against what is wanted.
struct Found<const N: usize> {
    address: u64,
    extents: [i64; N],
    /// In elements; none where the tensor is contiguous.
    strides: Option<[i64; N]>,
    dtype: Dtype,
    device: usize,
    read_only: bool,
    held: Option<Py<PyAny>>,
}

impl<const N: usize> View<N> {
    /// A tensor without gaps that is nowhere yet.
    pub fn placed(extents: [u64; N], device: usize) -> Self {
        let (strides, dtype) = (contiguous(extents), Dtype::Other("none".to_owned()));
        Self { address: 0, extents, strides, dtype, device, read_only: false, held: None }
    }

    /// Asks a tensor for what it is: torch's attributes first, then the CUDA array interface, which costs no handshake, then DLPack, which
    /// knows every type. `meaning` is the shape that is wanted, in words; memory that is borrowed is made ready on the stream.
    ///
    /// # Errors
    /// Not a tensor, another number of dimensions, not in the memory of a GPU, a last dimension that is not contiguous, each with the
    /// tensor's name.
    pub fn read(name: &str, tensor: &Bound<'_, PyAny>, meaning: &str, stream: u64) -> PyResult<Self> {
        Self::ask(&Ask { name, meaning, rows: true }, tensor, stream)
    }

    /// The same of a tensor whose elements are read one by one: its last dimension may have any stride.
    ///
    /// # Errors
    /// Those of [`View::read`] but for that.
    pub fn read_scattered(name: &str, tensor: &Bound<'_, PyAny>, meaning: &str, stream: u64) -> PyResult<Self> {
        Self::ask(&Ask { name, meaning, rows: false }, tensor, stream)
    }

    fn ask(ask: &Ask<'_>, tensor: &Bound<'_, PyAny>, stream: u64) -> PyResult<Self> {
        let (py, name) = (tensor.py(), ask.name);
        let has = |name| tensor.hasattr(name);
        let found = if has(intern!(py, "data_ptr"))? {
            attributes::read(ask, tensor)?
        } else if tensor.is_instance_of::<DeviceArray>() {
            // Promised to be ready when the call returns: borrowed, so that its end is waited for.
            dlpack::read(ask, tensor, stream)?
        } else if let Some(found) = interface::read(ask, tensor)? {
            found
        } else if has(intern!(py, "__dlpack__"))? {
            dlpack::read(ask, tensor, stream)?
        } else {
            let kind = tensor.get_type().name()?;
            return Err(InvalidArgument::new_err(format!(
                "tensor {name} is a {kind}: give a torch tensor, or an object with __dlpack__ or __cuda_array_interface__"
            )));
        };
        ask.judge(found)
    }

    /// What keeps the memory alive, where that is not the tensor itself.
    pub fn into_held(self) -> Option<Py<PyAny>> {
        self.held
    }

    /// Whether the memory belongs to somebody who does not follow the stream's order.
    pub fn is_borrowed(&self) -> bool {
        self.held.is_some()
    }

    /// Whether elements follow each other without gaps, the last dimension innermost.
    pub fn is_contiguous(&self) -> bool {
        let mut wanted = 1;
        self.extents.iter().zip(&self.strides).rev().all(|(&extent, &stride)| {
            let fits = extent <= 1 || stride == wanted;
            wanted *= extent;
            fits
        }) || self.extents.contains(&0)
    }

    /// Refuses memory that its owner lends for reading alone.
    pub fn writable(&self, name: &str) -> PyResult<()> {
        if self.read_only {
            return Err(InvalidArgument::new_err(format!(
                "tensor {name} is read-only, and the result is written to it"
            )));
        }
        Ok(())
    }
}

/// Which tensor is read, for messages.
struct Ask<'a> {
    name: &'a str,
    meaning: &'a str,
    /// Whether its last dimension must be contiguous.
    rows: bool,
}

impl Ask<'_> {
    /// N numbers of a sequence.
    fn numbers<const N: usize>(&self, given: &Bound<'_, PyAny>) -> PyResult<[i64; N]> {
        let dimensions = given.len()?;
        if dimensions != N {
            return Err(self.dimensions(dimensions, N));
        }
        given.extract()
    }

    /// Another number of dimensions than wanted.
    fn dimensions(&self, found: usize, wanted: usize) -> PyErr {
        let Self { name, meaning, .. } = self;
        InvalidArgument::new_err(format!("tensor {name} has {found} dimensions, expected {wanted}: {meaning}"))
    }

    /// The tensor is not in a GPU's memory. Where there is no GPU at all, that is what is said.
    fn elsewhere(&self, place: &str) -> PyErr {
        if let Err(why) = engine(0).or_raise() {
            return why;
        }
        InvalidArgument::new_err(format!("tensor {} is on {place}: move it to the GPU first", self.name))
    }

    /// Holds what was found against what every call wants.
    fn judge<const N: usize>(&self, found: Found<N>) -> PyResult<View<N>> {
        let Self { name, .. } = self;
        let Found { address, extents, strides, dtype, device, read_only, held } = found;
        let unsigned = |what: &str, numbers: [i64; N]| -> PyResult<[u64; N]> {
            if numbers.iter().any(|&number| number < 0) {
                return Err(InvalidArgument::new_err(format!(
                    "tensor {name} has {what} {numbers:?}: negative ones are not taken, copy it"
                )));
            }
            Ok(numbers.map(i64::unsigned_abs))
        };
        let extents = unsigned("extents", extents)?;
        let strides = match strides {
            Some(strides) => unsigned("strides", strides)?,
            None => contiguous(extents),
        };
        if self.rows && extents[N - 1] > 1 && strides[N - 1] != 1 && !extents.contains(&0) {
            return Err(InvalidArgument::new_err(format!(
                "tensor {name} has strides {strides:?}: its last dimension must be contiguous, call .contiguous() on it"
            )));
        }
        Ok(View { address, extents, strides, dtype, device, read_only, held })
    }
}

/// Strides of a tensor without gaps.
fn contiguous<const N: usize>(extents: [u64; N]) -> [u64; N] {
    let mut strides = [1; N];
    for at in (1..N).rev() {
        strides[at - 1] = strides[at] * extents[at].max(1);
    }
    strides
}
