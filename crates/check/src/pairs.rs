//! Which barriers guard which region, read off the code that fills it: a copy into a tile names its full barrier, and
//! the wait before the announcement on that barrier was for its empty one; words that a thread stores between a wait
//! and an arrival are guarded by those two, unless copies fill them: then the thread works on them in their stage.

use std::collections::{BTreeMap, BTreeSet};

use ptx::{Op, RegionKind};

use crate::program::Program;

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
    let (mut copied, mut written, mut empties) = (Choices::new(), Choices::new(), Choices::new());
    for warp in &program.warps {
        // In flow order; a wait serves the next announcement or arrival only.
        let mut waited = None;
        let mut stored = BTreeSet::new();
        for &b in &program.cfg.order {
            for event in warp.blocks[b].iter().flat_map(|r| &r.events).filter(|e| e.exec.lanes != 0) {
                let region = |arg: usize| program.place(&event.args[arg], event.exec.lanes).map(|p| p.region);
                match event.op {
                    Op::mbarrier_try_wait => {
                        waited = region(1);
                        stored.clear();
                    }
                    Op::st_shared | Op::st_shared_v if waited.is_some() => stored.extend(region(0)),
                    Op::mbarrier_arrive | Op::mbarrier_arrive_n => {
                        let empty = waited.take();
                        if let Some(full) = region(1).filter(|_| !stored.is_empty()) {
                            empties.entry(full).or_default().insert(empty);
                            std::mem::take(&mut stored).into_iter().for_each(|words| {
                                written.entry(words).or_default().insert(Some(full));
                            });
                        }
                    }
                    Op::mbarrier_expect_tx => {
                        if let Some(full) = region(1) {
                            empties.entry(full).or_default().insert(waited.take());
                        }
                    }
                    Op::tensor_load | Op::tensor_load_hint => {
                        if let Some(tile) = region(0) {
                            copied.entry(tile).or_default().insert(region(2));
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    let only = |set: &BTreeSet<Option<usize>>| if set.len() == 1 { set.first().copied().flatten() } else { None };
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
