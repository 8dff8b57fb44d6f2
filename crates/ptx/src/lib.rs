//! PTX for `sm_90a` as data: an instruction table, an IR over it, a printer and a parser of what is printed.
//!
//! # What a module is
//!
//! A [`Module`] is one kernel with its declarations: parameters (tensor maps carry the box and swizzle that the
//! code was written for), the regions of its dynamic shared memory, its warp roles, and a flat list of [`Line`]s.
//! Control flow is labels and branches, as in the text. Registers are virtual and typed by [`Class`]; every
//! instruction is an [`Inst`]: a row of the table ([`Op`]), its qualifiers and its operands.
//!
//! # What this crate must not know
//!
//! No schedules, no algorithm, no driver. It says what an instruction *is* ([`Spec`]: operands with access, least
//! PTX version, proxy, completion), never whether a program is right: that is `check`'s judgement. Text is printed
//! from a [`Proven`] module only, and `check::Verified` is the one type that is proven.
//!
//! # Adding an instruction
//!
//! One row in the family's file under `table/`; enum variant, constructor, printer, parser and the table's own
//! tests follow from it.

mod inst;
mod module;
mod operand;
pub mod parse;
mod print;
pub mod qual;
mod reg;
pub mod table;

pub use inst::{Guard, Inst};
pub use module::{
    Kernel, Label, Line, Module, Param, ParamKind, Region, RegionKind, Role, Swizzle, TensorElement, TensorMap, Version,
};
pub use operand::{Address, Base, Operand, Special};
pub use print::{Proven, print};
pub use reg::{Class, F32, Pred, R16, R32, R64, Reg};
pub use table::{Access, Completion, Kind, Op, OperandSpec, Proxy, Spec, op};
