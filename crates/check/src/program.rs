//! A kernel as the rules see it: its graph, every warp's run through it, and addresses resolved to regions.

use ptx::{Completion, Inst, Kernel, Line, Operand, Reg, Region};

use crate::cfg::Cfg;
use crate::eval::SHARED_BASE;
use crate::value::{Mask, Value};
use crate::warp::{Event, WarpRun};

/// Warps that are run at most: a CTA has no more.
const MOST_WARPS: u32 = 32;

/// Everything that the rules read.
pub(crate) struct Program<'a> {
    pub kernel: &'a Kernel,
    pub cfg: Cfg,
    pub warps: Vec<WarpRun>,
}

/// Where in the shared memory an address points: one region, and the byte offsets it may take there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    pub region: usize,
    /// From the start of the dynamic shared memory; sorted.
    pub offsets: Vec<u32>,
}

impl<'a> Program<'a> {
    /// Builds the graph and runs the warps.
    pub fn new(kernel: &'a Kernel) -> Program<'a> {
        let cfg = Cfg::new(kernel);
        let count = kernel.threads.div_ceil(32).min(MOST_WARPS);
        let warps = (0..count).map(|w| WarpRun::new(kernel, &cfg, w)).collect();
        Program { kernel, cfg, warps }
    }

    /// The instruction of a line.
    pub fn inst(&self, line: usize) -> Option<&'a Inst> {
        match self.kernel.body.get(line) {
            Some(Line::Inst(inst)) => Some(inst),
            _ => None,
        }
    }

    /// True if some warp takes that edge.
    pub fn taken(&self, block: usize, edge: usize) -> bool {
        self.warps.iter().any(|w| w.takes(block, edge))
    }

    /// All events of all warps: the warp, the block, the event.
    pub fn events(&self) -> impl Iterator<Item = (&WarpRun, usize, &Event)> {
        self.warps.iter().flat_map(|w| w.events().map(move |(b, e)| (w, b, e)))
    }

    /// The byte offsets in the dynamic shared memory that an address may take, if they are known.
    pub fn offsets(&self, address: &Value, lanes: Mask) -> Option<Vec<i64>> {
        Some(address.possible(lanes)?.into_iter().map(|v| v as i64 - SHARED_BASE as i64).collect())
    }

    /// The region that an address points into, if it is known and the same for every lane and alternative.
    pub fn place(&self, address: &Value, lanes: Mask) -> Option<Place> {
        let offsets: Vec<u32> =
            self.offsets(address, lanes)?.into_iter().map(|o| u32::try_from(o).ok()).collect::<Option<_>>()?;
        let first = *offsets.first()?;
        let region = self.kernel.shared.iter().position(|r| r.offset <= first && first < r.end())?;
        let r = &self.kernel.shared[region];
        offsets.iter().all(|o| r.offset <= *o && *o < r.end()).then_some(Place { region, offsets })
    }

    /// The region of that index.
    pub fn region(&self, index: usize) -> &'a Region {
        &self.kernel.shared[index]
    }

    /// Name of the role that a warp belongs to, for messages.
    pub fn role_name(&self, warp: u32) -> &'a str {
        self.kernel.roles.iter().find(|r| r.warps.contains(&warp)).map_or("all", |r| r.name.as_str())
    }

    /// The edge along which a wait on an mbarrier has passed, if `block` ends in a branch on the wait's predicate.
    pub fn passing_edge(&self, block: usize, wait: &Event) -> Option<usize> {
        let pred = match self.inst(wait.line)?.args.first()? {
            Operand::Reg(r) => *r,
            _ => return None,
        };
        let (_, last) = self.cfg.insts(self.kernel, block).next_back()?;
        let guard = last.guard.filter(|g| g.pred.reg() == pred)?;
        let way = if guard.negated { crate::cfg::Way::Otherwise } else { crate::cfg::Way::Guarded };
        self.cfg.blocks[block].next.iter().position(|e| e.way == way)
    }
}

/// The operands of a warpgroup product, whatever its element type.
pub(crate) struct Product<'a> {
    /// Accumulator registers.
    pub d: &'a [Reg],
    /// Registers of A, empty if it comes from shared memory.
    pub a: &'a [Reg],
    inst: &'a Inst,
}

impl<'a> Product<'a> {
    /// The product that an instruction is, if it is one.
    pub fn of(inst: &'a Inst) -> Option<Product<'a>> {
        if inst.spec().completion != Completion::WgmmaGroup {
            return None;
        }
        let Some(Operand::Vector(d)) = inst.args.first() else { return None };
        let a = match inst.args.get(1) {
            Some(Operand::Vector(a)) => a.as_slice(),
            _ => &[],
        };
        Some(Product { d, a, inst })
    }

    /// Columns of the result: two f32 accumulators of a thread for every four.
    pub fn columns(&self) -> u32 {
        self.d.len() as u32 * 2
    }

    /// Bytes of an element of A or B.
    pub fn element_bytes(&self) -> u32 {
        let eight = self.inst.quals.iter().any(|q| ptx::qual::MmaK32::columns(q).is_some());
        if eight { 1 } else { 2 }
    }

    /// Position of the operand that the manual calls so.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.inst.spec().operands.iter().position(|o| o.name == name)
    }

    /// An immediate operand.
    pub fn immediate(&self, name: &str) -> Option<i64> {
        match self.inst.args.get(self.position(name)?)? {
            Operand::Int(v) => Some(*v),
            _ => None,
        }
    }

    /// The descriptor operands in shared memory: name, position, rows of the operand, and whether it is transposed.
    pub fn descriptors(&self) -> Vec<(usize, u32, bool)> {
        let transposed = |name| self.immediate(name).unwrap_or(0) != 0;
        let mut out = Vec::new();
        if self.a.is_empty()
            && let Some(a) = self.position("a")
        {
            out.push((a, 64, transposed("trans_a")));
        }
        if let Some(b) = self.position("b") {
            out.push((b, self.columns(), transposed("trans_b")));
        }
        out
    }
}
