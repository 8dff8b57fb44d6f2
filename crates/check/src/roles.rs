//! Rules R: roles and registers. Roles are whole warpgroups, `setmaxnreg` asks for what the pool has, and products fit
//! the registers that the kernel enters with. (PTX ISA, "setmaxnreg"; the bounds of C7602 are measured with ptxas.)

use std::collections::{BTreeMap, BTreeSet};

use ptx::{Kernel, Op, Operand};
use schedule::HOPPER;

use crate::finding::Report;
use crate::program::{Product, Program};

/// Registers of an SM.
const POOL: u32 = HOPPER.registers;
/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;

/// Registers that a thread can have at entry: what `.maxntid` and `.minnctapersm` leave.
fn cap(kernel: &Kernel) -> u32 {
    let threads = kernel.threads.clamp(1, HOPPER.threads_per_block).div_ceil(WARPGROUP) * WARPGROUP;
    let share = POOL / threads / kernel.min_ctas.max(1);
    if share > 255 { 255 } else { share / 8 * 8 }
}

/// Registers that each thread has at entry: ptxas takes the cap, or what the largest `inc` asks for if that is less.
fn entry_registers(kernel: &Kernel) -> u32 {
    let raised = kernel.insts().filter(|(_, i)| i.op == Op::setmaxnreg && i.quals.contains(&"inc"));
    let asked = raised.filter_map(|(_, i)| match i.args.first() {
        Some(Operand::Int(n)) => u32::try_from(*n).ok(),
        _ => None,
    });
    cap(kernel).min(asked.max().unwrap_or(u32::MAX))
}

/// Judges the table of roles, the register counts and the products' needs.
pub(crate) fn check(program: &Program<'_>, report: &mut Report<'_>) {
    let kernel = program.kernel;
    declared(kernel, report);
    let asked = asked(program, report);
    pool(program, &asked, report);
    agreement(program, &asked, report);
    let entry = cap(kernel);
    for (line, inst) in kernel.insts() {
        let Some(product) = Product::of(inst) else { continue };
        let need = product.columns() / 2 + if product.a.is_empty() { 26 } else { 30 };
        if need > entry {
            let message = format!(
                "with {} columns it needs {need} registers, and {} threads enter with {entry}: C7602; use fewer columns or threads",
                product.columns(),
                kernel.threads
            );
            report.at("R05", line, message);
        }
    }
}

fn declared(kernel: &Kernel, report: &mut Report<'_>) {
    if !(1..=1024).contains(&kernel.threads) || !kernel.threads.is_multiple_of(32) {
        report.declared("R01", format!("{} threads; a CTA has whole warps, 1024 threads at most", kernel.threads));
    }
    if kernel.min_ctas == 0 {
        report.declared("R01", "`.minnctapersm 0`; without at least 1, ptxas drops `setmaxnreg` (C7508)".into());
    }
    let mut owner: BTreeMap<u32, &str> = BTreeMap::new();
    for role in &kernel.roles {
        let w = &role.warps;
        if w.is_empty() || !w.start.is_multiple_of(4) || !w.end.is_multiple_of(4) {
            report.declared(
                "R01",
                format!("role {} has warps {}..{}; a role is whole warpgroups of 4", role.name, w.start, w.end),
            );
        }
        for warp in w.clone().take(64) {
            if let Some(other) = owner.insert(warp, &role.name) {
                report.declared("R01", format!("warp {warp} belongs to {other} and to {}", role.name));
            }
        }
    }
    let warps: BTreeSet<u32> = (0..kernel.threads.min(1024).div_ceil(32)).collect();
    let missing = warps.iter().find(|w| !owner.contains_key(w));
    let beyond = owner.keys().find(|w| !warps.contains(w));
    if let (Some(warp), false) = (missing, kernel.roles.is_empty()) {
        report.declared("R01", format!("warp {warp} has no role; every warp of the CTA has one"));
    }
    if let Some(warp) = beyond {
        report.declared("R01", format!("warp {warp} is none of the CTA's {}", warps.len()));
    }
}

/// What each warp asks for: lines and counts, in flow order.
fn asked(program: &Program<'_>, report: &mut Report<'_>) -> BTreeMap<u32, Vec<(usize, u32)>> {
    let entry = entry_registers(program.kernel);
    let mut out: BTreeMap<u32, Vec<(usize, u32)>> = BTreeMap::new();
    for warp in &program.warps {
        for &b in &program.cfg.order {
            for event in warp.blocks[b].iter().flat_map(|r| &r.events).filter(|e| e.op == Op::setmaxnreg) {
                let Some(count) = event.constant(0).and_then(|n| u32::try_from(n).ok()) else { continue };
                out.entry(warp.warp).or_default().push((event.line, count));
                let grows = program.inst(event.line).is_some_and(|i| i.quals.contains(&"inc"));
                if !(24..=256).contains(&count) || !count.is_multiple_of(8) {
                    report.at(
                        "R03",
                        event.line,
                        format!("{count} registers; a multiple of 8 from 24 to 256 can be asked for"),
                    );
                } else if grows && count < entry || !grows && count > entry {
                    let (does, other) = if grows { ("raises", "dec") } else { ("lowers", "inc") };
                    report.at(
                        "R03",
                        event.line,
                        format!("it {does} the count to {count}, but threads enter with {entry}; use `{other}`"),
                    );
                }
            }
        }
    }
    for first in (0..program.warps.len() as u32).step_by(4) {
        let group = first..first + 4;
        let lines: BTreeSet<usize> = group.clone().filter_map(|w| out.get(&w)).flatten().map(|(l, _)| *l).collect();
        for line in lines {
            let few = group.clone().filter(|w| out.get(w).is_some_and(|a| a.iter().any(|(l, _)| *l == line))).count();
            if few != 4 {
                report.at(
                    "R04",
                    line,
                    format!("{few} warps of a warpgroup execute it; all 4 must, so put it before they part"),
                );
            }
        }
    }
    out
}

fn pool(program: &Program<'_>, asked: &BTreeMap<u32, Vec<(usize, u32)>>, report: &mut Report<'_>) {
    let entry = entry_registers(program.kernel);
    let groups = program.warps.len().div_ceil(4) as u32;
    let count = |group: u32| asked.get(&(group * 4)).and_then(|a| a.last()).map_or(entry, |(_, n)| *n);
    let sum: u32 = (0..groups).map(count).sum();
    if sum > groups * entry {
        let each: Vec<String> = (0..groups).map(|g| count(g).to_string()).collect();
        let message = format!(
            "the warpgroups ask for {} = {sum} registers a thread, the pool has {groups} x {entry} = {}; the kernel hangs",
            each.join(" + "),
            groups * entry
        );
        report.declared("R02", message);
    }
}

/// What a role declares is what its warps ask for.
fn agreement(program: &Program<'_>, asked: &BTreeMap<u32, Vec<(usize, u32)>>, report: &mut Report<'_>) {
    for role in &program.kernel.roles {
        for warp in role.warps.clone().take(32) {
            let last = asked.get(&warp).and_then(|a| a.last());
            let code = last.map(|(_, n)| *n);
            // Warps that are missing from a whole warpgroup are reported as such.
            let whole = (warp / 4 * 4..warp / 4 * 4 + 4).all(|w| asked.contains_key(&w) == last.is_some());
            if code != role.registers && whole {
                let say = |n: Option<u32>| n.map_or("none".to_owned(), |n| n.to_string());
                let message = format!(
                    "role {} declares {} registers, its code asks for {}",
                    role.name,
                    say(role.registers),
                    say(code)
                );
                match last {
                    Some((line, _)) => report.at("R06", *line, message),
                    None => report.declared("R06", message),
                }
            }
        }
    }
}
