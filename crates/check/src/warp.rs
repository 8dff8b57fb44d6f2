//! One warp's run through the kernel: which blocks it may reach with which lanes, and what the operands of the
//! instructions that matter to the rules hold there. The rules read these events and never evaluate anything.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ptx::{Completion, Inst, Kernel, Kind, Op, Operand, Proxy};

use crate::cfg::{Cfg, Way};
use crate::dataflow::{Analysis, solve};
use crate::eval::{Context, Exec, State};
use crate::value::{Mask, Value};

/// Visits of a block after which changing registers count as unknown.
const WIDEN_AFTER: usize = 40;

/// An instruction that touches memory or synchronises, as a warp executes it.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub line: usize,
    pub op: Op,
    pub exec: Exec,
    /// What each operand holds; an address's value is where it points, a tensor's the map's address.
    pub args: Vec<Value>,
    /// The parity that a wait looks at when it is first reached, if that is known.
    pub first: Option<u64>,
    /// Line in the block that last wrote a register of the first address, or none: tells equal texts apart.
    pub based: Option<usize>,
}

impl Event {
    /// Number of lanes that execute it.
    pub fn threads(&self) -> u32 {
        self.exec.lanes.count_ones()
    }

    /// The constant that an operand holds in all lanes, if it is known.
    pub fn constant(&self, arg: usize) -> Option<u64> {
        self.args.get(arg)?.uniform_constant()
    }
}

/// A block as a warp runs through it.
#[derive(Debug, Clone)]
pub(crate) struct BlockRun {
    pub lanes: Mask,
    pub events: Vec<Event>,
    /// Lanes that take each edge; none where it is never taken.
    pub taken: Vec<Option<Mask>>,
    /// True if the block ends in a branch whose lanes may part in a way that is not known.
    pub parts: bool,
}

/// A warp's run.
#[derive(Debug)]
pub(crate) struct WarpRun {
    pub warp: u32,
    /// By block; none where the warp never comes.
    pub blocks: Vec<Option<BlockRun>>,
    /// By block: true between a branch that parts the lanes in an unknown way and the point where they meet again.
    pub divergent: Vec<bool>,
}

struct Flow<'a> {
    context: &'a Context<'a>,
    cfg: &'a Cfg,
    /// By line of a wait: the parity at the first visit, when no back edge has brought anything yet.
    first: RefCell<BTreeMap<usize, Option<u64>>>,
}

impl Flow<'_> {
    fn last(&self, block: usize) -> Option<&Inst> {
        self.cfg.insts(self.context.kernel, block).next_back().map(|(_, i)| i)
    }
}

impl Analysis for Flow<'_> {
    type State = State;

    fn entry(&self) -> State {
        self.context.entry()
    }

    fn block(&self, block: usize, state: &mut State) {
        for (line, inst) in self.cfg.insts(self.context.kernel, block) {
            if inst.op == Op::mbarrier_try_wait
                && let Some(parity) = inst.args.get(2)
            {
                let value = self.context.operand(state, parity).uniform_constant();
                self.first.borrow_mut().entry(line).or_insert(value);
            }
            self.context.step(state, inst);
        }
    }

    fn edge(&self, block: usize, edge: usize, state: &State) -> Option<State> {
        let way = self.cfg.blocks[block].next[edge].way;
        let (Some(inst), true) = (self.last(block), way != Way::Always) else { return Some(state.clone()) };
        let Some(guard) = inst.guard else { return Some(state.clone()) };
        let exec = self.context.exec(state, inst);
        let mut out = state.clone();
        if exec.certain {
            out.lanes = if way == Way::Guarded { exec.lanes } else { state.lanes & !exec.lanes };
            return (out.lanes != 0).then_some(out);
        }
        let pred = self.context.reg(state, guard.pred.reg());
        let value = (way == Way::Guarded) != guard.negated;
        if let Some(masks) = pred.masks(state.lanes, value) {
            out.lanes = masks.into_iter().fold(0, |a, m| a | m);
        }
        if pred.is_uniform() {
            self.context.assume(&mut out, guard.pred.reg(), value);
        }
        (out.lanes != 0).then_some(out)
    }

    fn join(&self, _: usize, visits: usize, into: &mut State, other: &State) {
        self.context.meet(into, other, visits > WIDEN_AFTER);
    }
}

impl WarpRun {
    /// Runs a warp.
    pub fn new(kernel: &Kernel, cfg: &Cfg, warp: u32) -> WarpRun {
        let context = Context::new(kernel, warp);
        let flow = Flow { context: &context, cfg, first: RefCell::default() };
        let before = solve(cfg, &flow);
        let blocks: Vec<Option<BlockRun>> =
            before.into_iter().enumerate().map(|(b, state)| state.map(|s| run(&flow, b, s))).collect();
        let divergent = divergent(cfg, &blocks);
        WarpRun { warp, blocks, divergent }
    }

    /// True if the warp may take that edge.
    pub fn takes(&self, block: usize, edge: usize) -> bool {
        self.blocks[block].as_ref().is_some_and(|b| b.taken[edge].is_some())
    }

    /// All events, with their block.
    pub fn events(&self) -> impl Iterator<Item = (usize, &Event)> {
        self.blocks
            .iter()
            .enumerate()
            .flat_map(|(b, run)| run.iter().flat_map(move |r| r.events.iter().map(move |e| (b, e))))
    }
}

fn run(flow: &Flow<'_>, block: usize, mut state: State) -> BlockRun {
    let lanes = state.lanes;
    let mut events = Vec::new();
    let mut written = BTreeMap::new();
    for (line, inst) in flow.cfg.insts(flow.context.kernel, block) {
        if matters(inst) {
            let args = inst.args.iter().map(|a| flow.context.operand(&state, a)).collect();
            let based = inst
                .args
                .iter()
                .find(|a| matches!(a, Operand::Address(_)))
                .and_then(|a| a.regs().iter().filter_map(|r| written.get(r)).max().copied());
            let first = flow.first.borrow().get(&line).copied().flatten();
            events.push(Event { line, op: inst.op, exec: flow.context.exec(&state, inst), args, first, based });
        }
        flow.context.step(&mut state, inst);
        written.extend(inst.writes().into_iter().map(|r| (r, line)));
    }
    let next = &flow.cfg.blocks[block].next;
    let taken = (0..next.len()).map(|i| flow.edge(block, i, &state).map(|s| s.lanes)).collect();
    let guard = flow.last(block).filter(|i| matches!(i.op, Op::bra | Op::ret)).and_then(|i| i.guard);
    let parts = guard.is_some_and(|g| {
        let pred = flow.context.reg(&state, g.pred.reg());
        pred.holds(state.lanes).is_none() && !pred.is_uniform() && state.lanes.count_ones() > 1
    });
    BlockRun { lanes, events, taken, parts }
}

/// True if rules look at the instruction: it touches shared or global memory, or synchronises.
fn matters(inst: &Inst) -> bool {
    let spec = inst.spec();
    spec.proxy != Proxy::Nothing
        || spec.completion != Completion::Now
        || spec.operands.iter().any(|o| matches!(o.kind, Kind::At(_) | Kind::Tensor))
        || spec.pattern.contains(".sync")
        || inst.op == Op::ret
}

/// Blocks between a branch with unknown parting and its immediate postdominator.
fn divergent(cfg: &Cfg, blocks: &[Option<BlockRun>]) -> Vec<bool> {
    let mut out = vec![false; blocks.len()];
    let open = |b: usize, i: usize| blocks[b].as_ref().is_some_and(|r| r.taken[i].is_some());
    for (b, _) in blocks.iter().enumerate().filter(|(_, r)| r.as_ref().is_some_and(|r| r.parts)) {
        let sides: Vec<Vec<bool>> = (0..cfg.blocks[b].next.len())
            .filter(|&i| open(b, i))
            .map(|i| cfg.reachable(cfg.blocks[b].next[i].to, |x, e| x != b && open(x, e)))
            .collect();
        // The lanes meet at the first block, in order of flow, that every side reaches and that no path round it
        // avoids; the blocks before it are divergent.
        let common = cfg.order.iter().copied().find(|&m| {
            let avoids = |start: usize| {
                let seen = cfg.reachable(start, |x, e| x != m && open(x, e));
                (0..seen.len()).any(|x| seen[x] && x != m && (cfg.blocks[x].returns || x == b))
            };
            m != b && sides.iter().all(|s| s[m]) && cfg.blocks[b].next.iter().all(|e| e.to == m || !avoids(e.to))
        });
        for e in &cfg.blocks[b].next {
            if Some(e.to) == common {
                continue;
            }
            let seen = cfg.reachable(e.to, |x, i| x != b && Some(cfg.blocks[x].next[i].to) != common && open(x, i));
            for (x, s) in seen.iter().enumerate() {
                out[x] |= *s && x != b;
            }
        }
    }
    out
}
