//! A launch: grid, global buffers, and arguments by the names of the kernel's parameters.
//!
//! Tensor maps are descriptors over a buffer; box, swizzle and element type are what the kernel declares. Limits are
//! those of `cuTensorMapEncodeTiled` (CUDA driver API, "Tensor Map Object Management").

use ptx::{Kernel, ParamKind, Swizzle};
use schedule::HOPPER;

use crate::global::{Area, Global, Use};

/// Why a kernel cannot run here, or not with these arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unrunnable {
    /// An instruction that the machine does not know.
    #[error(
        "line {line} of the body: the machine does not know `{instruction}`; teach it in crates/sim/src/program/decode.rs"
    )]
    Unknown {
        /// Line of the kernel's body.
        line: usize,
        /// Its text.
        instruction: String,
    },
    /// A parameter without an argument.
    #[error("the launch has no argument for the parameter `{0}`")]
    Missing(String),
    /// An argument without a parameter.
    #[error("the kernel has no parameter `{0}`")]
    Extra(String),
    /// An argument of another type than the parameter's.
    #[error("the argument `{name}` is {given}, the parameter is {wanted}")]
    Mistyped {
        /// The parameter.
        name: String,
        /// What the launch gives.
        given: &'static str,
        /// What the kernel takes.
        wanted: &'static str,
    },
    /// A buffer that the launch does not have.
    #[error("the argument `{name}` names the buffer `{buffer}`, which the launch does not have")]
    NoBuffer {
        /// The parameter.
        name: String,
        /// The buffer.
        buffer: String,
    },
    /// A tensor map that the driver would not encode.
    #[error("the tensor map `{name}`: {reason}")]
    Tensor {
        /// The parameter.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// More than the machine has.
    #[error("{0}")]
    Limit(String),
    /// A problem that the kernel does not compute.
    #[error("the kernel does not compute this problem: {0}")]
    Problem(String),
}

/// A tensor over a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// The buffer, from its start.
    pub buffer: String,
    /// Elements of each dimension, innermost first.
    pub dims: Vec<u64>,
    /// Bytes from one index to the next, of every dimension but the innermost.
    pub strides: Vec<u64>,
}

#[derive(Debug, Clone)]
enum Argument {
    U32(u32),
    U64(u64),
    F32(f32),
    Pointer(String),
    Tensor(Tensor),
}

impl Argument {
    fn what(&self) -> &'static str {
        match self {
            Argument::U32(_) => "a 32-bit integer",
            Argument::U64(_) => "a 64-bit integer",
            Argument::F32(_) => "a single",
            Argument::Pointer(_) => "a pointer",
            Argument::Tensor(_) => "a tensor map",
        }
    }
}

#[derive(Debug, Clone)]
struct Buffer {
    name: String,
    bytes: Vec<u8>,
    used: Use,
}

/// A launch in the making.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    grid: u32,
    buffers: Vec<Buffer>,
    arguments: Vec<(String, Argument)>,
}

/// A tensor map as a copy uses it.
#[derive(Debug, Clone)]
pub(crate) struct BoundTensor {
    pub base: u64,
    pub dims: Vec<u64>,
    /// Bytes, of every dimension.
    pub strides: Vec<u64>,
    pub box_dims: Vec<u32>,
    pub element: u32,
    pub swizzle: Swizzle,
}

/// A launch whose arguments fit the kernel.
#[derive(Debug)]
pub(crate) struct Bound {
    pub grid: u32,
    /// By parameter: its value.
    pub words: Vec<u64>,
    /// By parameter: its tensor map.
    pub tensors: Vec<Option<BoundTensor>>,
}

impl Launch {
    /// A launch of so many CTAs.
    pub fn new(ctas: u32) -> Launch {
        Launch { grid: ctas, ..Launch::default() }
    }

    /// A buffer that the kernel only reads.
    pub fn input(self, name: &str, bytes: Vec<u8>) -> Launch {
        self.buffer(name, bytes, Use::Input)
    }

    /// A buffer that the kernel writes before it reads it.
    pub fn output(self, name: &str, bytes: usize) -> Launch {
        self.buffer(name, vec![0xff; bytes], Use::Output)
    }

    /// A buffer that the kernel reads and writes.
    pub fn both(self, name: &str, bytes: Vec<u8>) -> Launch {
        self.buffer(name, bytes, Use::Both)
    }

    /// A 32-bit argument.
    pub fn u32(self, name: &str, value: u32) -> Launch {
        self.argument(name, Argument::U32(value))
    }

    /// A 64-bit argument.
    pub fn u64(self, name: &str, value: u64) -> Launch {
        self.argument(name, Argument::U64(value))
    }

    /// A single-precision argument.
    pub fn f32(self, name: &str, value: f32) -> Launch {
        self.argument(name, Argument::F32(value))
    }

    /// The address of a buffer.
    pub fn pointer(self, name: &str, buffer: &str) -> Launch {
        self.argument(name, Argument::Pointer(buffer.to_owned()))
    }

    /// A tensor map.
    pub fn tensor(self, name: &str, tensor: Tensor) -> Launch {
        self.argument(name, Argument::Tensor(tensor))
    }

    fn buffer(mut self, name: &str, bytes: Vec<u8>, used: Use) -> Launch {
        self.buffers.push(Buffer { name: name.to_owned(), bytes, used });
        self
    }

    fn argument(mut self, name: &str, argument: Argument) -> Launch {
        self.arguments.push((name.to_owned(), argument));
        self
    }

    /// Fits the arguments to a kernel's parameters.
    pub(crate) fn bind(&self, kernel: &Kernel) -> Result<(Bound, Global), Unrunnable> {
        limits(kernel, self.grid)?;
        if let Some((name, _)) = self.arguments.iter().find(|(name, _)| kernel.param(name).is_none()) {
            return Err(Unrunnable::Extra(name.clone()));
        }
        let areas = self.buffers.iter().map(|b| Area::new(&b.name, b.bytes.clone(), b.used));
        let global = Global::new(areas.collect());
        let mut bound = Bound { grid: self.grid, words: Vec::new(), tensors: Vec::new() };
        for param in &kernel.params {
            let argument = self.arguments.iter().rev().find(|(name, _)| *name == param.name);
            let (_, argument) = argument.ok_or_else(|| Unrunnable::Missing(param.name.clone()))?;
            let (word, tensor) = fit(&param.name, &param.kind, argument, &global)?;
            bound.words.push(word);
            bound.tensors.push(tensor);
        }
        Ok((bound, global))
    }
}

fn limits(kernel: &Kernel, grid: u32) -> Result<(), Unrunnable> {
    if u64::from(kernel.shared_bytes()) > HOPPER.shared_bytes {
        let message = format!("{} bytes of shared memory; there are {}", kernel.shared_bytes(), HOPPER.shared_bytes);
        return Err(Unrunnable::Limit(message));
    }
    if grid == 0
        || kernel.threads == 0
        || kernel.threads > HOPPER.threads_per_block
        || !kernel.threads.is_multiple_of(32)
    {
        return Err(Unrunnable::Limit(format!("a grid of {grid} CTAs of {} threads", kernel.threads)));
    }
    Ok(())
}

fn fit(
    name: &str,
    kind: &ParamKind,
    argument: &Argument,
    global: &Global,
) -> Result<(u64, Option<BoundTensor>), Unrunnable> {
    let address = |buffer: &String| {
        let found = global.find(buffer);
        found.ok_or_else(|| Unrunnable::NoBuffer { name: name.to_owned(), buffer: buffer.clone() })
    };
    Ok(match (kind, argument) {
        (ParamKind::U32, Argument::U32(v)) => (u64::from(*v), None),
        (ParamKind::U64, Argument::U64(v)) => (*v, None),
        (ParamKind::F32, Argument::F32(v)) => (u64::from(v.to_bits()), None),
        (ParamKind::U64, Argument::Pointer(buffer)) => (address(buffer)?.base, None),
        (ParamKind::Tensor(map), Argument::Tensor(tensor)) => {
            let refuse = |reason| Unrunnable::Tensor { name: name.to_owned(), reason };
            (0, Some(encode(map, tensor, address(&tensor.buffer)?).map_err(refuse)?))
        }
        (kind, argument) => {
            let wanted = match kind {
                ParamKind::U32 => "a 32-bit integer",
                ParamKind::U64 => "a 64-bit integer or a pointer",
                ParamKind::F32 => "a single",
                ParamKind::Tensor(_) => "a tensor map",
            };
            return Err(Unrunnable::Mistyped { name: name.to_owned(), given: argument.what(), wanted });
        }
    })
}

fn encode(map: &ptx::TensorMap, tensor: &Tensor, area: &Area) -> Result<BoundTensor, String> {
    let (rank, element) = (map.box_dims.len(), u64::from(map.element.bytes()));
    if !(1..=5).contains(&rank) || tensor.dims.len() != rank || tensor.strides.len() + 1 != rank {
        return Err(format!(
            "{} dimensions and {} strides for a box of rank {rank}",
            tensor.dims.len(),
            tensor.strides.len()
        ));
    }
    if tensor.dims.iter().any(|&d| d == 0 || d > 1 << 32) {
        return Err("a dimension must be 1 to 2^32 elements".to_owned());
    }
    if tensor.strides.iter().any(|s| !s.is_multiple_of(16)) {
        return Err("strides must be multiples of 16 bytes".to_owned());
    }
    if map.box_dims.iter().any(|&b| b == 0 || b > HOPPER.tma_box_max) {
        return Err(format!("an edge of a box must be 1 to {} elements", HOPPER.tma_box_max));
    }
    let row = u64::from(map.box_dims[0]) * element;
    if !row.is_multiple_of(16) {
        return Err("a row of the box must be a multiple of 16 bytes".to_owned());
    }
    if map.swizzle != Swizzle::None && row > u64::from(map.swizzle.row_bytes()) {
        return Err(format!("a row of {row} bytes is wider than the swizzle"));
    }
    let strides: Vec<u64> = std::iter::once(element).chain(tensor.strides.iter().copied()).collect();
    let last: u64 = tensor.dims.iter().zip(&strides).map(|(d, s)| (d - 1) * s).sum();
    if last + element > area.len() as u64 {
        return Err(format!("it reaches byte {} of a buffer of {}", last + element, area.len()));
    }
    Ok(BoundTensor {
        base: area.base,
        dims: tensor.dims.clone(),
        strides,
        box_dims: map.box_dims.clone(),
        element: map.element.bytes(),
        swizzle: map.swizzle,
    })
}
