//! Rules P: the two proxies. What ordinary stores wrote is fenced and the writers meet before asynchronous reads, or
//! before they hand it to a role that reads so; bulk stores are committed, and waited for before their source changes or
//! the CTA leaves. (PTX ISA, "Proxies", "Async proxy", "cp.async.bulk.wait_group".)

use std::collections::{BTreeMap, BTreeSet};

use ptx::{Op, RegionKind};

use crate::dataflow::{Analysis, solve};
use crate::finding::Report;
use crate::groups::Groups;
use crate::pairs::Guarded;
use crate::program::{Product, Program};
use crate::value::Mask;
use crate::warp::{Event, WarpRun};

/// Lanes whose ordinary stores to a tile are not yet visible to the asynchronous proxy.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Written {
    /// Stored, and no fence since.
    unfenced: Mask,
    /// Fenced, and no barrier since.
    unmet: Mask,
}

#[derive(Debug, Clone, PartialEq)]
struct Proxies {
    lanes: Mask,
    /// By tile region.
    written: BTreeMap<usize, Written>,
    /// Bulk stores in flight: the tile and the issuing lanes.
    stores: Groups<(usize, Mask)>,
}

struct Crossing<'p, 'a> {
    program: &'p Program<'a>,
    warp: &'p WarpRun,
    handed: &'p Handed,
}

/// Tiles that threads fill and other threads read asynchronously, by full barrier region.
type Handed = BTreeMap<usize, Vec<usize>>;

impl Crossing<'_, '_> {
    fn tile(&self, event: &Event, arg: usize) -> Option<usize> {
        let place = self.program.place(&event.args[arg], event.exec.lanes)?;
        matches!(self.program.region(place.region).kind, RegionKind::Tile(_)).then_some(place.region)
    }

    fn read(&self, event: &Event, tile: usize, state: &Proxies, fault: &mut impl FnMut(&'static str, usize, &str)) {
        let written = state.written.get(&tile).copied().unwrap_or_default();
        if written.unfenced != 0 {
            let message = "ordinary stores to the tile have no `fence.proxy.async.shared::cta` after them; \
                           every writer fences, then a barrier";
            fault("P01", event.line, message);
        } else if written.unmet != 0 {
            fault(
                "P02",
                event.line,
                "the writers of the tile do not meet between their fence and this read; `bar.sync` them",
            );
        }
    }

    /// An arrival that says that the tile is filled. It speaks for the thread's own stores, and for those of others that
    /// it has met since.
    fn hand_over(
        &self,
        event: &Event,
        tile: usize,
        state: &mut Proxies,
        fault: &mut impl FnMut(&'static str, usize, &str),
    ) {
        let Some(written) = state.written.get_mut(&tile) else { return };
        if written.unfenced != 0 {
            let message = "the tile is handed to an asynchronous reader, and ordinary stores to it have no \
                           `fence.proxy.async.shared::cta` after them; every writer fences, then the arrival";
            fault("P01", event.line, message);
        } else if written.unmet & !event.exec.lanes != 0 {
            let message = "this arrival hands the tile over for other writers too, and they do not meet between their \
                           fence and it; `bar.warp.sync` or `bar.sync` them, or let every writer arrive";
            fault("P02", event.line, message);
        }
        written.unmet &= !event.exec.lanes;
        state.written.retain(|_, w| *w != Written::default());
    }

    fn step(&self, event: &Event, state: &mut Proxies, fault: &mut impl FnMut(&'static str, usize, &str)) {
        let lanes = event.exec.lanes;
        if lanes == 0 {
            return;
        }
        match event.op {
            Op::st_shared | Op::st_shared_v | Op::stmatrix | Op::stmatrix_t => {
                let Some(tile) = self.tile(event, 0) else { return };
                // Stores of other lanes are the barrier's business; this warp's own are known.
                if state.stores.committed.iter().flatten().any(|(t, _)| *t == tile) {
                    fault(
                        "P04",
                        event.line,
                        "a bulk store may still read the tile; its issuer waits with `wait_group.read`, then a barrier",
                    );
                }
                state.written.entry(tile).or_default().unfenced |= lanes;
            }
            Op::fence_proxy_async if event.exec.certain => {
                for w in state.written.values_mut() {
                    w.unmet |= w.unfenced & lanes;
                    w.unfenced &= !lanes;
                }
            }
            Op::bar_sync | Op::bar_sync_all | Op::bar_warp_sync => {
                state.written.values_mut().for_each(|w| w.unmet = 0);
                state.written.retain(|_, w| *w != Written::default());
            }
            Op::mbarrier_arrive | Op::mbarrier_arrive_n => {
                let barrier = self.program.place(&event.args[1], lanes).map(|p| p.region);
                for tile in barrier.and_then(|b| self.handed.get(&b)).into_iter().flatten() {
                    self.hand_over(event, *tile, state, fault);
                }
            }
            Op::tensor_store => {
                if let Some(tile) = self.tile(event, 1) {
                    self.read(event, tile, state, fault);
                    state.stores.open((tile, lanes));
                }
            }
            Op::bulk_commit => state.stores.commit(),
            Op::bulk_wait | Op::bulk_wait_read => {
                if !state.stores.uncommitted.is_empty() {
                    fault(
                        "P03",
                        event.line,
                        "stores before this wait are in no group, so it does not cover them; commit first",
                    );
                }
                state.stores.wait(event.constant(0));
            }
            Op::ret if state.stores.any(|(_, by)| by & lanes != 0) => {
                let rule = if state.stores.uncommitted.is_empty() { "P04" } else { "P03" };
                fault(
                    rule,
                    event.line,
                    "the CTA leaves while a bulk store reads its shared memory; commit and wait for it",
                );
            }
            _ => {
                let Some(product) = self.program.inst(event.line).and_then(Product::of) else { return };
                for (arg, _, _) in product.descriptors() {
                    if let Some(place) = crate::descriptor::start(self.program, event, arg) {
                        self.read(event, place.region, state, fault);
                    }
                }
            }
        }
    }
}

impl Analysis for Crossing<'_, '_> {
    type State = Proxies;

    fn entry(&self) -> Proxies {
        Proxies { lanes: Mask::MAX, written: BTreeMap::new(), stores: Groups::default() }
    }

    fn block(&self, block: usize, state: &mut Proxies) {
        for event in self.warp.blocks[block].iter().flat_map(|b| &b.events) {
            self.step(event, state, &mut |_, _, _| ());
        }
    }

    fn edge(&self, block: usize, edge: usize, state: &Proxies) -> Option<Proxies> {
        let lanes = self.warp.blocks[block].as_ref()?.taken[edge]?;
        let mut out = Proxies { lanes, ..state.clone() };
        // Lanes that go elsewhere take their own stores with them.
        out.stores.retain(|(_, by)| by & lanes != 0);
        Some(out)
    }

    fn join(&self, _: usize, _: usize, into: &mut Proxies, other: &Proxies) {
        let (mine, theirs) = (into.lanes, other.lanes);
        // Of a lane that only one edge brings, that edge knows.
        let pick = |a: Mask, b: Mask| (a & !(theirs & !mine)) | (b & !(mine & !theirs));
        let tiles: Vec<usize> = into.written.keys().chain(other.written.keys()).copied().collect();
        for tile in tiles {
            let a = into.written.get(&tile).copied().unwrap_or_default();
            let b = other.written.get(&tile).copied().unwrap_or_default();
            let met = Written { unfenced: pick(a.unfenced, b.unfenced), unmet: pick(a.unmet, b.unmet) };
            into.written.insert(tile, met);
        }
        into.written.retain(|_, w| *w != Written::default());
        into.stores.meet(&other.stores);
        into.lanes |= theirs;
    }
}

/// Judges every warp's stores, asynchronous reads, and what it hands over for them.
pub(crate) fn check(program: &Program<'_>, guarded: &BTreeMap<usize, Guarded>, report: &mut Report<'_>) {
    let handed = handed(program, guarded);
    for warp in &program.warps {
        let analysis = Crossing { program, warp, handed: &handed };
        for (b, state) in solve(&program.cfg, &analysis).into_iter().enumerate() {
            let (Some(mut state), Some(run)) = (state, &warp.blocks[b]) else { continue };
            for event in &run.events {
                analysis.step(event, &mut state, &mut |rule, line, message| report.at(rule, line, message.into()));
            }
        }
    }
}

/// Tiles that are read asynchronously under a full barrier. Those that copies fill are not meant: nobody arrives on their
/// barriers but who announces the copy.
fn handed(program: &Program<'_>, guarded: &BTreeMap<usize, Guarded>) -> Handed {
    let mut tiles = BTreeSet::new();
    for (_, _, event) in program.events().filter(|(_, _, e)| e.exec.lanes != 0) {
        if event.op == Op::tensor_store {
            tiles.extend(program.place(&event.args[1], event.exec.lanes).map(|p| p.region));
        } else if let Some(product) = program.inst(event.line).and_then(Product::of) {
            let descriptors = product.descriptors().into_iter();
            tiles.extend(
                descriptors.filter_map(|(arg, ..)| crate::descriptor::start(program, event, arg)).map(|p| p.region),
            );
        }
    }
    let mut out = Handed::new();
    for (tile, g) in guarded.iter().filter(|(tile, _)| tiles.contains(tile)) {
        out.entry(g.full).or_default().push(*tile);
    }
    out
}
