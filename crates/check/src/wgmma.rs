//! Rules W01 to W07: registers of warpgroup products. Untouched while in flight, fenced after other code used them,
//! committed before a wait, drained before the end, and one fixed list for each accumulator.
//! (PTX ISA, "wgmma.mma_async", "wgmma.fence", "wgmma.wait_group".)

use std::collections::BTreeSet;

use ptx::{Inst, Op, Reg};

use crate::dataflow::{Analysis, solve};
use crate::finding::Report;
use crate::groups::Groups;
use crate::program::{Product, Program};

/// Groups that a wait can leave in flight: ptxas clamps to it.
const MOST_IN_FLIGHT: i64 = 7;

/// What is known of the products' registers at a point.
#[derive(Debug, Clone, PartialEq, Default)]
struct Flight {
    groups: Groups<Reg>,
    /// Registers that other code touched since the last fence.
    touched: BTreeSet<Reg>,
    /// True once every path has a fence.
    fenced: bool,
}

struct Flights<'p, 'a> {
    program: &'p Program<'a>,
    /// Registers of any product.
    registers: BTreeSet<Reg>,
}

impl Flights<'_, '_> {
    fn step(&self, line: usize, inst: &Inst, state: &mut Flight, mut fault: impl FnMut(&'static str, usize, String)) {
        if let Some(product) = Product::of(inst) {
            let stale = product.d.iter().chain(product.a).find(|r| state.touched.contains(r));
            if !state.fenced {
                fault("W02", line, "no `wgmma.fence` stands before this first product".into());
            } else if let Some(reg) = stale {
                fault(
                    "W02",
                    line,
                    format!("other code used {reg} after the last `wgmma.fence`; put one before the product"),
                );
            }
            product.d.iter().chain(product.a).for_each(|r| state.groups.open(*r));
            return;
        }
        for (what, regs) in [("reads", inst.reads()), ("writes", inst.writes())] {
            for reg in regs.into_iter().filter(|r| self.registers.contains(r)) {
                if state.groups.any(|r| *r == reg) {
                    fault(
                        "W01",
                        line,
                        format!("it {what} {reg} of a product in flight; wait for the product's group first"),
                    );
                }
                state.touched.insert(reg);
            }
        }
        match inst.op {
            Op::wgmma_fence => {
                state.touched.clear();
                state.fenced = true;
            }
            Op::wgmma_commit => {
                if state.groups.uncommitted.is_empty() {
                    fault(
                        "W04",
                        line,
                        "the group is empty, and ptxas puts a dummy product into it; drop the commit".into(),
                    );
                }
                state.groups.commit();
            }
            Op::wgmma_wait => {
                if !state.groups.uncommitted.is_empty() {
                    fault(
                        "W03",
                        line,
                        "products before this wait are in no group, so it does not cover them; commit first".into(),
                    );
                }
                let newest = inst.args.first().and_then(|a| match a {
                    ptx::Operand::Int(n) => u64::try_from(*n).ok(),
                    _ => None,
                });
                state.groups.wait(newest);
            }
            Op::ret if state.groups.any(|_| true) => {
                fault(
                    "W05",
                    line,
                    "a product is still in flight at the end; `wgmma.wait_group 0` on every path".into(),
                );
            }
            _ => {}
        }
    }
}

impl Analysis for Flights<'_, '_> {
    type State = Flight;

    fn entry(&self) -> Flight {
        Flight::default()
    }

    fn block(&self, block: usize, state: &mut Flight) {
        for (line, inst) in self.program.cfg.insts(self.program.kernel, block) {
            self.step(line, inst, state, |_, _, _| ());
        }
    }

    fn edge(&self, block: usize, edge: usize, state: &Flight) -> Option<Flight> {
        self.program.taken(block, edge).then(|| state.clone())
    }

    fn join(&self, _: usize, _: usize, into: &mut Flight, other: &Flight) {
        into.groups.meet(&other.groups);
        into.touched.extend(&other.touched);
        into.fenced &= other.fenced;
    }
}

/// Judges the registers of all products.
pub(crate) fn check(program: &Program<'_>, report: &mut Report<'_>) {
    lists(program, report);
    let mut registers = BTreeSet::new();
    for (line, inst) in program.kernel.insts() {
        if let Some(p) = Product::of(inst) {
            registers.extend(p.d.iter().chain(p.a).copied());
        }
        if inst.op == Op::wgmma_wait
            && let Some(ptx::Operand::Int(n)) = inst.args.first()
            && *n > MOST_IN_FLIGHT
        {
            report.at("W07", line, format!("it would leave {n} groups in flight, and {MOST_IN_FLIGHT} are the most"));
        }
    }
    if registers.is_empty() {
        return;
    }
    let analysis = Flights { program, registers };
    for (b, state) in solve(&program.cfg, &analysis).into_iter().enumerate() {
        let Some(mut state) = state else { continue };
        for (line, inst) in program.cfg.insts(program.kernel, b) {
            analysis.step(line, inst, &mut state, |rule, line, message| report.at(rule, line, message));
        }
    }
}

/// Accumulators are always the same registers in the same order.
fn lists(program: &Program<'_>, report: &mut Report<'_>) {
    let mut known: Vec<&[Reg]> = Vec::new();
    for (line, inst) in program.kernel.insts() {
        let Some(product) = Product::of(inst) else { continue };
        for list in [product.d, product.a] {
            let mut seen = BTreeSet::new();
            if let Some(twice) = list.iter().find(|r| !seen.insert(**r)) {
                report.at("W06", line, format!("{twice} stands twice in one register list"));
            }
        }
        if known.contains(&product.d) {
            continue;
        }
        if let Some(other) = known.iter().find(|k| k.iter().any(|r| product.d.contains(r))) {
            let (first, length) = (other[0], other.len());
            let message = format!(
                "the accumulator shares registers with another list ({length} registers from {first}); \
                 keep one list in one order for each accumulator"
            );
            report.at("W06", line, message);
        }
        known.push(product.d);
    }
}
