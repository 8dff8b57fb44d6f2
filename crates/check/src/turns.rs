//! Rule N04: turns. A warp that waits for its turn at one named barrier and hands it on at another does both equally
//! often in every loop.

use std::collections::{BTreeMap, BTreeSet};

use ptx::Op;

use crate::dataflow::{Analysis, solve};
use crate::finding::Report;
use crate::program::Program;
use crate::warp::{Event, WarpRun};

/// A balance this far from none has grown with every turn of a loop.
const FAR: i32 = 8;

/// Turns taken less turns handed on, on any path.
type Balance = BTreeSet<i32>;

struct Turns<'p> {
    warp: &'p WarpRun,
    takes: u64,
    hands: u64,
}

impl Turns<'_> {
    fn step(&self, event: &Event, state: &mut Balance) {
        let by = match event.op {
            Op::bar_sync if event.constant(0) == Some(self.takes) => 1,
            Op::bar_arrive if event.constant(0) == Some(self.hands) => -1,
            _ => return,
        };
        *state = state.iter().map(|n| (n + by).clamp(-FAR, FAR)).collect();
    }
}

impl Analysis for Turns<'_> {
    type State = Balance;

    fn entry(&self) -> Balance {
        Balance::from([0])
    }

    fn block(&self, block: usize, state: &mut Balance) {
        self.warp.blocks[block].iter().flat_map(|b| &b.events).for_each(|e| self.step(e, state));
    }

    fn edge(&self, block: usize, edge: usize, state: &Balance) -> Option<Balance> {
        self.warp.takes(block, edge).then(|| state.clone())
    }

    fn join(&self, _: usize, _: usize, into: &mut Balance, other: &Balance) {
        into.extend(other);
    }
}

/// Judges the warps that wait at one such barrier and arrive at one other.
pub(crate) fn check(program: &Program<'_>, report: &mut Report<'_>) {
    let ids = |events: &mut dyn Iterator<Item = &Event>, op: Op| {
        // An id that is not known may be any.
        events.filter(|e| e.op == op).map(|e| e.constant(0)).collect::<Option<BTreeSet<u64>>>()
    };
    let all = |op| ids(&mut program.events().map(|(_, _, e)| e), op);
    let (Some(waited), Some(handed)) = (all(Op::bar_sync), all(Op::bar_arrive)) else { return };
    let mut lines: BTreeMap<usize, u32> = BTreeMap::new();
    for warp in &program.warps {
        let own = |op| ids(&mut warp.events().map(|(_, e)| e), op).unwrap_or_default();
        let takes: Vec<u64> = own(Op::bar_sync).intersection(&handed).copied().collect();
        let hands: Vec<u64> = own(Op::bar_arrive).intersection(&waited).copied().collect();
        let ([takes], [hands]) = (&takes[..], &hands[..]) else { continue };
        let turns = Turns { warp, takes: *takes, hands: *hands };
        let grown = solve(&program.cfg, &turns).iter().flatten().any(|s| s.iter().any(|n| n.abs() == FAR));
        let line =
            warp.events().find(|(_, e)| e.op == Op::bar_sync && e.constant(0) == Some(*takes)).map(|(_, e)| e.line);
        if let (true, Some(line)) = (grown, line) {
            lines.entry(line).or_insert(warp.warp);
        }
    }
    for (line, warp) in lines {
        let message = format!(
            "on some path through a loop warp {warp} does not hand on as many turns as it takes; \
             one `bar.sync` for the turn, one `bar.arrive` for the next, on every path"
        );
        report.at("N04", line, message);
    }
}
