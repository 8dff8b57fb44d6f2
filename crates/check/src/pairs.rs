//! Which barriers guard which region, read off the code that fills it: a copy into a tile names its full barrier, and
//! the wait before the announcement on that barrier was for its empty one; what a thread stores between a wait and an
//! arrival is guarded by those two, unless copies fill it: then the thread works on it in its stage.

use std::collections::{BTreeMap, BTreeSet};

use ptx::{Op, RegionKind};

use crate::program::Program;
use crate::warp::{Event, WarpRun};

/// The barrier regions of a filled region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guarded {
    /// Completes when it is filled.
    pub full: usize,
    /// Completes when it may be filled again.
    pub empty: Option<usize>,
}

type Choices = BTreeMap<usize, BTreeSet<Option<usize>>>;

/// The filled regions with their barriers; regions whose fills disagree are left out.
pub(crate) fn guarded(program: &Program<'_>) -> BTreeMap<usize, Guarded> {
    let (mut copied, mut empties) = (Choices::new(), Choices::new());
    for warp in &program.warps {
        // In flow order; a wait serves the next announcement only.
        let mut waited = None;
        for event in in_order(program, warp) {
            match event.op {
                Op::mbarrier_try_wait => waited = region(program, event, 1),
                Op::mbarrier_arrive | Op::mbarrier_arrive_n => waited = None,
                Op::mbarrier_expect_tx => {
                    if let Some(full) = region(program, event, 1) {
                        empties.entry(full).or_default().insert(waited.take());
                    }
                }
                Op::tensor_load | Op::tensor_load_hint => {
                    if let Some(tile) = region(program, event, 0) {
                        copied.entry(tile).or_default().insert(region(program, event, 2));
                    }
                }
                _ => {}
            }
        }
    }
    let written = written(program, &copied, &mut empties);
    let data = |region: usize| !matches!(program.region(region).kind, RegionKind::Barriers { .. });
    copied
        .iter()
        .chain(written.iter().filter(|(region, _)| !copied.contains_key(region)))
        .filter(|(region, _)| data(**region))
        .filter_map(|(region, fulls)| {
            let full = only(fulls)?;
            Some((*region, Guarded { full, empty: empties.get(&full).and_then(only) }))
        })
        .collect()
}

/// Regions that threads fill by stores, with their full barriers. The barriers of copies do not concern them: a thread
/// that makes one tile of another also waits for the copy of that other, and releases it.
fn written(program: &Program<'_>, copied: &Choices, empties: &mut Choices) -> Choices {
    let copies: BTreeSet<usize> = copied.values().flatten().flatten().copied().collect();
    let released: BTreeSet<usize> =
        copies.iter().filter_map(|full| empties.get(full)).flatten().flatten().copied().collect();
    let mut written = Choices::new();
    for warp in &program.warps {
        let mut waited = None;
        let mut stored = BTreeSet::new();
        for event in in_order(program, warp) {
            match event.op {
                Op::mbarrier_try_wait => {
                    let on = region(program, event, 1);
                    if on.is_none_or(|barrier| !copies.contains(&barrier) && !released.contains(&barrier)) {
                        waited = on;
                        stored.clear();
                    }
                }
                Op::st_shared | Op::st_shared_v | Op::stmatrix | Op::stmatrix_t if waited.is_some() => {
                    stored.extend(region(program, event, 0));
                }
                Op::mbarrier_arrive | Op::mbarrier_arrive_n => {
                    let on = region(program, event, 1);
                    if on.is_some_and(|barrier| released.contains(&barrier)) {
                        continue;
                    }
                    let empty = waited.take();
                    if let Some(full) = on.filter(|_| !stored.is_empty()) {
                        empties.entry(full).or_default().insert(empty);
                        std::mem::take(&mut stored).into_iter().for_each(|tile| {
                            written.entry(tile).or_default().insert(Some(full));
                        });
                    }
                }
                _ => {}
            }
        }
    }
    written
}

/// A warp's events in flow order.
fn in_order<'p>(program: &'p Program<'_>, warp: &'p WarpRun) -> impl Iterator<Item = &'p Event> {
    let blocks = program.cfg.order.iter().flat_map(|&b| &warp.blocks[b]);
    blocks.flat_map(|run| &run.events).filter(|e| e.exec.lanes != 0)
}

fn region(program: &Program<'_>, event: &Event, arg: usize) -> Option<usize> {
    program.place(&event.args[arg], event.exec.lanes).map(|p| p.region)
}

/// The one choice, if there is no other.
fn only(choices: &BTreeSet<Option<usize>>) -> Option<usize> {
    if choices.len() == 1 { choices.first().copied().flatten() } else { None }
}
