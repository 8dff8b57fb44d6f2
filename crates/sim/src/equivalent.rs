//! Mutants that compute the same, told by the text of the kernel alone: each class names what makes it so.
//!
//! PTX ISA, "wgmma.fence": it orders the registers of the products after it with what used them before; "wgmma.wait_group":
//! it waits for groups that are committed, and for nobody else; "bar.arrive": it orders what the thread itself did.

use ptx::{Class, Inst, Line, Op, Operand, Reg};

use crate::mutate::Operator;
use crate::program::is_product;

/// Why the instruction at `line`, spoiled so, changes nothing; `before` is where an earlier one goes.
pub(crate) fn reason(body: &[Line], operator: Operator, line: usize, before: Option<usize>) -> Option<&'static str> {
    let Some(Line::Inst(inst)) = body.get(line) else { return None };
    match (operator, inst.op) {
        (Operator::Edge, Op::setp) if inst.quals.contains(&"f32") => {
            Some("either path of a comparison of singles is right at its border")
        }
        (Operator::DropFence, Op::wgmma_fence) if fenced(body, line) => {
            Some("the fence before it has ordered all registers of its products")
        }
        (Operator::Earlier, op) => earlier(body, op, line, before?),
        _ => None,
    }
}

fn insts(lines: &[Line]) -> impl DoubleEndedIterator<Item = &Inst> {
    lines.iter().filter_map(|line| match line {
        Line::Inst(inst) => Some(inst),
        _ => None,
    })
}

fn earlier(body: &[Line], op: Op, line: usize, before: usize) -> Option<&'static str> {
    let passed: Vec<&Inst> = insts(&body[before..line]).collect();
    match op {
        Op::wgmma_wait if !passed.iter().any(|i| is_product(i) || i.op == Op::wgmma_commit) => {
            Some("it waits for the same products, sooner")
        }
        Op::wgmma_fence if passed.iter().all(|i| !is_product(i) && Group::after(body, line).is_apart_from(i)) => {
            Some("no register of its products is used where it no longer stands")
        }
        Op::tensor_load | Op::tensor_load_hint if announced(&passed, &body[line]) => {
            Some("the phase still waits for the arrival that announces its bytes")
        }
        Op::bar_arrive if matches!(passed[..], [Inst { op: Op::wgmma_commit, .. }]) => {
            Some("whether a product is committed is no other thread's affair")
        }
        _ => None,
    }
}

/// Whether all that a copy passes is the arrival that announces it on the same barrier. What a phase expects may go below
/// nothing in between ("Tracking asynchronous operations by the mbarrier object": the range of tx-count).
fn announced(passed: &[&Inst], load: &Line) -> bool {
    match (passed, load) {
        ([expect], Line::Inst(load)) => {
            expect.op == Op::mbarrier_expect_tx && expect.guard == load.guard && expect.args.get(1) == load.args.get(2)
        }
        _ => false,
    }
}

/// Registers of the products from a line to the commit of their group.
struct Group {
    read: Vec<Reg>,
    written: Vec<Reg>,
}

impl Group {
    fn after(body: &[Line], line: usize) -> Group {
        let products = || insts(&body[line..]).take_while(|i| i.op != Op::wgmma_commit).filter(|i| is_product(i));
        Group { read: products().flat_map(Inst::reads).collect(), written: products().flat_map(Inst::writes).collect() }
    }

    /// Whether the fence need not order these registers after those of an instruction; descriptors are read at issue.
    fn is_apart_from(&self, inst: &Inst) -> bool {
        let free = |r: &Reg| r.class == Class::B64 || !self.read.contains(r) && !self.written.contains(r);
        inst.writes().iter().all(free) && !inst.reads().iter().any(|r| self.written.contains(r))
    }
}

/// Whether every way to a fence leads over another, and no register of its products is used since.
fn fenced(body: &[Line], line: usize) -> bool {
    let group = Group::after(body, line);
    for (at, before) in body[..line].iter().enumerate().rev() {
        match before {
            Line::Inst(i) if i.op == Op::wgmma_fence => return true,
            // A loop that waits leads back to a label that is passed on the way; no other way leads in.
            Line::Label(label) => {
                let leads = |l: &Line| matches!(l, Line::Inst(i) if i.args.contains(&Operand::Label(label.clone())));
                let inside = body[at..line].iter().filter(|l| leads(l)).count();
                if inside != body.iter().filter(|l| leads(l)).count() {
                    return false;
                }
            }
            Line::Begin(_) => return false,
            Line::Inst(i) if !is_product(i) && !group.is_apart_from(i) => return false,
            _ => {}
        }
    }
    false
}
