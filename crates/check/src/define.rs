//! Rules D: definitions and types. Every instruction fits its row of the table, every name means something, every
//! register is written before it is read. (PTX ISA, "Instruction Operands", "Identifiers".)

use std::collections::{BTreeMap, BTreeSet};

use ptx::table::{Len, Space};
use ptx::{Address, Base, Class, Guard, Inst, Kernel, Kind, Line, Op, Operand, ParamKind, Reg};

use crate::dataflow::{Analysis, solve};
use crate::finding::Report;
use crate::program::{Product, Program};

/// The one predefined identifier without a `%`: ptxas takes it for a number wherever it stands.
const RESERVED: &str = "WARP_SZ";

/// Judges the names, the labels and every instruction by itself. What comes after relies on it.
pub(crate) fn forms(header: &[String], kernel: &Kernel, report: &mut Report<'_>) {
    names(header, kernel, report);
    labels(kernel, report);
    for (line, inst) in kernel.insts() {
        if let Err(message) = fits(kernel, inst) {
            report.at("D01", line, message);
        }
        parameters(kernel, line, inst, report);
    }
    if kernel.insts().next().is_none() {
        report.declared("D06", "the body is empty; a kernel is at least a `ret`".into());
    }
}

/// Judges the end of the code and the definitions of registers.
pub(crate) fn check(program: &Program<'_>, report: &mut Report<'_>) {
    for (b, block) in program.cfg.blocks.iter().enumerate() {
        if block.falls_off && program.cfg.rank[b].is_some() {
            let last = program.cfg.insts(program.kernel, b).next_back().map_or(block.lines.start, |(l, _)| l);
            report.at("D06", last, "control runs past the last line; end the body with `ret`".into());
        }
    }
    definitions(program, report);
}

fn names(header: &[String], kernel: &Kernel, report: &mut Report<'_>) {
    let comments = kernel.body.iter().filter_map(|l| match l {
        Line::Comment(text) => Some(text.as_str()),
        _ => None,
    });
    for text in header.iter().map(String::as_str).chain(comments) {
        if !text.is_ascii() || text.contains('\n') {
            report.declared("D05", format!("the comment `{}` is not one ASCII line", text.escape_debug()));
        }
    }
    let symbols = kernel.params.iter().map(|p| &p.name).chain([&kernel.name]);
    let mut seen = BTreeSet::new();
    for name in symbols {
        let right = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if name == RESERVED {
            report.declared("D05", format!("`{name}` is a constant of PTX; take another name"));
        } else if !right {
            report.declared("D05", format!("`{name}` is no PTX identifier; letters, digits and `_` make one"));
        }
    }
    // Regions and roles stand in comments only.
    for name in kernel.shared.iter().map(|r| &r.name).chain(kernel.roles.iter().map(|r| &r.name)) {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_graphic()) {
            report.declared("D05", format!("the name `{}` is not one ASCII word", name.escape_debug()));
        }
    }
    for p in &kernel.params {
        if !seen.insert(&p.name) || p.name == Kernel::SHARED_SYMBOL {
            report.declared("D05", format!("the parameter name `{}` stands for two things; rename one", p.name));
        }
    }
}

fn labels(kernel: &Kernel, report: &mut Report<'_>) {
    let mut defined = BTreeSet::new();
    for (line, l) in kernel.body.iter().enumerate() {
        if let Line::Label(label) = l
            && !defined.insert(label)
        {
            report.at("D03", line, format!("the label {label} stands twice; labels are unique in a kernel"));
        }
        if let Line::Label(label) = l
            && taken(kernel, label.name())
        {
            let message = format!("{label} also names the kernel, a parameter or the shared memory; rename the label");
            report.at("D03", line, message);
        }
    }
    for (line, inst) in kernel.insts() {
        for arg in &inst.args {
            if let Operand::Label(label) = arg
                && !defined.contains(label)
            {
                report.at("D03", line, format!("no line is labelled {label}"));
            }
        }
    }
}

/// Whether a label of that name would stand for something else: ptxas looks for no label then.
fn taken(kernel: &Kernel, name: &str) -> bool {
    name == kernel.name || name == RESERVED || name == Kernel::SHARED_SYMBOL || kernel.param(name).is_some()
}

/// Whether the qualifiers and operands are what the row takes.
fn fits(kernel: &Kernel, inst: &Inst) -> Result<(), String> {
    let spec = inst.spec();
    if inst.quals.len() != spec.slots.len() {
        return Err(format!("{} qualifiers where the row has {}", inst.quals.len(), spec.slots.len()));
    }
    for (q, slot) in inst.quals.iter().zip(spec.slots) {
        if !slot.contains(q) {
            return Err(format!("the qualifier `{q}` is none of {}", slot.join(", ")));
        }
    }
    if inst.args.len() != spec.operands.len() {
        return Err(format!("{} operands where the row has {}", inst.args.len(), spec.operands.len()));
    }
    for (o, arg) in spec.operands.iter().zip(&inst.args) {
        operand(kernel, inst, o.kind, arg).map_err(|why| format!("operand `{}`: {why}", o.name))?;
    }
    if inst.quals.contains(&"v4") && inst.quals.contains(&"b64") {
        return Err("a load or store moves 16 bytes at most; use `v2`".into());
    }
    range(inst)
}

fn operand(kernel: &Kernel, inst: &Inst, kind: Kind, arg: &Operand) -> Result<(), String> {
    let spec = inst.spec();
    let typed = spec.typed_class(&inst.quals);
    let is = |class: Option<Class>, immediates: bool| match (arg, class) {
        (Operand::Reg(r), Some(c)) if r.class == c => Ok(()),
        (Operand::Reg(r), Some(c)) => Err(format!("{r} is {} where {} is due", r.class.ptx_type(), c.ptx_type())),
        (Operand::Int(_), Some(c)) if immediates && c != Class::F32 => Ok(()),
        (Operand::Float(_), Some(Class::F32)) if immediates => Ok(()),
        _ => Err(format!("`{arg}` is neither a register nor an immediate that goes here")),
    };
    let vector = |class: Option<Class>, len: Len| match (arg, class, spec.vector_len(len, &inst.quals)) {
        (Operand::Vector(v), Some(c), Some(n)) if v.len() == n && v.iter().all(|r| r.class == c) => Ok(()),
        (Operand::Vector(v), Some(c), Some(n)) => {
            Err(format!("{} registers where {n} of {} are due", v.len(), c.ptx_type()))
        }
        _ => Err(format!("`{arg}` is no vector of registers")),
    };
    match kind {
        Kind::Reg(c) => is(Some(c), false),
        Kind::Src(c) => is(Some(c), true),
        Kind::Typed => is(typed, false),
        Kind::TypedSrc => is(typed, true),
        Kind::Vec(c, len) => vector(Some(c), len),
        Kind::TypedVec(len) => vector(typed, len),
        Kind::At(space) => address(kernel, space, arg),
        Kind::Int => matches!(arg, Operand::Int(_)).then_some(()).ok_or_else(|| "an integer immediate is due".into()),
        Kind::Label => matches!(arg, Operand::Label(_)).then_some(()).ok_or_else(|| "a label is due".into()),
        Kind::Special => matches!(arg, Operand::Special(_)).then_some(()).ok_or_else(|| "a special register".into()),
        Kind::Sink => matches!(arg, Operand::Sink).then_some(()).ok_or_else(|| "`_` is due".into()),
        Kind::Symbol => match (inst.op, arg) {
            (Op::mov_shared, Operand::Symbol(s)) if s != Kernel::SHARED_SYMBOL => {
                Err(format!("`{s}` is not the shared-memory symbol `{}`", Kernel::SHARED_SYMBOL))
            }
            (_, Operand::Symbol(_)) => Ok(()),
            _ => Err("a symbol is due".into()),
        },
        Kind::Tensor => match arg {
            Operand::Tensor { map, coords } => {
                let bad = |c: &&Operand| !matches!(c, Operand::Int(_) | Operand::Reg(Reg { class: Class::B32, .. }));
                match coords.iter().find(bad) {
                    _ if map.class != Class::B64 => Err(format!("{map} cannot hold the map's 64-bit address")),
                    Some(c) => Err(format!("the coordinate `{c}` is no 32-bit register or integer")),
                    None => Ok(()),
                }
            }
            _ => Err("a tensor map with coordinates is due".into()),
        },
    }
}

fn address(kernel: &Kernel, space: Space, arg: &Operand) -> Result<(), String> {
    let Operand::Address(Address { base, .. }) = arg else {
        return Err(format!("`{arg}` is no address"));
    };
    let right = match (space, base) {
        (Space::Shared, Base::Reg(r)) => r.class == Class::B32,
        (Space::Shared, Base::Symbol(s)) => s == Kernel::SHARED_SYMBOL,
        (Space::Global | Space::Generic, Base::Reg(r)) => r.class == Class::B64,
        (Space::Param, Base::Symbol(s)) => kernel.param(s).is_some() || s != Kernel::SHARED_SYMBOL,
        _ => false,
    };
    let due = match space {
        Space::Shared => "a 32-bit register or the shared-memory symbol",
        Space::Global | Space::Generic => "a 64-bit register",
        Space::Param => "a parameter's name",
    };
    right.then_some(()).ok_or_else(|| format!("the address starts from something other than {due}"))
}

/// Immediates that the manual bounds.
fn range(inst: &Inst) -> Result<(), String> {
    for (o, arg) in inst.spec().operands.iter().zip(&inst.args) {
        let Operand::Int(v) = arg else { continue };
        let right = match (inst.op, o.name) {
            (_, "scale_a" | "scale_b") => matches!(v, -1 | 1),
            (_, "trans_a" | "trans_b" | "scale_d" | "parity") => matches!(v, 0 | 1),
            (Op::mbarrier_init | Op::mbarrier_arrive_n, "count") => (1..1 << 20).contains(v),
            (Op::bulk_wait | Op::bulk_wait_read | Op::wgmma_wait, "n") => *v >= 0,
            _ => true,
        };
        if !right {
            return Err(format!("operand `{}`: {v} is out of the manual's range", o.name));
        }
    }
    Ok(())
}

fn parameters(kernel: &Kernel, line: usize, inst: &Inst, report: &mut Report<'_>) {
    let name = inst.args.iter().find_map(|a| match (inst.op, a) {
        (Op::ld_param_b32 | Op::ld_param_b64 | Op::ld_param_f32, Operand::Address(Address { base, .. })) => {
            match base {
                Base::Symbol(s) => Some(s),
                Base::Reg(_) => None,
            }
        }
        (Op::mov_param, Operand::Symbol(s)) => Some(s),
        _ => None,
    });
    let Some(name) = name else { return };
    let Some(param) = kernel.param(name) else {
        report.at("D04", line, format!("the kernel has no parameter `{name}`"));
        return;
    };
    let right = match inst.op {
        Op::ld_param_b32 => param.kind == ParamKind::U32,
        Op::ld_param_b64 => param.kind == ParamKind::U64,
        Op::ld_param_f32 => param.kind == ParamKind::F32,
        _ => true,
    };
    if !right {
        report.at("D04", line, format!("`{name}` is declared with another type than it is loaded with"));
    }
}

/// Registers surely written, and those written only under a guard that still stands.
#[derive(Debug, Clone, PartialEq, Default)]
struct Defined {
    surely: BTreeSet<Reg>,
    under: BTreeMap<Reg, Guard>,
}

struct Definitions<'p, 'a> {
    program: &'p Program<'a>,
    /// Lines of products that may start from zero, so that they need no accumulator.
    starts: BTreeSet<usize>,
}

impl Definitions<'_, '_> {
    fn step(&self, line: usize, inst: &Inst, state: &mut Defined, mut missing: impl FnMut(Reg)) {
        let product = Product::of(inst).filter(|_| self.starts.contains(&line));
        for reg in inst.reads() {
            let held = inst.guard.is_some() && state.under.get(&reg) == inst.guard.as_ref();
            let started = product.as_ref().is_some_and(|p| p.d.contains(&reg));
            if !state.surely.contains(&reg) && !held && !started {
                missing(reg);
            }
        }
        for reg in inst.writes() {
            state.under.retain(|_, g| g.pred.reg() != reg);
            match (inst.guard, state.under.get(&reg)) {
                (Some(g), Some(u)) if u.pred == g.pred && u.negated != g.negated => {
                    state.surely.insert(reg);
                }
                (Some(g), _) if !state.surely.contains(&reg) => {
                    state.under.insert(reg, g);
                }
                _ => {
                    state.surely.insert(reg);
                }
            }
        }
    }
}

impl Analysis for Definitions<'_, '_> {
    type State = Defined;

    fn entry(&self) -> Defined {
        Defined::default()
    }

    fn block(&self, block: usize, state: &mut Defined) {
        for (line, inst) in self.program.cfg.insts(self.program.kernel, block) {
            self.step(line, inst, state, |_| ());
        }
    }

    fn edge(&self, block: usize, edge: usize, state: &Defined) -> Option<Defined> {
        self.program.taken(block, edge).then(|| state.clone())
    }

    fn join(&self, _: usize, _: usize, into: &mut Defined, other: &Defined) {
        into.surely.retain(|r| other.surely.contains(r));
        into.under.retain(|r, g| other.under.get(r) == Some(g));
    }
}

fn definitions(program: &Program<'_>, report: &mut Report<'_>) {
    let mut starts = BTreeSet::new();
    for (_, _, event) in program.events() {
        let Some(position) = program.inst(event.line).and_then(Product::of).and_then(|p| p.position("scale_d")) else {
            continue;
        };
        if event.args[position].uniform_constant() != Some(1) {
            starts.insert(event.line);
        }
    }
    let analysis = Definitions { program, starts };
    for (b, state) in solve(&program.cfg, &analysis).into_iter().enumerate() {
        let Some(mut state) = state else { continue };
        for (line, inst) in program.cfg.insts(program.kernel, b) {
            analysis.step(line, inst, &mut state, |reg| {
                report.at("D02", line, format!("{reg} is read, but some path here writes it nowhere; write it on all"));
            });
        }
    }
}
