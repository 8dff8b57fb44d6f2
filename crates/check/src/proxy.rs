//! Rules P: the two proxies. What ordinary stores wrote is fenced and the writers meet before asynchronous reads, or
//! before they hand it to a role that reads so; what ordinary loads read is fenced before it is given back to copies; bulk
//! stores are committed, and waited for before their source changes or the CTA leaves. (PTX ISA, "Proxies", "Async proxy",
//! "cp.async.bulk.wait_group".)

use std::collections::{BTreeMap, BTreeSet};

use ptx::{Op, RegionKind};

use crate::dataflow::{Analysis, solve};
use crate::finding::Report;
use crate::groups::Groups;
use crate::pairs::Guarded;
use crate::program::{Product, Program};
use crate::value::Mask;
use crate::warp::{Event, WarpRun};

/// Lanes whose ordinary accesses to a tile are not yet ordered before the asynchronous proxy's.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Touched {
    /// No fence since.
    unfenced: Mask,
    /// Fenced, and no barrier since.
    unmet: Mask,
}

/// Ordinary accesses of one kind, by tile region.
#[derive(Debug, Clone, PartialEq, Default)]
struct Touches(BTreeMap<usize, Touched>);

impl Touches {
    fn of(&self, tile: usize) -> Touched {
        self.0.get(&tile).copied().unwrap_or_default()
    }

    fn add(&mut self, tile: usize, lanes: Mask) {
        self.0.entry(tile).or_default().unfenced |= lanes;
    }

    fn fence(&mut self, lanes: Mask) {
        for touched in self.0.values_mut() {
            touched.unmet |= touched.unfenced & lanes;
            touched.unfenced &= !lanes;
        }
    }

    /// A barrier: what is fenced is known to all who meet.
    fn meet(&mut self) {
        self.0.values_mut().for_each(|touched| touched.unmet = 0);
        self.tidy();
    }

    /// These lanes speak for themselves.
    fn tell(&mut self, tile: usize, lanes: Mask) {
        if let Some(touched) = self.0.get_mut(&tile) {
            touched.unmet &= !lanes;
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        self.0.retain(|_, touched| *touched != Touched::default());
    }

    /// What either path brings, by who picks a lane's.
    fn merge(&mut self, other: &Touches, pick: impl Fn(Mask, Mask) -> Mask) {
        let tiles: BTreeSet<usize> = self.0.keys().chain(other.0.keys()).copied().collect();
        for tile in tiles {
            let (a, b) = (self.of(tile), other.of(tile));
            let met = Touched { unfenced: pick(a.unfenced, b.unfenced), unmet: pick(a.unmet, b.unmet) };
            self.0.insert(tile, met);
        }
        self.tidy();
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Proxies {
    lanes: Mask,
    /// Ordinary stores and loads.
    written: Touches,
    loaded: Touches,
    /// Bulk stores in flight: the tile and the issuing lanes.
    stores: Groups<(usize, Mask)>,
}

/// What a tile that threads filled may lack when it is handed to an asynchronous reader.
const FILLED: [(&str, &str); 2] = [
    (
        "P01",
        "the tile is handed to an asynchronous reader, and ordinary stores to it have no `fence.proxy.async.shared::cta` \
         after them; every writer fences, then the arrival",
    ),
    (
        "P02",
        "this arrival hands the tile over for other writers too, and they do not meet between their fence and it; \
         `bar.warp.sync` or `bar.sync` them, or let every writer arrive",
    ),
];

/// What a tile that threads read may lack when it is given back to the copies that fill it.
const GIVEN_BACK: [(&str, &str); 2] = [
    (
        "P05",
        "the tile is given back to a copy, and ordinary loads of it have no `fence.proxy.async.shared::cta` after them; \
         every reader fences, then the arrival",
    ),
    (
        "P05",
        "this arrival gives the tile back for other readers too, and they do not meet between their fence and it; \
         `bar.warp.sync` or `bar.sync` them, or let every reader arrive",
    ),
];

struct Crossing<'p, 'a> {
    program: &'p Program<'a>,
    warp: &'p WarpRun,
    handed: &'p Handed,
    freed: &'p Handed,
}

/// Tiles by a barrier region: those that threads fill and other threads read asynchronously by their full one, those that
/// copies fill by their empty one.
type Handed = BTreeMap<usize, Vec<usize>>;

impl Crossing<'_, '_> {
    fn tile(&self, event: &Event, arg: usize) -> Option<usize> {
        let place = self.program.place(&event.args[arg], event.exec.lanes)?;
        matches!(self.program.region(place.region).kind, RegionKind::Tile(_)).then_some(place.region)
    }

    fn read(&self, event: &Event, tile: usize, state: &Proxies, fault: &mut impl FnMut(&'static str, usize, &str)) {
        let written = state.written.of(tile);
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

    /// An arrival that hands a tile over. It speaks for the thread's own accesses, and for those of others that it has met
    /// since.
    fn hand_over(
        event: &Event,
        (touches, tile): (&mut Touches, usize),
        [unfenced, unmet]: [(&'static str, &str); 2],
        fault: &mut impl FnMut(&'static str, usize, &str),
    ) {
        let touched = touches.of(tile);
        let broken = match touched {
            Touched { unfenced: 1.., .. } => Some(unfenced),
            Touched { unmet: others, .. } if others & !event.exec.lanes != 0 => Some(unmet),
            _ => None,
        };
        if let Some((rule, message)) = broken {
            fault(rule, event.line, message);
        }
        touches.tell(tile, event.exec.lanes);
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
                state.written.add(tile, lanes);
            }
            Op::ld_shared | Op::ld_shared_v | Op::ldmatrix | Op::ldmatrix_t => {
                if let Some(tile) = self.tile(event, 1) {
                    state.loaded.add(tile, lanes);
                }
            }
            Op::fence_proxy_async if event.exec.certain => {
                state.written.fence(lanes);
                state.loaded.fence(lanes);
            }
            Op::bar_sync | Op::bar_sync_all | Op::bar_warp_sync => {
                state.written.meet();
                state.loaded.meet();
            }
            Op::mbarrier_arrive | Op::mbarrier_arrive_n => {
                let barrier = self.program.place(&event.args[1], lanes).map(|p| p.region);
                for tile in barrier.and_then(|b| self.handed.get(&b)).into_iter().flatten() {
                    Self::hand_over(event, (&mut state.written, *tile), FILLED, fault);
                }
                for tile in barrier.and_then(|b| self.freed.get(&b)).into_iter().flatten() {
                    Self::hand_over(event, (&mut state.loaded, *tile), GIVEN_BACK, fault);
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
        Proxies { lanes: Mask::MAX, written: Touches::default(), loaded: Touches::default(), stores: Groups::default() }
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
        into.written.merge(&other.written, pick);
        into.loaded.merge(&other.loaded, pick);
        into.stores.meet(&other.stores);
        into.lanes |= theirs;
    }
}

/// Judges every warp's stores, asynchronous reads, and what it hands over for them.
pub(crate) fn check(program: &Program<'_>, guarded: &BTreeMap<usize, Guarded>, report: &mut Report<'_>) {
    let (handed, freed) = (handed(program, guarded), freed(program, guarded));
    for warp in &program.warps {
        let analysis = Crossing { program, warp, handed: &handed, freed: &freed };
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

/// Tiles that copies fill, by empty barrier.
fn freed(program: &Program<'_>, guarded: &BTreeMap<usize, Guarded>) -> Handed {
    let copied: BTreeSet<usize> = program
        .events()
        .filter(|(_, _, event)| matches!(event.op, Op::tensor_load | Op::tensor_load_hint))
        .filter_map(|(_, _, event)| program.place(&event.args[0], event.exec.lanes).map(|p| p.region))
        .collect();
    let mut out = Handed::new();
    for (tile, empty) in guarded.iter().filter_map(|(tile, g)| Some((*tile, g.empty?))) {
        if copied.contains(&tile) {
            out.entry(empty).or_default().push(tile);
        }
    }
    out
}
