//! A module: one kernel, its declarations and its lines. Plain data; judged by `check`, printed by `print`.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::inst::Inst;

/// A PTX ISA version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// Before the point.
    pub major: u8,
    /// After the point.
    pub minor: u8,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A branch target's name, unique in its kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(Arc<str>);

impl Label {
    /// A label with that name.
    pub fn new(name: &str) -> Label {
        Label(name.into())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! worded {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// The word that the text uses.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }

            /// The value that a word of the text stands for.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }
    )*};
}

worded! {
    /// How rows of a shared tile are permuted in 16-byte chunks, by span of the pattern's rows in bytes.
    Swizzle {
        /// Rows stand as they are.
        None = "none",
        /// Rows of 32 bytes, pattern of 256.
        B32 = "32",
        /// Rows of 64 bytes, pattern of 512.
        B64 = "64",
        /// Rows of 128 bytes, pattern of 1024.
        B128 = "128",
    }
    /// Element type of a tensor map.
    TensorElement {
        /// bfloat16
        Bf16 = "bf16",
        /// IEEE half
        F16 = "f16",
        /// IEEE single
        F32 = "f32",
        /// 8-bit bytes, FP8 among them
        U8 = "u8",
    }
}

impl Swizzle {
    /// Bytes of a row of the pattern; 16 without a swizzle.
    pub fn row_bytes(self) -> u32 {
        match self {
            Swizzle::None => 16,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        }
    }

    /// Boundary on which the pattern starts, in bytes: 8 rows.
    pub fn alignment(self) -> u32 {
        match self {
            Swizzle::None => 128,
            other => 8 * other.row_bytes(),
        }
    }
}

impl TensorElement {
    /// Bytes of one element.
    pub fn bytes(self) -> u32 {
        match self {
            TensorElement::Bf16 | TensorElement::F16 => 2,
            TensorElement::F32 => 4,
            TensorElement::U8 => 1,
        }
    }
}

/// What the code expects of a tensor map: the launcher must encode exactly this (PTX ISA, "Tensors").
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// Element type.
    pub element: TensorElement,
    /// Box in elements, innermost dimension first; its length is the rank.
    pub box_dims: Vec<u32>,
    /// Permutation of the box in shared memory.
    pub swizzle: Swizzle,
}

impl TensorMap {
    /// Bytes that a copy of one box moves, edges included.
    pub fn box_bytes(&self) -> u32 {
        self.box_dims.iter().product::<u32>() * self.element.bytes()
    }
}

/// Type of a kernel parameter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ParamKind {
    /// 32 bits.
    U32,
    /// 64 bits, pointers among them.
    U64,
    /// Single precision.
    F32,
    /// A `CUtensorMap` by value, 128 bytes on a 64-byte boundary.
    Tensor(TensorMap),
}

/// A kernel parameter. Parameters are passed in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Param {
    /// Its symbol.
    pub name: String,
    /// Its type.
    pub kind: ParamKind,
}

/// What a region of shared memory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RegionKind {
    /// Matrix data with a swizzle.
    Tile(Swizzle),
    /// mbarriers of 8 bytes, one a stage, each completing a phase after that many arrivals.
    Barriers {
        /// Arrivals of a phase.
        arrivals: u32,
    },
    /// Plain words.
    Words,
}

/// A part of the dynamic shared memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Region {
    /// Its name, unique in the kernel.
    pub name: String,
    /// First byte, from the start of the dynamic shared memory.
    pub offset: u32,
    /// Size in bytes, all stages.
    pub bytes: u32,
    /// Equal parts that a ring cycles through.
    pub stages: u32,
    /// What it holds.
    pub kind: RegionKind,
}

impl Region {
    /// One past its last byte.
    pub fn end(&self) -> u32 {
        self.offset + self.bytes
    }

    /// Bytes of one stage.
    pub fn stage_bytes(&self) -> u32 {
        self.bytes / self.stages.max(1)
    }
}

/// A group of warps with code of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// Its warps in the CTA; whole warpgroups.
    pub warps: Range<u32>,
    /// Registers a thread that it asks for with `setmaxnreg`, if any.
    pub registers: Option<u32>,
}

/// One line of a kernel's body.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Line {
    /// An instruction.
    Inst(Inst),
    /// A branch target.
    Label(Label),
    /// A comment for the reader.
    Comment(String),
    /// From here on the code is that role's (index into [`Kernel::roles`]); none: every warp's.
    Begin(Option<usize>),
}

/// A kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// Its entry symbol.
    pub name: String,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// Threads of a CTA (`.maxntid`).
    pub threads: u32,
    /// CTAs an SM must hold (`.minnctapersm`; needed for `setmaxnreg` to take effect).
    pub min_ctas: u32,
    /// Regions of the dynamic shared memory, by offset.
    pub shared: Vec<Region>,
    /// Its roles, by warp.
    pub roles: Vec<Role>,
    /// Its code.
    pub body: Vec<Line>,
}

impl Kernel {
    /// The symbol of the dynamic shared memory.
    pub const SHARED_SYMBOL: &'static str = "smem";
    /// Alignment of the dynamic shared memory, the most that ptxas honours.
    pub const SHARED_ALIGN: u32 = 1024;

    /// Bytes of dynamic shared memory.
    pub fn shared_bytes(&self) -> u32 {
        self.shared.iter().map(Region::end).max().unwrap_or(0)
    }

    /// The instructions, with their index in the body.
    pub fn insts(&self) -> impl Iterator<Item = (usize, &Inst)> {
        self.body.iter().enumerate().filter_map(|(i, line)| match line {
            Line::Inst(inst) => Some((i, inst)),
            _ => None,
        })
    }

    /// The region of that name.
    pub fn region(&self, name: &str) -> Option<&Region> {
        self.shared.iter().find(|r| r.name == name)
    }

    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|p| p.name == name)
    }
}

/// A module: one kernel for `sm_90a`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Module {
    /// Comment lines at its head: what it was generated from.
    pub header: Vec<String>,
    /// The kernel.
    pub kernel: Kernel,
}

impl Module {
    /// The target that every module is printed for.
    pub const TARGET: &'static str = "sm_90a";
    /// The least version that knows the target.
    pub const BASE_VERSION: Version = Version { major: 8, minor: 0 };

    /// The lowest PTX version that has every instruction of the module.
    pub fn version(&self) -> Version {
        self.kernel.insts().map(|(_, i)| i.spec().version).fold(Self::BASE_VERSION, Version::max)
    }
}
