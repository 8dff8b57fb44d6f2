//! Rules B11, B12 and B14: a stage is read only between the wait for it and its release, released only when nothing
//! reads it any more, and released as often as it is waited for.

use std::collections::{BTreeMap, BTreeSet};

use ptx::Op;

use crate::dataflow::{Analysis, solve};
use crate::finding::Report;
use crate::groups::Groups;
use crate::pairs::Guarded;
use crate::program::{Product, Program};
use crate::ring::arrival_count;
use crate::value::Mask;
use crate::warp::{Event, WarpRun};

/// Held stages are counted up to this; more than any ring has.
const MOST_HELD: u32 = 16;

/// A count of stages, where paths differ in three ways.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Held {
    /// The most on any path.
    most: u32,
    /// The same, where a release by some lanes of the warp counts for all of them: one lane often speaks for all.
    readable: u32,
    /// The same again, where a release that is not certain counts too.
    kept: u32,
}

/// What a warp holds and reads.
#[derive(Debug, Clone, PartialEq)]
struct Holding {
    lanes: Mask,
    /// Stages that were waited for and not released, by full barrier region.
    held: BTreeMap<usize, Held>,
    /// Lanes that may not have finished loading from a region: no warp-wide instruction came since.
    loading: BTreeMap<usize, Mask>,
    /// Tiles that products in flight read.
    reading: Groups<usize>,
    /// Tiles that bulk stores in flight read, with the lanes that issued them.
    storing: Groups<(usize, Mask)>,
}

struct Holds<'p, 'a> {
    program: &'p Program<'a>,
    warp: &'p WarpRun,
    guarded: &'p BTreeMap<usize, Guarded>,
}

impl Holds<'_, '_> {
    fn block_events(&self, block: usize, state: &mut Holding, mut fault: impl FnMut(&'static str, usize, usize, &str)) {
        let mut released = BTreeSet::new();
        for event in self.warp.blocks[block].iter().flat_map(|b| &b.events) {
            self.step(event, state, &mut released, &mut fault);
        }
    }

    fn tile(&self, event: &Event, arg: usize) -> Option<usize> {
        self.program.place(&event.args[arg], event.exec.lanes).map(|p| p.region)
    }

    fn step(
        &self,
        event: &Event,
        state: &mut Holding,
        released: &mut BTreeSet<(usize, String, Option<usize>)>,
        fault: &mut impl FnMut(&'static str, usize, usize, &str),
    ) {
        if event.exec.lanes == 0 {
            return;
        }
        let mut read = |state: &Holding, tile: usize| {
            if let Some(g) = self.guarded.get(&tile)
                && state.held.get(&g.full).is_none_or(|h| h.readable == 0)
            {
                fault("B11", event.line, tile, "it is read where no wait for its full barrier stands before");
            }
        };
        if self.program.inst(event.line).is_some_and(|i| i.spec().pattern.contains(".sync")) {
            state.loading.clear();
        }
        match event.op {
            Op::ld_shared | Op::ld_shared_v | Op::ldmatrix | Op::ldmatrix_t => {
                if let Some(tile) = self.tile(event, 1) {
                    read(state, tile);
                    *state.loading.entry(tile).or_default() |= event.exec.lanes;
                }
            }
            Op::wgmma_commit => state.reading.commit(),
            Op::wgmma_wait => state.reading.wait(event.constant(0)),
            Op::tensor_store => {
                if let Some(tile) = self.tile(event, 1) {
                    state.storing.open((tile, event.exec.lanes));
                }
            }
            Op::bulk_commit => state.storing.commit(),
            Op::bulk_wait | Op::bulk_wait_read => state.storing.wait(event.constant(0)),
            op if arrival_count(event).is_some() && op != Op::mbarrier_expect_tx => {
                let Some(empty) = self.tile(event, 1) else { return };
                let text = self.program.inst(event.line).map(|i| i.args[1].to_string()).unwrap_or_default();
                let first = released.insert((empty, text, event.based));
                let tiles: Vec<(usize, usize)> =
                    self.guarded.iter().filter(|(_, g)| g.empty == Some(empty)).map(|(t, g)| (*t, g.full)).collect();
                let fulls: BTreeSet<usize> = tiles.iter().map(|(_, f)| *f).collect();
                for full in fulls.into_iter().filter(|_| first) {
                    let held = state.held.entry(full).or_default();
                    // What may not have been released may still be read.
                    let certain = u32::from(event.exec.certain);
                    *held = Held {
                        most: held.most.saturating_sub(certain),
                        readable: held.readable.saturating_sub(certain),
                        kept: held.kept.saturating_sub(1),
                    };
                }
                for (tile, full) in tiles {
                    let held = state.held.get(&full).map_or(0, |h| h.most);
                    let held = held.saturating_sub(u32::from(!event.exec.certain));
                    let loading = state.loading.get(&tile).copied().unwrap_or(0);
                    if loading & !event.exec.lanes != 0 {
                        fault(
                            "B12",
                            event.line,
                            tile,
                            "it is released while other lanes may still load from it; `bar.warp.sync` first",
                        );
                    }
                    if held == 0 && state.reading.any(|t| *t == tile) {
                        fault(
                            "B12",
                            event.line,
                            tile,
                            "it is released while a product in flight reads it; wait for the group first",
                        );
                    }
                    if state.storing.any(|(t, lanes)| *t == tile && lanes & event.exec.lanes != 0) {
                        fault(
                            "B12",
                            event.line,
                            tile,
                            "it is released while a bulk store reads it; `wait_group.read` first",
                        );
                    }
                }
            }
            _ => {
                let Some(product) = self.program.inst(event.line).and_then(Product::of) else { return };
                for (arg, _, _) in product.descriptors() {
                    if let Some(tile) = crate::descriptor::start(self.program, event, arg) {
                        read(state, tile.region);
                        state.reading.open(tile.region);
                    }
                }
            }
        }
    }
}

impl Analysis for Holds<'_, '_> {
    type State = Holding;

    fn entry(&self) -> Holding {
        Holding {
            lanes: Mask::MAX,
            held: BTreeMap::new(),
            loading: BTreeMap::new(),
            reading: Groups::default(),
            storing: Groups::default(),
        }
    }

    fn block(&self, block: usize, state: &mut Holding) {
        self.block_events(block, state, |_, _, _, _| ());
    }

    fn edge(&self, block: usize, edge: usize, state: &Holding) -> Option<Holding> {
        let run = self.warp.blocks[block].as_ref()?;
        let lanes = run.taken[edge]?;
        let mut out = Holding { lanes, ..state.clone() };
        // Lanes that go elsewhere take their own stores with them.
        out.storing.retain(|(_, issuers)| issuers & lanes != 0);
        for event in run.events.iter().filter(|e| e.op == Op::mbarrier_try_wait) {
            if self.program.passing_edge(block, event) == Some(edge)
                && let Some(place) = self.program.place(&event.args[1], event.exec.lanes)
            {
                let held = out.held.entry(place.region).or_default();
                let more = |n: u32| (n + 1).min(MOST_HELD);
                *held = Held { most: more(held.most), readable: more(held.readable), kept: more(held.kept) };
            }
        }
        Some(out)
    }

    fn join(&self, _: usize, _: usize, into: &mut Holding, other: &Holding) {
        let regions: BTreeSet<usize> = into.held.keys().chain(other.held.keys()).copied().collect();
        for region in regions {
            let b = other.held.get(&region).copied().unwrap_or_default();
            let a = into.held.entry(region).or_default();
            let apart = into.lanes & other.lanes == 0;
            let of_some = |a: u32, b: u32| if apart { a.min(b) } else { a.max(b) };
            *a = Held {
                most: a.most.max(b.most),
                readable: of_some(a.readable, b.readable),
                kept: of_some(a.kept, b.kept),
            };
        }
        for (region, lanes) in &other.loading {
            *into.loading.entry(*region).or_default() |= lanes;
        }
        into.reading.meet(&other.reading);
        into.storing.meet(&other.storing);
        into.lanes |= other.lanes;
    }
}

/// Judges reads and releases of every warp.
pub(crate) fn check(program: &Program<'_>, guarded: &BTreeMap<usize, Guarded>, report: &mut Report<'_>) {
    if guarded.is_empty() {
        return;
    }
    for warp in &program.warps {
        let analysis = Holds { program, warp, guarded };
        let before = solve(&program.cfg, &analysis);
        for (b, state) in before.iter().enumerate() {
            let Some(mut state) = state.clone() else { continue };
            analysis.block_events(b, &mut state, |rule, line, tile, message| {
                report.region(rule, &program.region(tile).name, Some(line), message.into());
            });
        }
        leaks(program, warp, guarded, &before, report);
    }
}

/// A loop that keeps a stage at every turn holds ever more of them.
fn leaks(
    program: &Program<'_>,
    warp: &WarpRun,
    guarded: &BTreeMap<usize, Guarded>,
    before: &[Option<Holding>],
    report: &mut Report<'_>,
) {
    for g in guarded.values() {
        let grows = before.iter().flatten().any(|s| s.held.get(&g.full).is_some_and(|h| h.kept == MOST_HELD));
        let Some(empty) = g.empty.filter(|_| grows) else { continue };
        // Warps that leave the release to others hold on rightly.
        let at = |e: &Event, is: bool, region: usize| {
            is && program.place(&e.args[1], e.exec.lanes).is_some_and(|p| p.region == region)
        };
        let releases = warp.events().any(|(_, e)| at(e, arrival_count(e).is_some(), empty));
        let wait = warp.events().find(|(_, e)| at(e, e.op == Op::mbarrier_try_wait, g.full)).map(|(_, e)| e.line);
        if releases {
            let message = format!(
                "on some path a turn of a loop waits for more of its stages than it releases on {}; the ring runs dry",
                program.region(empty).name
            );
            report.region("B14", &program.region(g.full).name, wait, message);
        }
    }
}
