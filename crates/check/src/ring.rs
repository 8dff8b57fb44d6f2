//! Rules B01 to B05, B08 and B13: barriers in shared memory. Initialised once and published, waited for in loops that
//! look at changing phases, and completed by as many arrivals as they were initialised with. (PTX ISA, "mbarrier".)

use std::collections::{BTreeMap, BTreeSet};

use ptx::{Op, Operand, RegionKind};

use crate::dataflow::{Analysis, solve};
use crate::finding::Report;
use crate::program::Program;
use crate::value::Mask;
use crate::warp::{Event, WarpRun};

/// Arrivals of the warps on one barrier: by block, by warp, the threads that arrive.
pub(crate) type Arrivals = BTreeMap<usize, BTreeMap<u32, u32>>;

/// Who does what to each barrier, by its byte offset.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub arrivals: BTreeMap<u32, Arrivals>,
    /// Lines that arrive on it, by warp.
    pub arrivers: BTreeMap<u32, BTreeSet<(u32, usize)>>,
    /// Lines that wait for it, by warp.
    pub waiters: BTreeMap<u32, BTreeSet<(u32, usize)>>,
    /// True if some arrival could not be attributed or counted.
    pub blind_arrivals: bool,
    /// True if some wait could not be attributed.
    pub blind_waits: bool,
    /// Barriers with an arrival whose number of threads is not known.
    pub uncounted: BTreeSet<u32>,
}

/// The count of arrivals that one thread makes by an instruction; none if it makes none.
pub(crate) fn arrival_count(event: &Event) -> Option<u32> {
    match event.op {
        Op::mbarrier_arrive | Op::mbarrier_expect_tx => Some(1),
        Op::mbarrier_arrive_n => event.constant(2).and_then(|n| u32::try_from(n).ok()),
        _ => None,
    }
}

/// Which barrier an event names by its address: position of the operand.
pub(crate) fn barrier_operand(op: Op) -> Option<usize> {
    match op {
        Op::mbarrier_init => Some(0),
        Op::mbarrier_arrive | Op::mbarrier_arrive_n | Op::mbarrier_expect_tx | Op::mbarrier_try_wait => Some(1),
        Op::tensor_load | Op::tensor_load_hint => Some(2),
        _ => None,
    }
}

/// Collects the traffic of all warps.
pub(crate) fn traffic(program: &Program<'_>) -> Traffic {
    let mut out = Traffic::default();
    for warp in &program.warps {
        for (b, block) in warp.blocks.iter().enumerate() {
            // Arrivals of one block on the same address add up; on another address they are another phase's.
            let mut groups: BTreeMap<(String, Option<usize>), (Vec<u32>, u32)> = BTreeMap::new();
            for event in block.iter().flat_map(|b| &b.events).filter(|e| e.exec.lanes != 0) {
                let Some(operand) = barrier_operand(event.op) else { continue };
                let place = program.place(&event.args[operand], event.exec.lanes);
                if event.op == Op::mbarrier_try_wait {
                    out.blind_waits |= place.is_none();
                    for offset in place.iter().flat_map(|p| &p.offsets) {
                        out.waiters.entry(*offset).or_default().insert((warp.warp, event.line));
                    }
                }
                let Some(count) = arrival_count(event) else { continue };
                let Some(place) = place else {
                    out.blind_arrivals = true;
                    continue;
                };
                for offset in &place.offsets {
                    out.arrivers.entry(*offset).or_default().insert((warp.warp, event.line));
                    if !event.exec.whole || warp.divergent[b] {
                        out.uncounted.insert(*offset);
                    }
                }
                let text = program.inst(event.line).map(|i| i.args[operand].to_string()).unwrap_or_default();
                let group = groups.entry((text, event.based)).or_insert((place.offsets, 0));
                group.1 += count * event.threads();
            }
            for (offsets, threads) in groups.into_values() {
                for offset in offsets {
                    let seen =
                        out.arrivals.entry(offset).or_default().entry(b).or_default().entry(warp.warp).or_default();
                    *seen = (*seen).max(threads);
                }
            }
        }
    }
    out
}

/// Judges initialisation, pairing, counts and phases.
pub(crate) fn check(program: &Program<'_>, traffic: &Traffic, report: &mut Report<'_>) {
    let mut published = true;
    for region in &program.kernel.shared {
        let RegionKind::Barriers { arrivals } = region.kind else { continue };
        let step = region.stage_bytes().max(8) as usize;
        for offset in (region.offset..region.end()).step_by(step) {
            published &= initialised(program, &region.name, offset, arrivals, report);
            paired(traffic, &region.name, offset, report);
            counted(traffic, &region.name, offset, arrivals, report);
        }
    }
    if published {
        publication(program, report);
    }
    waits(program, report);
}

/// Exactly one thread initialises the barrier, with the declared count.
fn initialised(program: &Program<'_>, region: &str, offset: u32, arrivals: u32, report: &mut Report<'_>) -> bool {
    let mut threads = 0;
    let mut line = None;
    for (_, _, event) in program.events().filter(|(_, _, e)| e.op == Op::mbarrier_init) {
        let Some(place) = program.place(&event.args[0], event.exec.lanes) else { return false };
        if !place.offsets.contains(&offset) {
            continue;
        }
        threads += event.threads();
        line = Some(event.line);
        if let Some(count) = event.constant(1).filter(|c| *c != u64::from(arrivals)) {
            let message = format!("it is initialised with {count} arrivals, the region declares {arrivals}");
            report.region("B01", region, line, message);
        }
    }
    match threads {
        1 => {}
        0 => report.region("B01", region, None, format!("no thread initialises the barrier at byte {offset}")),
        n => report.region(
            "B01",
            region,
            line,
            format!("{n} threads initialise the barrier at byte {offset}; one is to"),
        ),
    }
    threads == 1
}

/// A wait has an arrival, an arrival has a wait.
fn paired(traffic: &Traffic, region: &str, offset: u32, report: &mut Report<'_>) {
    let waiter = traffic.waiters.get(&offset).and_then(|w| w.first());
    let arriver = traffic.arrivers.get(&offset).and_then(|w| w.first());
    match (waiter, arriver) {
        (Some((_, line)), None) if !traffic.blind_arrivals => {
            report.region(
                "B03",
                region,
                Some(*line),
                "nothing ever arrives on this barrier; the wait never ends".into(),
            );
        }
        (None, Some((_, line))) if !traffic.blind_waits => {
            report.region(
                "B04",
                region,
                Some(*line),
                "nothing ever waits for this barrier; drop it or wait for it".into(),
            );
        }
        _ => {}
    }
}

/// The arrivals of a phase are the declared ones: every place in the code where all warps of a group arrive together
/// makes up the whole count, or every warp always brings the same share.
fn counted(traffic: &Traffic, region: &str, offset: u32, arrivals: u32, report: &mut Report<'_>) {
    let Some(blocks) = traffic.arrivals.get(&offset) else { return };
    if traffic.blind_arrivals || traffic.uncounted.contains(&offset) {
        return;
    }
    let whole = blocks.values().all(|warps| warps.values().sum::<u32>() == arrivals);
    let mut shares: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (warp, share) in blocks.values().flatten() {
        shares.entry(*warp).or_default().insert(*share);
    }
    let steady = shares.values().all(|s| s.len() == 1);
    let total: u32 = shares.values().filter_map(|s| s.last()).sum();
    if whole || steady && total == arrivals {
        return;
    }
    let line = traffic.arrivers.get(&offset).and_then(|a| a.first()).map(|(_, l)| *l);
    let message = format!(
        "{} arrive in a phase, but {arrivals} complete it; make the declared count and the arriving threads agree",
        if total == 1 { "1 thread".into() } else { format!("{total} threads") }
    );
    report.region("B05", region, line, message);
}

/// How far a warp is with the barriers that it initialised.
#[derive(Debug, Clone, PartialEq)]
struct Prologue {
    lanes: Mask,
    /// Line of an initialisation that no fence followed.
    unfenced: Option<usize>,
    /// True once the whole CTA has met.
    met: bool,
}

struct Publication<'p, 'a> {
    program: &'p Program<'a>,
    warp: &'p WarpRun,
}

impl Publication<'_, '_> {
    fn step(&self, event: &Event, state: &mut Prologue, mut fault: impl FnMut(usize, &str)) {
        let everyone = event.op == Op::bar_sync_all
            || event.op == Op::bar_sync && event.constant(1) == Some(u64::from(self.program.kernel.threads));
        match event.op {
            Op::mbarrier_init => state.unfenced = Some(event.line),
            Op::fence_mbarrier_init => state.unfenced = None,
            _ if everyone => {
                if let Some(line) = state.unfenced.take() {
                    fault(line, "the CTA meets before `fence.mbarrier_init`; put the fence after the last init");
                }
                state.met = true;
            }
            op if barrier_operand(op).is_some() && !state.met => {
                fault(
                    event.line,
                    "a barrier is used before the CTA has met after its initialisation; `bar.sync 0` first",
                );
            }
            _ => {}
        }
    }
}

impl Analysis for Publication<'_, '_> {
    type State = Prologue;

    fn entry(&self) -> Prologue {
        Prologue { lanes: Mask::MAX, unfenced: None, met: false }
    }

    fn block(&self, block: usize, state: &mut Prologue) {
        for event in self.warp.blocks[block].iter().flat_map(|b| &b.events) {
            self.step(event, state, |_, _| ());
        }
    }

    fn edge(&self, block: usize, edge: usize, state: &Prologue) -> Option<Prologue> {
        let lanes = self.warp.blocks[block].as_ref()?.taken[edge]?;
        Some(Prologue { lanes, ..state.clone() })
    }

    fn join(&self, _: usize, _: usize, into: &mut Prologue, other: &Prologue) {
        into.unfenced = into.unfenced.or(other.unfenced);
        into.met &= other.met;
        into.lanes |= other.lanes;
    }
}

fn publication(program: &Program<'_>, report: &mut Report<'_>) {
    for warp in &program.warps {
        let analysis = Publication { program, warp };
        for (b, state) in solve(&program.cfg, &analysis).into_iter().enumerate() {
            let (Some(mut state), Some(run)) = (state, &warp.blocks[b]) else { continue };
            for event in &run.events {
                analysis.step(event, &mut state, |line, message| report.at("B02", line, message.into()));
            }
        }
    }
}

/// Waits loop until they pass, and look at another parity the next time.
fn waits(program: &Program<'_>, report: &mut Report<'_>) {
    for warp in &program.warps {
        // Parities by region, over the waits that are run again.
        let mut again: BTreeMap<usize, (BTreeSet<u64>, usize)> = BTreeMap::new();
        let mut unclear = BTreeSet::new();
        for (b, event) in warp.events().filter(|(_, e)| e.op == Op::mbarrier_try_wait) {
            let open = |x: usize, e: usize| warp.takes(x, e);
            let Some(pass) = program.passing_edge(b, event) else {
                report.at(
                    "B13",
                    event.line,
                    "the wait may time out and nothing tries again; loop on its predicate".into(),
                );
                continue;
            };
            let next = &program.cfg.blocks[b].next;
            let retries =
                next.iter().enumerate().filter(|(i, _)| *i != pass).all(|(_, e)| spins(program, warp, e.to, b));
            if !retries {
                report.at("B13", event.line, "where the wait has not passed, control does not return to it".into());
            }
            let Some(place) = program.place(&event.args[1], event.exec.lanes) else { continue };
            if !program.cfg.reachable(next[pass].to, open)[b] {
                continue;
            }
            match event.args[2].possible(event.exec.lanes) {
                Some(parities) => {
                    let seen = again.entry(place.region).or_insert((BTreeSet::new(), event.line));
                    seen.0.extend(parities.into_iter().map(|p| p & 1));
                }
                None => {
                    unclear.insert(place.region);
                }
            }
        }
        for (region, (parities, line)) in again {
            if parities.len() == 1 && !unclear.contains(&region) {
                let message = "the wait is run again with the same parity; flip the parity when the ring wraps".into();
                report.region("B08", &program.region(region).name, Some(line), message);
            }
        }
    }
}

/// True if from `block` control only comes back to the wait in `wait`.
fn spins(program: &Program<'_>, warp: &WarpRun, block: usize, wait: usize) -> bool {
    let mut at = block;
    for _ in 0..8 {
        if at == wait {
            return true;
        }
        let plain =
            program.cfg.insts(program.kernel, at).all(|(_, i)| matches!(i.args.first(), Some(Operand::Label(_))));
        match &program.cfg.blocks[at].next[..] {
            [only] if plain && warp.takes(at, 0) => at = only.to,
            _ => return false,
        }
    }
    false
}
