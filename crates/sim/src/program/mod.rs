//! A kernel as the machine runs it: operands resolved to register numbers, branches to instruction numbers.
//! Built once a kernel by `decode`; knows nothing of a run.

mod decode;
mod operands;

use ptx::{Kernel, Line, TensorMap};
use schedule::HOPPER;

pub(crate) use decode::{decode, is_product};

use crate::float8::Float8;

/// A 32-bit source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum S32 {
    R(u32),
    I(u32),
}

/// A 64-bit source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum S64 {
    R(u32),
    I(u64),
}

/// A predicate source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Sp {
    R(u32),
    I(bool),
}

/// A 32-bit address in shared memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct At32 {
    pub base: S32,
    pub offset: i32,
}

/// A 64-bit address.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct At64 {
    pub base: u32,
    pub offset: i32,
}

/// Registers that a load or store moves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Regs {
    /// 16-bit registers, in the lower halves of their file's.
    W16(Vec<u32>),
    W32(Vec<u32>),
    W64(Vec<u32>),
}

/// Two-operand integer operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bin {
    Add,
    Sub,
    Mul,
    MulHiU,
    MulHiS,
    DivU,
    DivS,
    RemU,
    RemS,
    MinU,
    MinS,
    MaxU,
    MaxS,
    And,
    Or,
    Xor,
    Shl,
    ShrU,
    ShrS,
}

/// Comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// How compared bits are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Num {
    Unsigned,
    Signed,
    Float,
}

/// Two-operand float operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Float2 {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    /// No number if either is none.
    MaxNan,
    Min,
}

/// One-operand float operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Float1 {
    Neg,
    Abs,
    /// Rounded.
    Inverse,
    /// Approximate.
    Rcp,
    Ex2,
    Lg2,
}

/// 16-bit formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Bf16,
    F16,
}

/// Elements of an operand of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Half(Half),
    Eight(Float8),
}

impl Element {
    /// Bytes of one.
    pub fn bytes(self) -> u32 {
        match self {
            Element::Half(_) => 2,
            Element::Eight(_) => 1,
        }
    }
}

/// Patterns of `shfl.sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Idx,
    Bfly,
    Up,
    Down,
}

/// Atomic operations on 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Atomic {
    Add,
    Inc,
    Max,
    Exchange,
    And,
}

/// Values that are the same for all code of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    Tid,
    Ntid,
    Ctaid,
    Nctaid,
    Lane,
    Zero,
}

/// Where the A operand of a product is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OperandA {
    Shared { descriptor: u32, transposed: bool },
    Registers(Vec<u32>),
}

/// A wgmma.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Product {
    pub columns: usize,
    /// Of A and of B; as wide as each other.
    pub elements: [Element; 2],
    pub d: Vec<u32>,
    pub a: OperandA,
    pub b: u32,
    pub b_transposed: bool,
    pub scale_d: Sp,
    pub negate_a: bool,
    pub negate_b: bool,
}

/// A tensor copy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Copy {
    pub map: u32,
    pub coords: Vec<S32>,
    pub shared: At32,
    /// The barrier of a load; none: a store.
    pub barrier: Option<At32>,
}

/// What an instruction does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Code {
    Bin32(Bin, u32, S32, S32),
    Bin64(Bin, u32, S64, S64),
    Shift64(Bin, u32, S64, S32),
    Mad32(u32, S32, S32, S32),
    Mad64(u32, S64, S64, S64),
    MadWide(u32, S32, S32, S64),
    Setp32(Cmp, Num, u32, S32, S32),
    Setp64(Cmp, u32, S64, S64),
    Select32(u32, S32, S32, u32),
    Select64(u32, S64, S64, u32),
    Pred {
        d: u32,
        a: Sp,
        b: Sp,
        or: bool,
        negate: bool,
    },
    Mov32(u32, S32),
    Mov64(u32, S64),
    Special(u32, Special),
    Param(u32, usize),
    Param64(u32, usize),
    MapAddress(u32, usize),
    MapGeneric(u32, u32),
    Pack(u32, u32, u32),
    Widen(u32, u32),
    Permute(u32, S32, S32, S32),
    Pack16(u32, u32, u32),
    Unpack16(u32, u32, u32),
    CvtPair(Half, u32, S32, S32),
    CvtReluPair(Half, u32, S32, S32),
    CvtHalf(Half, u32, S32),
    CvtSingle(Half, u32, u32),
    CvtPair8(Float8, u32, S32, S32),
    AbsPair(u32, u32),
    MaxPair(Half, u32, u32, u32),
    CvtHalves(Float8, u32, u32),
    Float2(Float2, u32, S32, S32),
    Float1(Float1, u32, S32),
    Fma(u32, S32, S32, S32),
    LoadShared(Regs, At32),
    StoreShared(Regs, At32),
    LoadGlobal {
        regs: Regs,
        at: At64,
        constant: bool,
    },
    StoreGlobal(Regs, At64),
    LoadAcquire(u32, At64),
    StoreRelease(u32, At64),
    /// The old value goes to the register, if there is one.
    Atomic(Atomic, Option<u32>, At64, S32),
    FenceGpu,
    StoreMatrix {
        regs: Vec<u32>,
        at: At32,
        transposed: bool,
    },
    LoadMatrix {
        regs: Vec<u32>,
        at: At32,
        transposed: bool,
    },
    Shuffle {
        mode: Shuffle,
        d: u32,
        a: u32,
        b: S32,
        c: u32,
        mask: u32,
    },
    Vote {
        all: bool,
        d: u32,
        a: u32,
        mask: u32,
    },
    Elect {
        d: u32,
        mask: u32,
    },
    SyncWarp(u32),
    Bar {
        id: S32,
        threads: Option<S32>,
        wait: bool,
    },
    BarrierInit {
        at: At32,
        count: u32,
    },
    BarrierArrive {
        at: At32,
        count: u32,
        bytes: Option<S32>,
    },
    BarrierWait {
        d: u32,
        at: At32,
        parity: S32,
    },
    FenceBarrierInit,
    FenceAsync,
    Nothing,
    Copy(Box<Copy>),
    CopyCommit,
    CopyWait {
        left: u32,
        read: bool,
    },
    ProductFence,
    ProductCommit,
    ProductWait {
        left: u32,
    },
    Product(Box<Product>),
    SetRegisters {
        count: u32,
        inc: bool,
    },
    Branch(usize),
    Return,
}

/// An instruction.
#[derive(Debug, Clone)]
pub(crate) struct Instruction {
    pub code: Code,
    /// Predicate register and whether it is negated.
    pub guard: Option<(u32, bool)>,
    /// Line of the kernel's body.
    pub line: usize,
    /// Registers of products that it touches otherwise than as their operands.
    pub touches: Vec<u32>,
    /// The role whose section it stands in.
    pub role: Option<usize>,
}

/// A decoded kernel.
#[derive(Debug)]
pub(crate) struct Program<'k> {
    pub kernel: &'k Kernel,
    pub code: Vec<Instruction>,
    pub regs32: usize,
    pub regs64: usize,
    pub preds: usize,
}

impl Program<'_> {
    /// Warps of a CTA.
    pub fn warps(&self) -> usize {
        (self.kernel.threads as usize).div_ceil(crate::clock::LANES)
    }

    /// The text of an instruction.
    pub fn text(&self, pc: usize) -> String {
        let line = self.code.get(pc).and_then(|i| self.kernel.body.get(i.line));
        match line {
            Some(Line::Inst(inst)) => inst.to_string(),
            _ => "the end of the kernel".to_owned(),
        }
    }

    /// Registers a thread that the kernel enters with: what its threads leave each other, or what the largest increase
    /// asks for if that is less (ptxas, "Used N registers").
    pub fn entry_registers(&self) -> u32 {
        let increases = self.code.iter().filter_map(|i| match i.code {
            Code::SetRegisters { count, inc: true } => Some(count),
            _ => None,
        });
        let share = HOPPER.entry_allocation(self.kernel.threads * self.kernel.min_ctas.max(1));
        share.min(increases.max().unwrap_or(share))
    }

    /// The role of a warp.
    pub fn role_of_warp(&self, warp: usize) -> Option<usize> {
        self.kernel.roles.iter().position(|r| r.warps.contains(&(warp as u32)))
    }

    /// The tensor map of a parameter.
    pub fn tensor(&self, param: usize) -> Option<&TensorMap> {
        match &self.kernel.params.get(param)?.kind {
            ptx::ParamKind::Tensor(map) => Some(map),
            _ => None,
        }
    }
}
