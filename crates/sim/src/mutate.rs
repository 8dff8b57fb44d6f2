//! Mutants: a kernel with one synchronising instruction dropped, weakened or moved. What neither the verifier nor the
//! machine rejects shows a rule that is missing, or is equivalent. Changes the IR; runs and judges nothing.

use std::fmt;

use ptx::qual::Qual;
use ptx::{Inst, Kernel, Line, Op, Operand};

use crate::equivalent::reason;

/// How a kernel is spoiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operator {
    /// A fence is dropped.
    DropFence,
    /// A wait or a meeting of threads is dropped.
    DropWait,
    /// A loop around a wait is not repeated.
    DropRetry,
    /// An arrival, an initialisation or a commit is dropped.
    DropArrive,
    /// A copy is dropped.
    DropCopy,
    /// A load no longer acquires, a store no longer releases.
    Weaken,
    /// A wait leaves one group more in flight.
    Depth,
    /// A barrier's count, or the threads of a named one, is one arrival (or warp) off.
    Count,
    /// A phase expects 16 bytes more or less.
    Bytes,
    /// A barrier of another stage, or another named barrier.
    Stage,
    /// The instruction comes before the synchronising one ahead of it.
    Earlier,
    /// A comparison takes in one number more or less.
    Edge,
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::DropFence => "drop a fence",
            Operator::DropWait => "drop a wait",
            Operator::DropRetry => "wait only once",
            Operator::DropArrive => "drop an arrival",
            Operator::DropCopy => "drop a copy",
            Operator::Weaken => "drop an order",
            Operator::Depth => "wait for less",
            Operator::Count => "wrong count",
            Operator::Bytes => "wrong bytes",
            Operator::Stage => "wrong barrier",
            Operator::Earlier => "too early",
            Operator::Edge => "off by one",
        })
    }
}

/// A spoiled kernel.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// How.
    pub operator: Operator,
    /// The line of the body that was spoiled.
    pub line: usize,
    /// Its text before.
    pub was: String,
    /// The kernel.
    pub kernel: Kernel,
    /// Why it computes the same as the kernel that it comes from, where that can be told.
    pub equivalent: Option<&'static str>,
}

/// What dropping an instruction is called; none: it does not synchronise.
fn drops(op: Op) -> Option<Operator> {
    Some(match op {
        Op::fence_proxy_async | Op::fence_mbarrier_init | Op::fence_gpu | Op::wgmma_fence => Operator::DropFence,
        Op::bar_sync | Op::bar_sync_all | Op::bar_warp_sync | Op::wgmma_wait | Op::bulk_wait | Op::bulk_wait_read => {
            Operator::DropWait
        }
        Op::bar_arrive
        | Op::mbarrier_init
        | Op::mbarrier_arrive
        | Op::mbarrier_arrive_n
        | Op::mbarrier_expect_tx
        | Op::st_release
        | Op::wgmma_commit
        | Op::bulk_commit => Operator::DropArrive,
        Op::tensor_load | Op::tensor_load_hint | Op::tensor_store => Operator::DropCopy,
        _ => return None,
    })
}

/// The position of a number among the operands, and what is added to it.
fn numbers(op: Op) -> &'static [(Operator, usize, i64)] {
    match op {
        Op::wgmma_wait | Op::bulk_wait | Op::bulk_wait_read => &[(Operator::Depth, 0, 1)],
        Op::mbarrier_init => &[(Operator::Count, 1, -1), (Operator::Count, 1, 1)],
        Op::mbarrier_arrive_n => &[(Operator::Count, 2, -1), (Operator::Count, 2, 1)],
        Op::mbarrier_expect_tx => &[(Operator::Bytes, 2, -16), (Operator::Bytes, 2, 16)],
        Op::bar_sync | Op::bar_arrive => {
            &[(Operator::Count, 1, -32), (Operator::Count, 1, 32), (Operator::Stage, 0, 1)]
        }
        _ => &[],
    }
}

fn changed(inst: &Inst, at: usize, by: i64) -> Option<Inst> {
    let mut inst = inst.clone();
    match inst.args.get_mut(at)? {
        Operand::Int(n) if *n + by > 0 => *n += by,
        Operand::Address(a) => a.offset += i32::try_from(by).ok()?,
        _ => return None,
    }
    Some(inst)
}

/// A comparison that takes in its border, or no longer does.
fn moved_edge(inst: &Inst) -> Option<Inst> {
    let other = match *inst.quals.first()? {
        "le" => "lt",
        "lt" => "le",
        "ge" => "gt",
        "gt" => "ge",
        _ => return None,
    };
    let mut inst = inst.clone();
    inst.quals[0] = other;
    Some(inst)
}

/// The same access without the order that it makes.
fn weaker(inst: &Inst) -> Option<Inst> {
    let op = match inst.op {
        Op::ld_acquire => Op::ld_global,
        Op::st_release => Op::st_global,
        _ => return None,
    };
    Some(Inst { op, quals: vec![ptx::qual::Value::B32.token()], ..inst.clone() })
}

/// Every mutant of a kernel, by line.
pub fn mutants(kernel: &Kernel) -> Vec<Mutant> {
    let mut out = Vec::new();
    let mut last: Option<(usize, Op)> = None;
    let mut waits = false;
    for (line, inst) in kernel.insts() {
        let ahead = last.map(|(before, _)| before);
        let mut add = |operator, spoil: &dyn Fn(&mut Vec<Line>)| {
            let equivalent = reason(&kernel.body, operator, line, ahead);
            let mut kernel = kernel.clone();
            spoil(&mut kernel.body);
            out.push(Mutant { operator, line, was: inst.to_string(), kernel, equivalent });
        };
        let dropped = |body: &mut Vec<Line>| body[line] = Line::Comment(String::new());
        if let Some(operator) = drops(inst.op) {
            add(operator, &dropped);
            // Only within a straight run, so that the move crosses no branch; and not past its like, which changes nothing.
            if let Some((before, op)) = last
                && op != inst.op
            {
                add(Operator::Earlier, &|body| {
                    let moved = body.remove(line);
                    body.insert(before, moved);
                });
            }
            last = Some((line, inst.op));
        }
        if inst.op == Op::bra && waits {
            add(Operator::DropRetry, &dropped);
        }
        waits = inst.op == Op::mbarrier_try_wait;
        for &(operator, at, by) in numbers(inst.op) {
            if let Some(inst) = changed(inst, at, by) {
                add(operator, &|body| body[line] = Line::Inst(inst.clone()));
            }
        }
        if let Some(inst) = weaker(inst) {
            add(Operator::Weaken, &|body| body[line] = Line::Inst(inst.clone()));
        }
        let barrier = [Op::mbarrier_arrive, Op::mbarrier_arrive_n, Op::mbarrier_expect_tx, Op::mbarrier_try_wait];
        if barrier.contains(&inst.op)
            && let Some(inst) = changed(inst, 1, 8)
        {
            add(Operator::Stage, &|body| body[line] = Line::Inst(inst.clone()));
        }
        if inst.op == Op::setp
            && let Some(inst) = moved_edge(inst)
        {
            add(Operator::Edge, &|body| body[line] = Line::Inst(inst.clone()));
        }
        let branches = matches!(inst.op, Op::bra | Op::ret);
        let labelled = matches!(kernel.body.get(line + 1), Some(Line::Label(_) | Line::Begin(_)));
        if branches || labelled {
            last = None;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_dropped() {
        let text = "{\n ld.acquire.gpu.global.u32 %r0, [%rd0];\n st.release.gpu.global.u32 [%rd0], %r0;\n ret;\n}\n";
        let kernel = ptx::parse::module(text).expect("a body").kernel;
        let of = |m: &Mutant| match &m.kernel.body[m.line] {
            Line::Inst(inst) => inst.to_string(),
            _ => String::new(),
        };
        let found: Vec<(Operator, String)> = mutants(&kernel).iter().map(|m| (m.operator, of(m))).collect();
        let (load, store) = ("ld.global.b32 %r0, [%rd0];", "st.global.b32 [%rd0], %r0;");
        use Operator::{DropArrive, Weaken};
        assert_eq!(found, [(Weaken, load.into()), (DropArrive, String::new()), (Weaken, store.into())]);
    }

    #[test]
    fn an_instruction_is_dropped_weakened_and_moved() {
        let text = "{\n wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 1;\n ret;\n}\n";
        let kernel = ptx::parse::module(text).expect("a body").kernel;
        let found: Vec<(Operator, usize)> = mutants(&kernel).iter().map(|m| (m.operator, m.line)).collect();
        use Operator::{Depth, DropArrive, DropWait, Earlier};
        assert_eq!(found, [(DropArrive, 0), (DropWait, 1), (Earlier, 1), (Depth, 1)]);
    }
}
