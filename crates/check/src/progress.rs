//! Rules B09 and B10: the start. Runs all warps together as far as they can come, and names the waits at which they
//! stop for good; and a wait for data that passes before there is any.
//!
//! The run is generous: what a warp can reach, it has done, and an arrival made once serves every wait. What still
//! blocks is blocked in every execution.

use std::collections::{BTreeMap, BTreeSet};

use ptx::{Op, RegionKind};

use crate::finding::Report;
use crate::pairs::Guarded;
use crate::program::Program;
use crate::ring::{Traffic, barrier_operand};
use crate::warp::{Event, WarpRun};

/// What has happened so far.
#[derive(Debug, Default, PartialEq)]
struct Done {
    /// Lines of arrivals that were reached, by warp.
    arrivals: BTreeSet<(u32, usize)>,
    /// Warps that came to a named barrier, by id.
    named: BTreeMap<u64, BTreeSet<u32>>,
}

/// Judges whether everyone gets past the first waits.
pub(crate) fn check(program: &Program<'_>, traffic: &Traffic, report: &mut Report<'_>) {
    let mut done = Done::default();
    loop {
        let mut blocked = BTreeSet::new();
        let before = (done.arrivals.len(), done.named.values().map(BTreeSet::len).sum::<usize>());
        for warp in &program.warps {
            walk(program, warp, traffic, &mut done, &mut blocked);
        }
        if before == (done.arrivals.len(), done.named.values().map(BTreeSet::len).sum::<usize>()) {
            for (line, who) in blocked {
                let message = format!(
                    "{who} never gets past this: whoever is to arrive waits for {who} first; \
                     let one side start (an initial parity of 1, or an arrival before the loop)"
                );
                report.at("B09", line, message);
            }
            return;
        }
    }
}

/// Follows one warp from the entry to the waits that stop it.
fn walk<'p>(
    program: &'p Program<'_>,
    warp: &WarpRun,
    traffic: &Traffic,
    done: &mut Done,
    blocked: &mut BTreeSet<(usize, &'p str)>,
) {
    let mut seen = vec![false; program.cfg.blocks.len()];
    let mut work = vec![0];
    while let Some(b) = work.pop() {
        let Some(run) = warp.blocks.get(b).and_then(Option::as_ref) else { continue };
        if std::mem::replace(&mut seen[b], true) {
            continue;
        }
        let stopped = run.events.iter().find(|event| {
            perform(warp, event, done);
            !passes(program, event, traffic, done)
        });
        match stopped {
            Some(event) => {
                blocked.insert((event.line, program.role_name(warp.warp)));
            }
            None => {
                let next = program.cfg.blocks[b].next.iter().enumerate().filter(|(i, _)| run.taken[*i].is_some());
                work.extend(next.map(|(_, e)| e.to));
            }
        }
    }
}

fn perform(warp: &WarpRun, event: &Event, done: &mut Done) {
    match event.op {
        Op::mbarrier_arrive | Op::mbarrier_arrive_n | Op::mbarrier_expect_tx if event.exec.lanes != 0 => {
            done.arrivals.insert((warp.warp, event.line));
        }
        Op::bar_sync | Op::bar_arrive | Op::bar_sync_all => {
            if let Some(id) = event.constant(0) {
                done.named.entry(id).or_default().insert(warp.warp);
            }
        }
        _ => {}
    }
}

fn passes(program: &Program<'_>, event: &Event, traffic: &Traffic, done: &Done) -> bool {
    match event.op {
        Op::bar_sync | Op::bar_sync_all => {
            let Some(id) = event.constant(0) else { return true };
            let needed = match event.op {
                Op::bar_sync => event.constant(1),
                _ => Some(u64::from(program.kernel.threads)),
            };
            let there = done.named.get(&id).map_or(0, BTreeSet::len) as u64 * 32;
            needed.is_none_or(|n| there >= n)
        }
        Op::mbarrier_try_wait if event.exec.lanes != 0 => {
            // The completed phase before the first has parity 1: a wait for it passes at once.
            if event.first.is_none_or(|parity| parity & 1 == 1) || traffic.blind_arrivals {
                return true;
            }
            let Some(place) = program.place(&event.args[1], event.exec.lanes) else { return true };
            let needed = match program.region(place.region).kind {
                RegionKind::Barriers { arrivals } => arrivals,
                _ => return true,
            };
            place.offsets.iter().any(|o| arrived(*o, traffic, done) >= needed)
        }
        _ => true,
    }
}

/// Threads that have arrived on a barrier, at most.
fn arrived(offset: u32, traffic: &Traffic, done: &Done) -> u32 {
    let reached = traffic.arrivers.get(&offset).into_iter().flatten().filter(|a| done.arrivals.contains(a));
    let warps: BTreeSet<u32> = reached.map(|(w, _)| *w).collect();
    let most = |warp: &u32| {
        let shares = traffic.arrivals.get(&offset).into_iter().flat_map(|b| b.values());
        shares.filter_map(|w| w.get(warp)).sum::<u32>()
    };
    warps.iter().map(most).sum()
}

/// A wait for data must not pass in the first turn: nothing has been copied or written yet.
pub(crate) fn early(program: &Program<'_>, guarded: &BTreeMap<usize, Guarded>, report: &mut Report<'_>) {
    let mut filled: BTreeSet<usize> = guarded.values().map(|g| g.full).collect();
    for (_, _, event) in program.events() {
        if matches!(event.op, Op::tensor_load | Op::tensor_load_hint)
            && let Some(place) = barrier_operand(event.op).and_then(|i| program.place(&event.args[i], event.exec.lanes))
        {
            filled.insert(place.region);
        }
    }
    for warp in &program.warps {
        let mut judged = BTreeSet::new();
        for &b in &program.cfg.order {
            for event in warp.blocks[b].iter().flat_map(|r| &r.events).filter(|e| e.op == Op::mbarrier_try_wait) {
                let Some(place) = program.place(&event.args[1], event.exec.lanes) else { return };
                // Only the first wait in flow order: a later one may rightly look at the next phase.
                if !judged.insert(place.region) || !filled.contains(&place.region) {
                    continue;
                }
                if event.first.is_some_and(|parity| parity & 1 == 1) {
                    let message = "the first wait for the data looks at parity 1 and passes at once; start at 0";
                    report.region("B10", &program.region(place.region).name, Some(event.line), message.into());
                }
            }
        }
    }
}
