//! Operands: what stands after a mnemonic. Owns their text; knows nothing of which instruction takes which.

use std::fmt;

use crate::module::Label;
use crate::reg::{F32, Pred, R16, R32, R64, Reg};

/// Special registers that the kernels read (PTX ISA, "Special Registers").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Special {
    /// `%tid.x`: thread in the CTA.
    TidX,
    /// `%ntid.x`: threads of the CTA.
    NtidX,
    /// `%ctaid.x`: CTA in the grid.
    CtaidX,
    /// `%nctaid.x`: CTAs of the grid.
    NctaidX,
    /// `%laneid`: lane in the warp.
    LaneId,
    /// `%cluster_ctarank`: CTA in the cluster.
    ClusterCtaRank,
}

impl Special {
    /// All special registers known to the table.
    pub const ALL: [Special; 6] =
        [Special::TidX, Special::NtidX, Special::CtaidX, Special::NctaidX, Special::LaneId, Special::ClusterCtaRank];

    /// The manual's name.
    pub fn name(self) -> &'static str {
        match self {
            Special::TidX => "%tid.x",
            Special::NtidX => "%ntid.x",
            Special::CtaidX => "%ctaid.x",
            Special::NctaidX => "%nctaid.x",
            Special::LaneId => "%laneid",
            Special::ClusterCtaRank => "%cluster_ctarank",
        }
    }
}

/// What an address starts from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Base {
    /// A register.
    Reg(Reg),
    /// A kernel parameter or the shared-memory symbol.
    Symbol(String),
}

/// `[base+offset]`, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// Register or symbol.
    pub base: Base,
    /// Constant byte offset.
    pub offset: i32,
}

/// One operand of an instruction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// An integer immediate.
    Int(i64),
    /// A 32-bit float immediate, by its bits (printed `0fXXXXXXXX`).
    Float(u32),
    /// `{a, b, ...}`.
    Vector(Vec<Reg>),
    /// `[base+offset]`.
    Address(Address),
    /// `[map, {c0, c1, ...}]`: a tensor map and the coordinates of a box, innermost first, in elements.
    Tensor {
        /// Register with the generic address of the tensor map.
        map: Reg,
        /// Registers or integer immediates.
        coords: Vec<Operand>,
    },
    /// A branch target.
    Label(Label),
    /// A special register.
    Special(Special),
    /// The name of a parameter or of the shared-memory block, as a value.
    Symbol(String),
    /// `_`: the result is thrown away.
    Sink,
}

impl Operand {
    /// The address `[base+offset]`.
    pub fn at(base: impl Into<Reg>, offset: i32) -> Operand {
        Operand::Address(Address { base: Base::Reg(base.into()), offset })
    }

    /// The address `[symbol+offset]`.
    pub fn at_symbol(symbol: impl Into<String>, offset: i32) -> Operand {
        Operand::Address(Address { base: Base::Symbol(symbol.into()), offset })
    }

    /// A vector of registers.
    pub fn vector<R: Into<Reg> + Copy>(regs: &[R]) -> Operand {
        Operand::Vector(regs.iter().map(|&r| r.into()).collect())
    }

    /// A 32-bit float immediate.
    pub fn float(value: f32) -> Operand {
        Operand::Float(value.to_bits())
    }

    /// A box of a tensor: the register that holds the map's generic address, and its coordinates.
    pub fn tensor(map: R64, coords: Vec<Operand>) -> Operand {
        Operand::Tensor { map: map.reg(), coords }
    }

    /// Every register that the operand names.
    pub fn regs(&self) -> Vec<Reg> {
        match self {
            Operand::Reg(r) => vec![*r],
            Operand::Vector(v) => v.clone(),
            Operand::Address(Address { base: Base::Reg(r), .. }) => vec![*r],
            Operand::Tensor { map, coords } => {
                std::iter::once(*map).chain(coords.iter().flat_map(Operand::regs)).collect()
            }
            _ => Vec::new(),
        }
    }
}

macro_rules! from_regs {
    ($($t:ty),*) => {$(
        impl From<$t> for Operand {
            fn from(r: $t) -> Operand {
                Operand::Reg(r.reg())
            }
        }
    )*};
}
from_regs!(Pred, R16, R32, R64, F32);

macro_rules! from_ints {
    ($($t:ty),*) => {$(
        impl From<$t> for Operand {
            fn from(v: $t) -> Operand {
                Operand::Int(i64::from(v))
            }
        }
    )*};
}
from_ints!(i32, u32, i64);

impl From<Reg> for Operand {
    fn from(r: Reg) -> Operand {
        Operand::Reg(r)
    }
}

impl From<f32> for Operand {
    fn from(v: f32) -> Operand {
        Operand::float(v)
    }
}

impl From<Special> for Operand {
    fn from(s: Special) -> Operand {
        Operand::Special(s)
    }
}

impl From<&Label> for Operand {
    fn from(l: &Label) -> Operand {
        Operand::Label(l.clone())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        match &self.base {
            Base::Reg(r) => write!(f, "{r}")?,
            Base::Symbol(s) => f.write_str(s)?,
        }
        match self.offset {
            0 => f.write_str("]"),
            n => write!(f, "+{n}]"),
        }
    }
}

fn braces<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    f.write_str("{")?;
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    f.write_str("}")
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Reg(r) => write!(f, "{r}"),
            Operand::Int(v) => write!(f, "{v}"),
            Operand::Float(bits) => write!(f, "0f{bits:08X}"),
            Operand::Vector(regs) => braces(f, regs),
            Operand::Address(a) => write!(f, "{a}"),
            Operand::Tensor { map, coords } => {
                write!(f, "[{map}, ")?;
                braces(f, coords)?;
                f.write_str("]")
            }
            Operand::Label(l) => write!(f, "{l}"),
            Operand::Special(s) => f.write_str(s.name()),
            Operand::Symbol(s) => f.write_str(s),
            Operand::Sink => f.write_str("_"),
        }
    }
}
