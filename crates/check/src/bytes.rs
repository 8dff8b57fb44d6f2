//! Rules B06 and B07: transaction bytes. What a phase expects is what the copies into it bring, on every path.
//! (PTX ISA, "Tracking asynchronous operations by mbarrier".)

use std::collections::{BTreeMap, BTreeSet};

use ptx::{Op, ParamKind};

use crate::dataflow::{Analysis, solve};
use crate::finding::Report;
use crate::pairs::Guarded;
use crate::program::Program;
use crate::value::Value;
use crate::warp::{Event, WarpRun};

/// Bytes of a phase are below this (PTX ISA, "tx-count").
const MOST_BYTES: i64 = 1 << 20;

/// Sums that are followed for one region; a loop over boxes makes more.
const MOST_SUMS: usize = 6;

/// What a warp may have announced on the barriers of a region and not yet copied: sums in bytes with the line that
/// they come from, negative where copies were not announced. None: not known, and nothing is said.
type Open = Option<BTreeMap<i64, usize>>;

struct Bytes<'p, 'a> {
    program: &'p Program<'a>,
    warp: &'p WarpRun,
    /// Regions whose traffic this warp makes alone, so that its sums are the whole.
    mine: BTreeSet<usize>,
    guarded: &'p BTreeMap<usize, Guarded>,
    /// Loops, by header, that copy into a region's barriers and announce nothing: each turn is a part of one fill, so
    /// the sums are not followed.
    parts: BTreeSet<(usize, usize)>,
}

/// The tensor map that a copy's operand names.
pub(crate) fn map_of<'a>(program: &Program<'a>, value: &Value) -> Option<&'a ptx::TensorMap> {
    match value {
        Value::Param { index, .. } => match &program.kernel.params[*index].kind {
            // Boxes that cannot be encoded have no byte count either.
            ParamKind::Tensor(map) => {
                map.box_dims.iter().try_fold(1u32, |n, d| n.checked_mul(*d)).filter(|n| *n < 1 << 24).map(|_| map)
            }
            _ => None,
        },
        _ => None,
    }
}

impl Bytes<'_, '_> {
    fn step(&self, event: &Event, state: &mut BTreeMap<usize, Open>, mut fault: impl FnMut(usize, usize, String)) {
        let (announced, barrier) = match event.op {
            Op::mbarrier_expect_tx => (true, 1),
            Op::tensor_load | Op::tensor_load_hint => (false, 2),
            Op::ret => {
                let regions: Vec<usize> = state.keys().copied().collect();
                regions.into_iter().for_each(|r| settle(state, r, &mut fault));
                return;
            }
            Op::mbarrier_try_wait => {
                // The stage is about to be filled again: what the last fill announced has been copied.
                let empty = self.program.place(&event.args[1], event.exec.lanes).map(|p| p.region);
                let full = self.guarded.values().filter(|g| empty.is_some() && g.empty == empty).map(|g| g.full);
                full.for_each(|f| settle(state, f, &mut fault));
                return;
            }
            _ => return,
        };
        let Some(place) = self.program.place(&event.args[barrier], event.exec.lanes) else { return };
        if !self.mine.contains(&place.region) || event.exec.lanes == 0 {
            return;
        }
        let each = match announced {
            true => event.constant(2).map(|b| b as i64),
            false => map_of(self.program, &event.args[1]).map(|m| i64::from(m.box_bytes())),
        };
        let Some(bytes) = each.map(|b| b * i64::from(event.threads())).filter(|_| event.exec.certain) else {
            state.insert(place.region, None);
            return;
        };
        if announced && bytes >= MOST_BYTES {
            fault(
                place.region,
                event.line,
                format!("{bytes} bytes are announced; a phase holds less than {MOST_BYTES}"),
            );
        }
        let open = state.entry(place.region).or_insert_with(|| Some(BTreeMap::from([(0, event.line)])));
        let added = if announced { bytes } else { -bytes };
        if let Some(sums) = open {
            let moved = std::mem::take(sums);
            sums.extend(
                moved.into_iter().map(|(n, line)| (n + added, if announced || n == 0 { event.line } else { line })),
            );
        }
    }
}

/// Says what is still open on a region's barriers, and forgets it.
fn settle(state: &mut BTreeMap<usize, Open>, region: usize, fault: &mut impl FnMut(usize, usize, String)) {
    let Some(Some(sums)) = state.get(&region) else { return };
    for (n, line) in sums.iter().filter(|(n, _)| **n != 0) {
        let message = match *n > 0 {
            true => format!("{n} bytes more are announced than the copies bring; the phase never completes"),
            false => format!("the copies bring {} bytes more than are announced; the phase ends too early", -n),
        };
        fault(region, *line, message);
    }
    state.remove(&region);
}

impl Analysis for Bytes<'_, '_> {
    type State = BTreeMap<usize, Open>;

    fn entry(&self) -> Self::State {
        BTreeMap::new()
    }

    fn block(&self, block: usize, state: &mut Self::State) {
        for event in self.warp.blocks[block].iter().flat_map(|b| &b.events) {
            self.step(event, state, |_, _, _| ());
        }
    }

    fn edge(&self, block: usize, edge: usize, state: &Self::State) -> Option<Self::State> {
        let taken = self.warp.blocks[block].as_ref()?.taken[edge]?;
        // Lanes that do not copy carry no account of it.
        let copies = self.warp.events().any(|(_, e)| e.op == Op::mbarrier_expect_tx && e.exec.lanes & taken != 0);
        Some(if copies { state.clone() } else { BTreeMap::new() })
    }

    fn join(&self, block: usize, _: usize, into: &mut Self::State, other: &Self::State) {
        let settled = || Some(BTreeMap::from([(0, 0)]));
        let regions: BTreeSet<usize> = into.keys().chain(other.keys()).copied().collect();
        for region in regions {
            let a = into.get(&region).cloned().unwrap_or_else(settled);
            let b = other.get(&region).cloned().unwrap_or_else(settled);
            let met = match (a, b) {
                (Some(a), Some(b)) if a.keys().eq(b.keys()) => Some(a),
                (Some(_), Some(_)) if self.parts.contains(&(block, region)) => None,
                (Some(mut a), Some(b)) => {
                    b.into_iter().for_each(|(n, line)| {
                        a.entry(n).or_insert(line);
                    });
                    Some(a).filter(|a| a.len() <= MOST_SUMS)
                }
                _ => None,
            };
            into.insert(region, met);
        }
    }
}

/// Loops over the boxes of one fill, and the barrier regions that they copy into.
fn parts(program: &Program<'_>, warp: &WarpRun) -> BTreeSet<(usize, usize)> {
    let cfg = &program.cfg;
    let mut out = BTreeSet::new();
    for header in 0..cfg.blocks.len() {
        let tails: Vec<usize> =
            cfg.blocks[header].from.iter().map(|(f, _)| *f).filter(|f| cfg.is_back(*f, header)).collect();
        if tails.is_empty() {
            continue;
        }
        // The loop: what a path from its header to its end runs through.
        let from = cfg.reachable(header, |b, i| warp.takes(b, i) && cfg.blocks[b].next[i].to != header);
        let inside = |b: usize| from[b] && cfg.reachable(b, |x, i| warp.takes(x, i) && x != header)[header];
        let regions = |copies: bool| {
            let places = warp.events().filter_map(|(b, e)| match e.op {
                Op::mbarrier_expect_tx if !copies && inside(b) => program.place(&e.args[1], e.exec.lanes),
                Op::tensor_load | Op::tensor_load_hint if copies && inside(b) => {
                    program.place(&e.args[2], e.exec.lanes)
                }
                _ => None,
            });
            places.map(|p| p.region).collect::<BTreeSet<usize>>()
        };
        let announced = regions(false);
        out.extend(regions(true).difference(&announced).map(|r| (header, *r)));
    }
    out
}

/// Judges the bytes of every region whose announcements and copies one warp makes.
pub(crate) fn check(program: &Program<'_>, guarded: &BTreeMap<usize, Guarded>, report: &mut Report<'_>) {
    let mut announcers: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    let mut copiers: BTreeMap<usize, BTreeSet<(u32, usize)>> = BTreeMap::new();
    let mut blind = false;
    for (warp, _, event) in program.events().filter(|(_, _, e)| e.exec.lanes != 0) {
        let (copy, barrier) = match event.op {
            Op::mbarrier_expect_tx => (false, 1),
            Op::tensor_load | Op::tensor_load_hint => (true, 2),
            _ => continue,
        };
        match program.place(&event.args[barrier], event.exec.lanes) {
            Some(place) if copy => {
                copiers.entry(place.region).or_default().insert((warp.warp, event.line));
            }
            Some(place) => {
                announcers.entry(place.region).or_default().insert(warp.warp);
            }
            None => blind = true,
        }
    }
    if blind {
        return;
    }
    for (region, lines) in copiers.iter().filter(|(r, _)| !announcers.contains_key(r)) {
        let line = lines.first().map(|(_, l)| *l);
        let message = "nothing announces the bytes of the copies into this barrier; `arrive.expect_tx` first";
        report.region("B07", &program.region(*region).name, line, message.into());
    }
    for warp in &program.warps {
        let alone = |r: &usize, w: &BTreeSet<u32>| {
            w.len() == 1
                && w.contains(&warp.warp)
                && copiers.get(r).is_none_or(|c| c.iter().all(|(other, _)| *other == warp.warp))
        };
        let mine: BTreeSet<usize> = announcers.iter().filter(|(r, w)| alone(r, w)).map(|(r, _)| *r).collect();
        if mine.is_empty() {
            continue;
        }
        let analysis = Bytes { program, warp, mine, guarded, parts: parts(program, warp) };
        for (b, state) in solve(&program.cfg, &analysis).into_iter().enumerate() {
            let (Some(mut state), Some(run)) = (state, &warp.blocks[b]) else { continue };
            for event in &run.events {
                analysis.step(event, &mut state, |region, line, message| {
                    report.region("B06", &program.region(region).name, Some(line), message);
                });
            }
        }
    }
}
