//! Control flow: basic blocks, edges and role regions of a kernel's flat body. Knows labels and branches and nothing
//! of what the other instructions do.

use std::collections::BTreeMap;
use std::ops::Range;

use ptx::{Inst, Kernel, Label, Line, Op, Operand};

/// When an edge is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Whenever the block ends.
    Always,
    /// Where the guard of the block's last instruction holds.
    Guarded,
    /// Where it does not hold.
    Otherwise,
}

/// An edge to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub to: usize,
    pub way: Way,
}

/// A straight run of lines.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// Lines of the body.
    pub lines: Range<usize>,
    /// The role whose section it stands in.
    pub role: Option<usize>,
    /// Where control goes from its end; nowhere after an unguarded `ret`.
    pub next: Vec<Edge>,
    /// Edges into it: block and position in that block's `next`.
    pub from: Vec<(usize, usize)>,
    /// True if its last instruction may leave the kernel.
    pub returns: bool,
    /// True if control runs past the end of the body.
    pub falls_off: bool,
}

/// The graph.
#[derive(Debug)]
pub(crate) struct Cfg {
    pub blocks: Vec<Block>,
    /// Blocks in reverse postorder from the entry; what is missing is unreachable.
    pub order: Vec<usize>,
    /// Position of each block in `order`.
    pub rank: Vec<Option<usize>>,
}

/// The role whose section a line stands in.
pub(crate) fn role_at(kernel: &Kernel, line: usize) -> Option<usize> {
    kernel.body[..=line].iter().rev().find_map(|l| match l {
        Line::Begin(role) => Some(*role),
        _ => None,
    })?
}

impl Cfg {
    /// Builds the graph. Branches to unknown labels have no edge (a rule reports them).
    pub fn new(kernel: &Kernel) -> Cfg {
        let mut blocks = split(kernel);
        let labels = labels(kernel, &blocks);
        let count = blocks.len();
        for b in 0..count {
            connect(kernel, &mut blocks, b, &labels, count);
        }
        for b in 0..count {
            for (i, edge) in blocks[b].next.clone().into_iter().enumerate() {
                blocks[edge.to].from.push((b, i));
            }
        }
        let order = reverse_postorder(&blocks);
        let mut rank = vec![None; count];
        for (i, &b) in order.iter().enumerate() {
            rank[b] = Some(i);
        }
        Cfg { blocks, order, rank }
    }

    /// True if the edge goes back to a block that comes no later: a loop's.
    pub fn is_back(&self, from: usize, to: usize) -> bool {
        self.rank[to] <= self.rank[from]
    }

    /// The instructions of a block, with their lines.
    pub fn insts<'k>(&self, kernel: &'k Kernel, block: usize) -> impl DoubleEndedIterator<Item = (usize, &'k Inst)> {
        let lines = self.blocks[block].lines.clone();
        lines.filter_map(move |l| match &kernel.body[l] {
            Line::Inst(inst) => Some((l, inst)),
            _ => None,
        })
    }

    /// The blocks that can be reached from `start`, itself included, over edges that `open` allows.
    pub fn reachable(&self, start: usize, open: impl Fn(usize, usize) -> bool) -> Vec<bool> {
        let mut seen = vec![false; self.blocks.len()];
        let mut work = vec![start];
        while let Some(b) = work.pop() {
            if std::mem::replace(&mut seen[b], true) {
                continue;
            }
            work.extend(self.blocks[b].next.iter().enumerate().filter(|(i, _)| open(b, *i)).map(|(_, e)| e.to));
        }
        seen
    }
}

fn split(kernel: &Kernel) -> Vec<Block> {
    let (mut blocks, mut start, mut role) = (Vec::new(), 0, None);
    let mut close = |start: usize, end: usize, role| {
        let lines = start..end;
        if kernel.body[lines.clone()].iter().any(|l| matches!(l, Line::Inst(_) | Line::Label(_))) {
            let (next, from) = (Vec::new(), Vec::new());
            blocks.push(Block { lines, role, next, from, returns: false, falls_off: false });
        }
    };
    for (i, line) in kernel.body.iter().enumerate() {
        match line {
            // Labels that follow one another head the same block.
            Line::Label(_) if kernel.body[start..i].iter().any(|l| matches!(l, Line::Inst(_))) => {
                close(start, i, role);
                start = i;
            }
            Line::Begin(r) => {
                close(start, i, role);
                (start, role) = (i, *r);
            }
            Line::Inst(inst) if matches!(inst.op, Op::bra | Op::ret) => {
                close(start, i + 1, role);
                start = i + 1;
            }
            _ => {}
        }
    }
    close(start, kernel.body.len(), role);
    blocks
}

fn labels<'k>(kernel: &'k Kernel, blocks: &[Block]) -> BTreeMap<&'k Label, usize> {
    let mut out = BTreeMap::new();
    for (b, block) in blocks.iter().enumerate() {
        for line in &kernel.body[block.lines.clone()] {
            if let Line::Label(label) = line {
                out.entry(label).or_insert(b);
            }
        }
    }
    out
}

fn connect(kernel: &Kernel, blocks: &mut [Block], b: usize, labels: &BTreeMap<&Label, usize>, count: usize) {
    let last = kernel.body[blocks[b].lines.clone()].iter().rev().find_map(|l| match l {
        Line::Inst(inst) => Some(inst),
        _ => None,
    });
    let ends = last.filter(|i| matches!(i.op, Op::bra | Op::ret));
    let guarded = ends.is_none_or(|i| i.guard.is_some());
    if let Some(inst) = ends {
        blocks[b].returns = inst.op == Op::ret;
        if let Some(Operand::Label(label)) = inst.args.first()
            && let Some(&to) = labels.get(label)
        {
            let way = if guarded { Way::Guarded } else { Way::Always };
            blocks[b].next.push(Edge { to, way });
        }
    }
    if guarded {
        let way = if ends.is_some() { Way::Otherwise } else { Way::Always };
        match b + 1 < count {
            true => blocks[b].next.push(Edge { to: b + 1, way }),
            false => blocks[b].falls_off = true,
        }
    }
}

fn reverse_postorder(blocks: &[Block]) -> Vec<usize> {
    let mut seen = vec![false; blocks.len()];
    let mut out = Vec::with_capacity(blocks.len());
    let mut stack = Vec::new();
    if !blocks.is_empty() {
        seen[0] = true;
        stack.push((0, 0));
    }
    while let Some((b, i)) = stack.pop() {
        match blocks[b].next.get(i) {
            Some(edge) => {
                stack.push((b, i + 1));
                if !std::mem::replace(&mut seen[edge.to], true) {
                    stack.push((edge.to, 0));
                }
            }
            None => out.push(b),
        }
    }
    out.reverse();
    out
}
