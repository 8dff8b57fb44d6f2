//! The emitter: hands out typed registers and labels and collects lines. Knows nothing of tiles.

use std::collections::BTreeMap;

use ptx::qual::{Cmp, Int};
use ptx::{F32, Inst, Label, Line, Operand, Pred, R16, R32, R64, op};

/// A kernel's body in the making.
///
/// `asm.b32(|d| op::add(Int::U32, d, x, 4))` emits one instruction into a fresh register and returns it: every row
/// of the table is reachable this way, so there is no second list of instructions to keep.
#[derive(Debug, Default)]
pub struct Asm {
    body: Vec<Line>,
    b16: u32,
    b32: u32,
    b64: u32,
    f32: u32,
    pred: u32,
    labels: BTreeMap<String, u32>,
}

macro_rules! fresh {
    ($($(#[$doc:meta])* $name:ident, $reserve:ident: $reg:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self, make: impl FnOnce($reg) -> Inst) -> $reg {
            let d = self.$reserve();
            self.emit(make(d));
            d
        }

        /// A fresh register of that class, not yet written.
        pub fn $reserve(&mut self) -> $reg {
            let d = $reg::new(self.$name);
            self.$name += 1;
            d
        }
    )*};
}

impl Asm {
    fresh! {
        /// Emits an instruction into a fresh 16-bit register.
        b16, new_b16: R16;
        /// Emits an instruction into a fresh 32-bit register.
        b32, new_b32: R32;
        /// Emits an instruction into a fresh 64-bit register.
        b64, new_b64: R64;
        /// Emits an instruction into a fresh single-precision register.
        f32, new_f32: F32;
        /// Emits an instruction into a fresh predicate.
        pred, new_pred: Pred;
    }

    /// Emits an instruction.
    pub fn emit(&mut self, inst: Inst) {
        self.body.push(Line::Inst(inst));
    }

    /// A comment for the reader of the PTX.
    pub fn comment(&mut self, text: impl Into<String>) {
        self.body.push(Line::Comment(text.into()));
    }

    /// From here on the code is that role's; none: every warp's.
    pub fn begin(&mut self, role: Option<usize>) {
        self.body.push(Line::Begin(role));
    }

    /// A label whose name starts with the stem and is unique in the kernel.
    pub fn label(&mut self, stem: &str) -> Label {
        let n = self.labels.entry(stem.to_owned()).or_default();
        *n += 1;
        match *n {
            1 => Label::new(stem),
            n => Label::new(&format!("{stem}_{n}")),
        }
    }

    /// Puts a label here.
    pub fn place(&mut self, label: &Label) {
        self.body.push(Line::Label(label.clone()));
    }

    /// Branches, in every thread.
    pub fn jump(&mut self, to: &Label) {
        self.emit(op::bra(to));
    }

    /// Branches where the predicate holds.
    pub fn jump_if(&mut self, pred: Pred, to: &Label) {
        self.emit(op::bra(to).when(pred));
    }

    /// Branches where the predicate does not hold.
    pub fn jump_unless(&mut self, pred: Pred, to: &Label) {
        self.emit(op::bra(to).unless(pred));
    }

    /// Emits code that only runs where the predicate holds.
    pub fn only_if(&mut self, pred: Pred, stem: &str, code: impl FnOnce(&mut Asm)) {
        let past = self.label(stem);
        self.jump_unless(pred, &past);
        code(self);
        self.place(&past);
    }

    /// Emits code that one thread runs, of the warps where the predicate holds: the same one each time, as bulk groups
    /// belong to a thread.
    pub fn in_one_thread(&mut self, warp: Pred, stem: &str, code: impl FnOnce(&mut Asm)) {
        let past = self.label(stem);
        self.jump_unless(warp, &past);
        let elected = self.pred(|p| op::elect_sync(Operand::Sink, p, -1));
        self.jump_unless(elected, &past);
        code(self);
        self.place(&past);
    }

    /// A predicate that compares two unsigned or signed integers.
    pub fn compare(&mut self, cmp: Cmp, ty: ptx::qual::Num, a: impl Into<Operand>, b: impl Into<Operand>) -> Pred {
        self.pred(|p| op::setp(cmp, ty, p, a, b))
    }

    /// `base + index * stride`, or `base` where there is nothing to index (a ring of one stage).
    pub fn indexed(&mut self, base: R32, index: Option<R32>, stride: u32) -> R32 {
        match index {
            None => base,
            Some(index) => self.b32(|d| op::mad_lo(Int::U32, d, index, stride, base)),
        }
    }

    /// The lines so far.
    pub fn finish(self) -> Vec<Line> {
        self.body
    }
}
