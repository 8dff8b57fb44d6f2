//! The schedule and its parts as plain data.
//!
//! Holds whatever it is given: whether the numbers fit a machine is `feasible`'s business, how they are written is
//! `text`'s.

use crate::choices::{
    Accumulate, Element, Exponential, Order, Output, Pass, Probabilities, Queries, Rescale, RowSum, Scales, Scheduler,
    Split, Values, Variant,
};
use crate::target::WARPGROUP_THREADS;

/// One kernel: what it computes and how it is tiled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// The kernel's name: an ASCII identifier, `<pass>_<element>_d<head dim>[_<variant>]` where it is not further told
    /// apart.
    pub name: String,
    /// Its documentation, lines joined by `\n`, without the comment marks.
    pub doc: String,
    /// What is computed.
    pub pass: Pass,
    /// The type of Q, K and V.
    pub element: Element,
    /// Which keys a row sees.
    pub variant: Variant,
    /// Row lengths.
    pub head_dim: HeadDim,
    /// The tile of scores that one step computes.
    pub tile: Tile,
    /// Depths of the rings in shared memory.
    pub stages: Stages,
    /// Who does what, with how many registers.
    pub roles: Roles,
    /// What runs beside what.
    pub overlap: Overlap,
    /// Where the first product reads Q.
    pub queries: Queries,
    /// Where P waits for the second product.
    pub probabilities: Probabilities,
    /// When the running output is rescaled.
    pub rescale: Rescale,
    /// Who adds up the rows of P.
    pub row_sum: RowSum,
    /// What only 8-bit elements have: there if [`Element::is_fp8`].
    pub fp8: Option<Fp8>,
    /// Whether several blocks share a query tile.
    pub split: Split,
    /// How blocks find their tiles.
    pub grid: Grid,
}

/// Row lengths in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeadDim {
    /// Of Q and K: the depth of the first product.
    pub qk: u32,
    /// Of V and O: the width of the second.
    pub v: u32,
}

/// A tile of scores in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Query rows of a block, 64 for each consumer warpgroup.
    pub rows: u32,
    /// Key columns of a step.
    pub columns: u32,
}

/// Ring depths in tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stages {
    /// Of Q.
    pub q: u32,
    /// Of K, and of V.
    pub kv: u32,
}

/// The warp-specialised halves of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Roles {
    /// Loads tiles, and transposes those of V under `values: rows`.
    pub producer: Producer,
    /// Multiplies them.
    pub consumer: Consumer,
}

/// The loading role. It fills a whole warpgroup, whose idle warps leave at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Producer {
    /// Warps that work.
    pub warps: u32,
    /// Registers per thread after it gave up the rest.
    pub registers: u32,
}

/// The multiplying role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Consumer {
    /// Warpgroups, each of which owns 64 query rows.
    pub warpgroups: u32,
    /// Registers per thread after it took what the producer gave up.
    pub registers: u32,
}

/// What runs beside what. All false: one thing after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Overlap {
    /// The first product of the next key tile runs beside this tile's softmax and second product.
    pub within_warpgroup: bool,
    /// Warpgroups take turns on the tensor cores, so that one's softmax runs beside another's products.
    pub pingpong: bool,
    /// The next query tile's first product runs beside this one's epilogue.
    pub across_tiles: bool,
}

/// What only 8-bit elements have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fp8 {
    /// The type of O.
    pub output: Output,
    /// What a scale of Q and K stands for.
    pub scales: Scales,
    /// How V lies in memory.
    pub values: Values,
    /// Where partial sums of O are kept.
    pub accumulate: Accumulate,
    /// Who makes P of the scores.
    pub exponential: Exponential,
}

impl Default for Fp8 {
    fn default() -> Self {
        Self {
            output: Output::Bf16,
            scales: Scales::Block,
            values: Values::Transposed,
            accumulate: Accumulate::TensorCore,
            exponential: Exponential::Unit,
        }
    }
}

/// How blocks find their tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grid {
    /// How a block finds its next tile.
    pub scheduler: Scheduler,
    /// In which order tiles are handed out.
    pub order: Order,
}

impl Default for Grid {
    fn default() -> Self {
        Self { scheduler: Scheduler::Static, order: Order::HeadMajor }
    }
}

impl HeadDim {
    /// Rows of Q, K and V all of the same length.
    pub const fn same(length: u32) -> Self {
        Self { qk: length, v: length }
    }
}

impl Schedule {
    /// Whether both are lowered to one kernel, but for its name and what stands at its head: they differ in nothing but the
    /// size of a section, which the launch alone reads.
    pub fn is_kernel_of(&self, other: &Self) -> bool {
        let kernel = |schedule: &Self| {
            let mut kernel = Self { name: String::new(), doc: String::new(), ..schedule.clone() };
            if let Order::LongestFirst { .. } = kernel.grid.order {
                kernel.grid.order = Order::LongestFirst { l2_bytes: 0, heads: None };
            }
            kernel
        };
        kernel(self) == kernel(other)
    }

    /// Of every four parts of P, how many are made without the exponential unit.
    pub fn linear_quarters(&self) -> u32 {
        match self.fp8.map(|fp8| fp8.exponential) {
            Some(Exponential::Linear(quarters)) => quarters,
            _ => 0,
        }
    }

    /// Of every eight elements of P, how many a polynomial makes.
    pub fn polynomial_eighths(&self) -> u32 {
        match self.fp8.map(|fp8| fp8.exponential) {
            Some(Exponential::Polynomial(eighths)) => eighths,
            _ => 0,
        }
    }

    /// Whether blocks that every row sees whole are made P by the maxima at hand, which 8-bit elements are where O is
    /// corrected only above a threshold.
    pub fn goes_by_maxima_at_hand(&self) -> bool {
        self.fp8.is_some() && self.rescale != Rescale::Always && self.overlap.within_warpgroup
    }

    /// Whether 8-bit V comes row by row and is transposed by the producer.
    pub fn transposes_values(&self) -> bool {
        self.fp8.is_some_and(|fp8| fp8.values == Values::Rows)
    }

    /// Whether several blocks share a query tile.
    pub fn splits(&self) -> bool {
        self.split != Split::None
    }

    /// Warpgroups of a block: the consumers and the producer's.
    pub const fn warpgroups(&self) -> u32 {
        self.roles.consumer.warpgroups.saturating_add(1)
    }

    /// Threads of a block.
    pub const fn threads(&self) -> u32 {
        self.warpgroups().saturating_mul(WARPGROUP_THREADS)
    }
}
