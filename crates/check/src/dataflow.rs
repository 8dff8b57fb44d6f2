//! A forward solver: states flow along the edges until nothing changes. Knows no rule; an [`Analysis`] says what a
//! state is, how a block changes it and how two of them meet.

use crate::cfg::Cfg;

/// Visits of a block after which its state is left as it is: every analysis here settles much earlier, and a bound
/// keeps a malformed module from holding the verifier.
const MOST_VISITS: usize = 200;

/// What flows.
pub(crate) trait Analysis {
    /// What is known at a point.
    type State: Clone + PartialEq;

    /// The state at the kernel's entry.
    fn entry(&self) -> Self::State;

    /// The state after a block.
    fn block(&self, block: usize, state: &mut Self::State);

    /// The state along an edge out of a block; none where the edge is never taken.
    fn edge(&self, block: usize, edge: usize, state: &Self::State) -> Option<Self::State>;

    /// Joins what another edge into `block` brings; `visits` counts the times that the block was entered before.
    fn join(&self, block: usize, visits: usize, into: &mut Self::State, other: &Self::State);
}

/// The state before each block; none for blocks that no path reaches.
pub(crate) fn solve<A: Analysis>(cfg: &Cfg, analysis: &A) -> Vec<Option<A::State>> {
    let count = cfg.blocks.len();
    let mut before: Vec<Option<A::State>> = vec![None; count];
    let mut along: Vec<Vec<Option<A::State>>> = cfg.blocks.iter().map(|b| vec![None; b.next.len()]).collect();
    let mut visits = vec![0usize; count];
    let mut dirty = vec![false; count];
    if count > 0 {
        dirty[0] = true;
    }
    // Always the first dirty block in reverse postorder: forward edges are settled before back edges bring more.
    while let Some(&b) = cfg.order.iter().find(|&&b| dirty[b]) {
        dirty[b] = false;
        let mut state = if b == 0 { Some(analysis.entry()) } else { None };
        for &(from, i) in &cfg.blocks[b].from {
            let Some(brought) = &along[from][i] else { continue };
            match &mut state {
                None => state = Some(brought.clone()),
                Some(s) => analysis.join(b, visits[b], s, brought),
            }
        }
        let Some(state) = state else { continue };
        if before[b].as_ref() == Some(&state) || visits[b] > MOST_VISITS {
            continue;
        }
        visits[b] += 1;
        before[b] = Some(state.clone());
        let mut after = state;
        analysis.block(b, &mut after);
        for (i, edge) in cfg.blocks[b].next.iter().enumerate() {
            let out = analysis.edge(b, i, &after);
            if out.is_some() && out != along[b][i] {
                along[b][i] = out;
                dirty[edge.to] = true;
            }
        }
    }
    before
}
