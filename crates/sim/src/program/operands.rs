//! Operands of the IR as register numbers. 32-bit registers, singles and 16-bit registers share one file.

use ptx::{Address, Base, Class, Inst, Kernel, Operand, Reg};

use super::{At32, At64, Regs, S32, S64, Sp};
use crate::shared::SHARED_BASE;

/// How many registers of each class come before a class in its file.
pub(super) struct Files {
    pub b32: u32,
    pub f32: u32,
    pub b16: u32,
    pub b64: u32,
    pub pred: u32,
}

impl Files {
    pub fn of(kernel: &Kernel) -> Files {
        let mut files = Files { b32: 0, f32: 0, b16: 0, b64: 0, pred: 0 };
        for (_, inst) in kernel.insts() {
            for reg in inst.reads().into_iter().chain(inst.writes()) {
                let n = match reg.class {
                    Class::B32 => &mut files.b32,
                    Class::F32 => &mut files.f32,
                    Class::B16 => &mut files.b16,
                    Class::B64 => &mut files.b64,
                    Class::Pred => &mut files.pred,
                };
                *n = (*n).max(reg.index + 1);
            }
        }
        files
    }

    /// The register's number in its file.
    pub fn number(&self, reg: Reg) -> u32 {
        match reg.class {
            Class::B32 | Class::B64 | Class::Pred => reg.index,
            Class::F32 => self.b32 + reg.index,
            Class::B16 => self.b32 + self.f32 + reg.index,
        }
    }
}

/// The operands of one instruction. `None` where one is not what its row asks for.
pub(super) struct Args<'a> {
    pub inst: &'a Inst,
    pub files: &'a Files,
}

impl Args<'_> {
    fn get(&self, i: usize) -> Option<&Operand> {
        self.inst.args.get(i)
    }

    /// A register.
    pub fn reg(&self, i: usize) -> Option<u32> {
        match self.get(i)? {
            Operand::Reg(r) => Some(self.files.number(*r)),
            _ => None,
        }
    }

    fn s32_of(&self, operand: &Operand) -> Option<S32> {
        Some(match operand {
            Operand::Reg(r) if !matches!(r.class, Class::B64 | Class::Pred) => S32::R(self.files.number(*r)),
            Operand::Int(v) => S32::I(*v as u32),
            Operand::Float(bits) => S32::I(*bits),
            _ => return None,
        })
    }

    /// A 32-bit source.
    pub fn s32(&self, i: usize) -> Option<S32> {
        self.s32_of(self.get(i)?)
    }

    /// A 64-bit source.
    pub fn s64(&self, i: usize) -> Option<S64> {
        Some(match self.get(i)? {
            Operand::Reg(r) if r.class == Class::B64 => S64::R(r.index),
            Operand::Int(v) => S64::I(*v as u64),
            _ => return None,
        })
    }

    /// A predicate source.
    pub fn sp(&self, i: usize) -> Option<Sp> {
        Some(match self.get(i)? {
            Operand::Reg(r) if r.class == Class::Pred => Sp::R(r.index),
            Operand::Int(v) => Sp::I(*v != 0),
            _ => return None,
        })
    }

    /// An integer immediate.
    pub fn int(&self, i: usize) -> Option<i64> {
        match self.get(i)? {
            Operand::Int(v) => Some(*v),
            _ => None,
        }
    }

    /// A shared address.
    pub fn shared(&self, i: usize) -> Option<At32> {
        match self.get(i)? {
            Operand::Address(Address { base: Base::Reg(r), offset }) if r.class == Class::B32 => {
                Some(At32 { base: S32::R(r.index), offset: *offset })
            }
            Operand::Address(Address { base: Base::Symbol(s), offset }) if s == Kernel::SHARED_SYMBOL => {
                Some(At32 { base: S32::I(SHARED_BASE), offset: *offset })
            }
            _ => None,
        }
    }

    /// A global address.
    pub fn global(&self, i: usize) -> Option<At64> {
        match self.get(i)? {
            Operand::Address(Address { base: Base::Reg(r), offset }) if r.class == Class::B64 => {
                Some(At64 { base: r.index, offset: *offset })
            }
            _ => None,
        }
    }

    /// The name in a parameter's address.
    pub fn param(&self, i: usize) -> Option<&str> {
        match self.get(i)? {
            Operand::Address(Address { base: Base::Symbol(s), offset: 0 }) => Some(s),
            Operand::Symbol(s) => Some(s),
            _ => None,
        }
    }

    /// A vector of registers.
    pub fn regs(&self, i: usize) -> Option<Vec<u32>> {
        match self.get(i)? {
            Operand::Vector(v) => Some(v.iter().map(|r| self.files.number(*r)).collect()),
            _ => None,
        }
    }

    /// What a load or store moves: one register or a vector.
    pub fn moved(&self, i: usize) -> Option<Regs> {
        let regs: Vec<Reg> = match self.get(i)? {
            Operand::Reg(r) => vec![*r],
            Operand::Vector(v) => v.clone(),
            _ => return None,
        };
        let numbers = regs.iter().map(|r| self.files.number(*r)).collect();
        Some(match regs.first()?.class {
            Class::B16 => Regs::W16(numbers),
            Class::B64 => Regs::W64(numbers),
            _ => Regs::W32(numbers),
        })
    }

    /// A tensor map's register and the coordinates of a box.
    pub fn tensor(&self, i: usize) -> Option<(u32, Vec<S32>)> {
        match self.get(i)? {
            Operand::Tensor { map, coords } => {
                Some((map.index, coords.iter().map(|c| self.s32_of(c)).collect::<Option<_>>()?))
            }
            _ => None,
        }
    }

    /// A special register or symbol operand itself.
    pub fn raw(&self, i: usize) -> Option<&Operand> {
        self.get(i)
    }
}
