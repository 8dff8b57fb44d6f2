//! One instruction: a row of the table with its qualifiers and operands filled in.

use std::fmt;

use crate::operand::Operand;
use crate::reg::{Pred, Reg};
use crate::table::{Access, Op, Spec};

/// `@%p` or `@!%p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The predicate.
    pub pred: Pred,
    /// True for `@!%p`.
    pub negated: bool,
}

/// An instruction. It may be ill-formed (`check` judges that); it always has a row in the table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Inst {
    /// The row.
    pub op: Op,
    /// One token for each `{slot}` of the row's mnemonic, in order.
    pub quals: Vec<&'static str>,
    /// One operand for each operand of the row, in order.
    pub args: Vec<Operand>,
    /// Executes only where the predicate holds.
    pub guard: Option<Guard>,
}

impl Inst {
    /// An unguarded instruction.
    pub fn new(op: Op, quals: Vec<&'static str>, args: Vec<Operand>) -> Inst {
        Inst { op, quals, args, guard: None }
    }

    /// The same instruction, executed only where `pred` holds.
    pub fn when(mut self, pred: Pred) -> Inst {
        self.guard = Some(Guard { pred, negated: false });
        self
    }

    /// The same instruction, executed only where `pred` does not hold.
    pub fn unless(mut self, pred: Pred) -> Inst {
        self.guard = Some(Guard { pred, negated: true });
        self
    }

    /// The row of the table.
    pub fn spec(&self) -> &'static Spec {
        self.op.spec()
    }

    /// The mnemonic with its slots filled in.
    pub fn mnemonic(&self) -> String {
        self.spec().mnemonic_with(&self.quals)
    }

    /// The registers read, the guard and address bases included.
    pub fn reads(&self) -> Vec<Reg> {
        let mut out: Vec<Reg> = self.guard.iter().map(|g| g.pred.reg()).collect();
        // A product that starts from zero (scale-d 0) does not read its accumulators.
        let fresh = self.arg("scale_d") == Some(&Operand::Int(0));
        for (spec, arg) in self.spec().operands.iter().zip(&self.args) {
            let direct = matches!(arg, Operand::Reg(_) | Operand::Vector(_));
            let only_written = spec.access == Access::Write || (spec.access == Access::Update && fresh);
            if !direct || !only_written {
                out.extend(arg.regs());
            }
        }
        out
    }

    /// The operand that the row calls `name`.
    pub fn arg(&self, name: &str) -> Option<&Operand> {
        let at = self.spec().operands.iter().position(|o| o.name == name)?;
        self.args.get(at)
    }

    /// The registers written.
    pub fn writes(&self) -> Vec<Reg> {
        let mut out = Vec::new();
        for (spec, arg) in self.spec().operands.iter().zip(&self.args) {
            let direct = matches!(arg, Operand::Reg(_) | Operand::Vector(_));
            if direct && spec.access != Access::Read {
                out.extend(arg.regs());
            }
        }
        out
    }
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(g) = self.guard {
            write!(f, "@{}{} ", if g.negated { "!" } else { "" }, g.pred.reg())?;
        }
        f.write_str(&self.mnemonic())?;
        for (i, (spec, arg)) in self.spec().operands.iter().zip(&self.args).enumerate() {
            let before = match i {
                0 => " ",
                _ if spec.piped => "|",
                _ => ", ",
            };
            write!(f, "{before}{arg}")?;
        }
        f.write_str(";")
    }
}
