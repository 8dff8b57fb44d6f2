//! Rules N: named barriers. Sixteen of them, each used with one thread count by exactly so many threads.
//! (PTX ISA, "bar, barrier".)

use std::collections::{BTreeMap, BTreeSet};

use ptx::Op;

use crate::finding::Report;
use crate::program::Program;

/// Named barriers of a CTA.
const IDS: u64 = 16;

#[derive(Default)]
struct Use {
    counts: BTreeMap<u64, usize>,
    syncs: BTreeSet<u32>,
    arrives: BTreeSet<u32>,
    line: usize,
}

/// Judges every use whose id is known.
pub(crate) fn check(program: &Program<'_>, report: &mut Report<'_>) {
    let threads = u64::from(program.kernel.threads);
    let mut uses: BTreeMap<u64, Use> = BTreeMap::new();
    let mut blind = false;
    for (warp, _, event) in program.events() {
        if !matches!(event.op, Op::bar_sync | Op::bar_sync_all | Op::bar_arrive) || event.exec.lanes == 0 {
            continue;
        }
        let Some(ids) = event.args[0].possible(event.exec.lanes) else {
            blind = true;
            continue;
        };
        let count = if event.op == Op::bar_sync_all { Some(threads) } else { event.constant(1) };
        for id in &ids {
            if *id >= IDS {
                report.at("N01", event.line, format!("warp {} uses id {id}; ids are 0 to {}", warp.warp, IDS - 1));
                continue;
            }
            if *id == 0 && count.is_some_and(|n| n != threads) {
                report.at("N01", event.line, "id 0 is the whole CTA's; take another for a part of it".into());
            }
            let used = uses.entry(*id).or_default();
            used.line = event.line;
            match event.op {
                Op::bar_arrive => used.arrives.insert(warp.warp),
                _ => used.syncs.insert(warp.warp),
            };
            match count {
                Some(n) if n == 0 || n % 32 != 0 => {
                    report.at("N02", event.line, format!("{n} threads; whole warps meet at a barrier"));
                }
                Some(n) => {
                    used.counts.entry(n).or_insert(event.line);
                }
                None => blind = true,
            }
        }
        blind |= ids.len() > 1;
    }
    for (id, used) in uses {
        let counts: Vec<u64> = used.counts.keys().copied().collect();
        let [count] = counts[..] else {
            if counts.len() > 1 {
                let line = used.counts.values().max().copied().unwrap_or(used.line);
                report.at(
                    "N02",
                    line,
                    format!("barrier {id} is used with {} threads elsewhere; one id has one count", counts[0]),
                );
            }
            continue;
        };
        let warps: BTreeSet<u32> = used.syncs.union(&used.arrives).copied().collect();
        let both = used.syncs.intersection(&used.arrives).next();
        let there = warps.len() as u64 * 32;
        if blind {
            continue;
        }
        if used.syncs.is_empty() {
            report.at("N03", used.line, format!("warps arrive at barrier {id}, and none waits there"));
        } else if let Some(warp) = both {
            let message =
                format!("warp {warp} both arrives and waits at barrier {id}, so it counts twice; leave one out");
            report.at("N03", used.line, message);
        } else if there != count {
            let message = format!(
                "barrier {id} counts {count} threads, but {there} come to it; give each group an id of its own"
            );
            report.at("N03", used.line, message);
        }
    }
}
