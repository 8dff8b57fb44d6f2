//! What an instruction does to the abstract registers of one warp. Maps the table's rows onto [`Value`] operations;
//! decides nothing about right and wrong.

use std::collections::BTreeMap;

use ptx::{Address, Base, Class, Inst, Kernel, Op, Operand, Reg, Special};

use crate::arithmetic::{arithmetic, compare};
use crate::value::{LANES, Lanes, Mask, Value};

/// Where the dynamic shared memory starts: the first KiB of a CTA's window is the system's, and no alignment above
/// 1024 is honoured, so a module without static shared memory has its block here.
pub(crate) const SHARED_BASE: u64 = 1024;

/// A predicate that stands for `reg cmp bound`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Test {
    cmp: &'static str,
    ty: &'static str,
    reg: Reg,
    bound: u64,
}

/// The registers of a warp at a point, and the lanes that may be there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    pub lanes: Mask,
    regs: Vec<Value>,
    tests: BTreeMap<Reg, Test>,
}

/// Who executes an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exec {
    /// Lanes that may execute it.
    pub lanes: Mask,
    /// False if the guard is unknown, so that fewer may.
    pub certain: bool,
    /// True if either all of those lanes execute it or none does.
    pub whole: bool,
    /// False if the guard may differ between the lanes in a way that is not known.
    pub uniform: bool,
}

/// What does not change from point to point.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub kernel: &'a Kernel,
    pub warp: u32,
    /// First slot and count of each tracked class.
    slots: [(usize, usize); 3],
}

impl<'a> Context<'a> {
    pub fn new(kernel: &'a Kernel, warp: u32) -> Context<'a> {
        let mut counts = [0usize; 3];
        for (_, inst) in kernel.insts() {
            for r in inst.reads().into_iter().chain(inst.writes()) {
                if let Some(c) = tracked(r.class) {
                    counts[c] = counts[c].max(r.index as usize + 1);
                }
            }
        }
        let slots = [(0, counts[0]), (counts[0], counts[1]), (counts[0] + counts[1], counts[2])];
        Context { kernel, warp, slots }
    }

    /// The state in which the warp enters the kernel.
    pub fn entry(&self) -> State {
        let total = self.slots[2].0 + self.slots[2].1;
        State { lanes: Mask::MAX, regs: vec![Value::Unset; total], tests: BTreeMap::new() }
    }

    fn slot(&self, reg: Reg) -> Option<usize> {
        let (first, count) = self.slots[tracked(reg.class)?];
        ((reg.index as usize) < count).then_some(first + reg.index as usize)
    }

    /// The value of a register.
    pub fn reg(&self, state: &State, reg: Reg) -> Value {
        self.slot(reg).map_or(Value::Unknown { uniform: false }, |s| state.regs[s].clone())
    }

    /// The value of an operand; an address's is where it points.
    pub fn operand(&self, state: &State, operand: &Operand) -> Value {
        match operand {
            Operand::Reg(r) | Operand::Tensor { map: r, .. } => self.reg(state, *r),
            Operand::Int(v) => Value::constant(*v as u64),
            Operand::Address(Address { base, offset }) => {
                let base = match base {
                    Base::Reg(r) => self.reg(state, *r),
                    Base::Symbol(s) => self.symbol(s),
                };
                match offset {
                    0 => base,
                    _ => Value::apply(&[&base], |v| v[0].wrapping_add(*offset as u64) & 0xffff_ffff),
                }
            }
            Operand::Special(s) => self.special(*s),
            Operand::Symbol(s) => self.symbol(s),
            _ => Value::Unknown { uniform: false },
        }
    }

    fn special(&self, special: Special) -> Value {
        match special {
            Special::TidX => Value::lanes(|l| u64::from(self.warp) * LANES as u64 + l as u64),
            Special::LaneId => Value::lanes(|l| l as u64),
            Special::NtidX => Value::constant(u64::from(self.kernel.threads)),
            _ => Value::Unknown { uniform: true },
        }
    }

    fn symbol(&self, name: &str) -> Value {
        if name == Kernel::SHARED_SYMBOL {
            return Value::constant(SHARED_BASE);
        }
        match self.kernel.params.iter().position(|p| p.name == name) {
            Some(index) => Value::Param { index, generic: false },
            None => Value::Unknown { uniform: true },
        }
    }

    /// Who executes an instruction in that state.
    pub fn exec(&self, state: &State, inst: &Inst) -> Exec {
        let everyone = Exec { lanes: state.lanes, certain: true, whole: true, uniform: true };
        let Some(guard) = inst.guard else { return everyone };
        let pred = self.reg(state, guard.pred.reg());
        let may: Vec<Mask> = pred.masks(state.lanes, !guard.negated).unwrap_or_else(|| match pred.is_uniform() {
            true => vec![0, state.lanes],
            false => vec![],
        });
        match may[..] {
            [] => Exec { certain: false, whole: false, uniform: false, ..everyone },
            [lanes] => Exec { lanes, ..everyone },
            _ => {
                let lanes = may.iter().fold(0, |a, m| a | m);
                let whole = may.iter().all(|m| *m == 0 || *m == lanes);
                Exec { lanes, certain: false, whole, uniform: pred.is_uniform() }
            }
        }
    }

    /// Assumes that a predicate has this value in all lanes that are left.
    pub fn assume(&self, state: &mut State, pred: Reg, value: bool) {
        if let Some(test) = state.tests.get(&pred).copied()
            && let Some(slot) = self.slot(test.reg)
        {
            state.regs[slot] = state.regs[slot].refine(|v| compare(test.cmp, test.ty, v, test.bound) == value);
        }
        if let Some(slot) = self.slot(pred) {
            state.regs[slot] = Value::constant(u64::from(value));
        }
    }

    /// Carries out an instruction.
    pub fn step(&self, state: &mut State, inst: &Inst) -> Exec {
        let exec = self.exec(state, inst);
        let (result, test) = self.result(state, inst);
        for reg in inst.writes() {
            let Some(slot) = self.slot(reg) else { continue };
            let mut old = state.regs[slot].clone();
            if let (Some(guard), false) = (inst.guard, exec.certain)
                && let Some(t) = state.tests.get(&guard.pred.reg())
                && t.reg == reg
            {
                old = old.refine(|v| compare(t.cmp, t.ty, v, t.bound) == guard.negated);
            }
            state.tests.retain(|p, t| *p != reg && t.reg != reg);
            state.regs[slot] = match exec.certain {
                true if exec.lanes == state.lanes => result.clone(),
                true if exec.lanes == 0 => old,
                true => old.meet(state.lanes & !exec.lanes, &result, exec.lanes),
                false => old.meet(state.lanes, &result, exec.lanes),
            };
            if let (Some(test), None) = (test, inst.guard) {
                state.tests.insert(reg, test);
            }
        }
        exec
    }

    /// The value that an instruction writes, and what a predicate that it writes stands for.
    fn result(&self, state: &State, inst: &Inst) -> (Value, Option<Test>) {
        let arg = |i: usize| inst.args.get(i).map_or(Value::Unset, |a| self.operand(state, a));
        let uniform = |uniform| Value::Unknown { uniform };
        let value = match inst.op {
            Op::setp => return self.compare(state, inst),
            Op::selp => self.select(state, inst),
            Op::mov | Op::mov_pred | Op::mov_special | Op::mov_shared | Op::mov_param | Op::cvt_u64_u32 => {
                narrow(arg(1), inst)
            }
            Op::mov_pack => match inst.args.get(1) {
                Some(Operand::Vector(v)) if v.len() == 2 => {
                    let (lo, hi) = (self.reg(state, v[0]), self.reg(state, v[1]));
                    Value::apply(&[&lo, &hi], |v| v[0] & 0xffff_ffff | v[1] << 32)
                }
                _ => uniform(false),
            },
            Op::cvta_param => match arg(1) {
                Value::Param { index, .. } => Value::Param { index, generic: true },
                other => other,
            },
            Op::shfl_sync => self.shuffle(inst, &arg(1), &arg(2)),
            Op::vote_sync => match arg(1).single() {
                Some(Lanes::Same(v)) => Value::constant(*v),
                _ => uniform(true),
            },
            // The leader is the same lane every time; the lowest stands for it.
            Op::elect_sync => Value::lanes(|l| u64::from(l as u32 == state.lanes.trailing_zeros())),
            Op::mbarrier_try_wait | Op::ld_param_b32 | Op::ld_param_b64 => uniform(true),
            Op::ld_shared
            | Op::ld_shared_v
            | Op::ld_global
            | Op::ld_global_v
            | Op::ld_global_nc
            | Op::ld_global_nc_v
            | Op::ld_global_once_v => uniform(arg(1).is_uniform()),
            Op::and_pred | Op::or_pred if arg(1).alternatives().is_some() != arg(2).alternatives().is_some() => {
                let (known, other) = if arg(1).alternatives().is_some() { (arg(1), arg(2)) } else { (arg(2), arg(1)) };
                // One side is known: the other, the same in all lanes, lets it through or decides alone.
                let decided = Value::constant(u64::from(inst.op == Op::or_pred));
                match other.is_uniform() {
                    true => known.meet(state.lanes, &decided, state.lanes),
                    false => uniform(false),
                }
            }
            op => match arithmetic(op, inst.quals.first().copied().unwrap_or("")) {
                Some(f) => {
                    let operands: Vec<Value> = (1..inst.args.len()).map(arg).collect();
                    narrow(Value::apply(&operands.iter().collect::<Vec<_>>(), f), inst)
                }
                None => uniform(false),
            },
        };
        (value, None)
    }

    fn compare(&self, state: &State, inst: &Inst) -> (Value, Option<Test>) {
        let (&[cmp, ty], [_, a, b]) = (&inst.quals[..], &inst.args[..]) else {
            return (Value::Unknown { uniform: false }, None);
        };
        if ty == "f32" {
            return (Value::Unknown { uniform: false }, None);
        }
        let (left, right) = (self.operand(state, a), self.operand(state, b));
        let value = match a == b && matches!(a, Operand::Reg(_)) {
            true => Value::constant(u64::from(matches!(cmp, "eq" | "le" | "ge"))),
            false => Value::apply(&[&left, &right], |v| u64::from(compare(cmp, ty, v[0], v[1]))),
        };
        let test = match (a, right.uniform_constant()) {
            (Operand::Reg(reg), Some(bound)) if left.alternatives().is_some_and(|a| a.len() > 1) => {
                Some(Test { cmp, ty, reg: *reg, bound })
            }
            _ => None,
        };
        (value, test)
    }

    fn select(&self, state: &State, inst: &Inst) -> Value {
        let [_, a, b, Operand::Reg(pred)] = &inst.args[..] else { return Value::Unknown { uniform: false } };
        let under = |operand: &Operand, value: bool| {
            let v = self.operand(state, operand);
            match (state.tests.get(pred), operand) {
                (Some(t), Operand::Reg(r)) if t.reg == *r => v.refine(|x| compare(t.cmp, t.ty, x, t.bound) == value),
                _ => v,
            }
        };
        let p = self.reg(state, *pred);
        match p.holds(state.lanes) {
            Some(0) => under(b, false),
            Some(m) if m == state.lanes => under(a, true),
            Some(m) => under(a, true).meet(m, &under(b, false), state.lanes & !m),
            None => match under(a, true).meet(state.lanes, &under(b, false), state.lanes) {
                Value::Unknown { uniform } => Value::Unknown { uniform: uniform && p.is_uniform() },
                known => known,
            },
        }
    }

    fn shuffle(&self, inst: &Inst, source: &Value, by: &Value) -> Value {
        let unknown = Value::Unknown { uniform: source.is_uniform() };
        let Some(by) = by.uniform_constant() else { return unknown };
        let by = by as usize;
        let from: fn(usize, usize) -> usize = match inst.quals.first().copied() {
            Some("idx") => |_, by| by,
            Some("bfly") => |lane, by| lane ^ by,
            _ => return unknown,
        };
        // Only whole-warp shuffles; segments (`c` other than 31) are left unknown.
        match (source.alternatives(), inst.args.get(3)) {
            (Some(a), Some(Operand::Int(31))) if by < LANES => Value::any_of(
                a.iter().map(|one| Lanes::new(std::array::from_fn(|l| one.get(from(l, by) % LANES)))).collect(),
            ),
            (None, Some(Operand::Int(31))) if from(0, by) == from(1, by) => Value::Unknown { uniform: true },
            _ => unknown,
        }
    }
}

impl Context<'_> {
    /// Joins what another edge brings.
    pub fn meet(&self, into: &mut State, other: &State, widen: bool) {
        let (mine, theirs) = (into.lanes, other.lanes);
        for (a, b) in into.regs.iter_mut().zip(&other.regs) {
            if a != b {
                let met = a.meet(mine, b, theirs);
                *a = if widen { Value::Unknown { uniform: met.is_uniform() } } else { met };
            }
        }
        into.tests.retain(|p, t| other.tests.get(p) == Some(t));
        into.lanes |= theirs;
    }
}

fn tracked(class: Class) -> Option<usize> {
    match class {
        Class::Pred => Some(0),
        Class::B32 => Some(1),
        Class::B64 => Some(2),
        _ => None,
    }
}

/// Cuts a result to the width of the register that it is written to.
fn narrow(value: Value, inst: &Inst) -> Value {
    match inst.args.first() {
        Some(Operand::Reg(Reg { class: Class::B32, .. })) if value.alternatives().is_some() => {
            Value::apply(&[&value], |v| v[0] & 0xffff_ffff)
        }
        Some(Operand::Reg(Reg { class: Class::Pred, .. })) if value.alternatives().is_some() => {
            Value::apply(&[&value], |v| v[0] & 1)
        }
        _ => value,
    }
}
