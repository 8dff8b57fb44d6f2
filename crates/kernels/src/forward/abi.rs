//! The kernel's parameters: their names are the contract with the launch side.

use ptx::{F32, R32, R64};
use schedule::{Order, Scales, Schedule, Scheduler};
use tile::{Program, WGMMA_ROWS};

use super::memory::Memory;

/// The parameters, in registers.
pub(super) struct Abi {
    /// Q: (column, query, head, batch).
    pub(super) q: R64,
    /// K: (column, key, KV head, batch).
    pub(super) k: R64,
    /// V: (column, key, KV head, batch), or transposed (key, column, KV head, batch).
    pub(super) v: R64,
    /// O: (column, query, head, batch), 64 rows a box.
    pub(super) o: R64,
    /// Pointer to the log-sum-exp, f32 [batch, head, query].
    pub(super) lse: R64,
    /// Query rows.
    pub(super) queries: R32,
    /// Key rows.
    pub(super) keys: R32,
    /// Query heads of a batch entry.
    pub(super) heads: R32,
    /// Query heads that share a KV head.
    pub(super) group: R32,
    /// Query tiles of a head.
    pub(super) query_tiles: R32,
    /// All tiles, each share of one counted by itself.
    pub(super) tiles: R32,
    /// Heads of all batch entries, and of a section whose K and V fit the L2 (longest first only).
    pub(super) sections: Option<Sections>,
    /// Pointer to the tile counter, zero before and after the launch (dynamic grids only).
    pub(super) counter: Option<R64>,
    /// Shares of a query tile's keys (`split: keys` only).
    pub(super) shares: Option<Shares>,
    /// scale * log2(e).
    pub(super) scale_log2: F32,
    /// The power of two nearest to it (16-bit elements only: scales of their own leave 8-bit ones no such number).
    pub(super) scale_pow2: Option<F32>,
    /// Of 8-bit elements.
    pub(super) scales: Option<ElementScales>,
}

/// What blocks that share a query tile are launched with.
pub(super) struct Shares {
    /// How many shares the keys of each query tile are split into.
    pub(super) number: R32,
    /// Pointer to the parts of O and the row statistics of all shares of all query tiles.
    pub(super) workspace: R64,
    /// Pointer to a u32 for each consumer warpgroup of each query tile: shares that arrived, zero before and after.
    pub(super) arrivals: R64,
}

/// What stored Q, K and V are multiplied with: pointers to f32, and strides in elements, any of which may be 0.
pub(super) struct ElementScales {
    /// Of Q.
    pub(super) q: R64,
    pub(super) q_batch: R32,
    /// By query head, and by KV head.
    pub(super) q_head: R32,
    pub(super) q_kv_head: R32,
    /// By 64 rows (`scales: block` only).
    pub(super) q_block: Option<R32>,
    /// Of K.
    pub(super) k: R64,
    pub(super) k_batch: R32,
    pub(super) k_kv_head: R32,
    /// By the schedule's key tile (`scales: block` only).
    pub(super) k_block: Option<R32>,
    /// Of V.
    pub(super) v: R64,
    pub(super) v_batch: R32,
    pub(super) v_kv_head: R32,
}

impl ElementScales {
    fn declare(program: &mut Program, scales: Scales) -> ElementScales {
        let by_block = scales == Scales::Block;
        ElementScales {
            q: program.u64("q_scales"),
            q_batch: program.u32("q_scale_batch"),
            q_head: program.u32("q_scale_head"),
            q_kv_head: program.u32("q_scale_kv_head"),
            q_block: by_block.then(|| program.u32("q_scale_block")),
            k: program.u64("k_scales"),
            k_batch: program.u32("k_scale_batch"),
            k_kv_head: program.u32("k_scale_kv_head"),
            k_block: by_block.then(|| program.u32("k_scale_block")),
            v: program.u64("v_scales"),
            v_batch: program.u32("v_scale_batch"),
            v_kv_head: program.u32("v_scale_kv_head"),
        }
    }
}

/// Bounds of the longest-first order.
#[derive(Clone, Copy)]
pub(super) struct Sections {
    /// Heads of all batch entries.
    pub(super) heads_total: R32,
    /// Heads of a section.
    pub(super) heads: R32,
}

impl Abi {
    pub(super) fn declare(program: &mut Program, schedule: &Schedule, memory: &Memory) -> Abi {
        Abi {
            q: program.tensor("q", memory.q.tensor_map(schedule.tile.rows)),
            k: program.tensor("k", memory.k.tensor_map(schedule.tile.columns)),
            v: program.tensor("v", memory.v_map()),
            o: program.tensor("o", memory.o.tensor_map(WGMMA_ROWS)),
            lse: program.u64("lse"),
            queries: program.u32("queries"),
            keys: program.u32("keys"),
            heads: program.u32("heads"),
            group: program.u32("group"),
            query_tiles: program.u32("query_tiles"),
            tiles: program.u32("tiles"),
            sections: matches!(schedule.grid.order, Order::LongestFirst { .. })
                .then(|| Sections { heads_total: program.u32("heads_total"), heads: program.u32("section") }),
            counter: (schedule.grid.scheduler == Scheduler::Dynamic).then(|| program.u64("counter")),
            shares: schedule.splits().then(|| Shares {
                number: program.u32("shares"),
                workspace: program.u64("workspace"),
                arrivals: program.u64("arrivals"),
            }),
            scale_log2: program.f32("scale_log2"),
            scale_pow2: schedule.fp8.is_none().then(|| program.f32("scale_pow2")),
            scales: schedule.fp8.map(|fp8| ElementScales::declare(program, fp8.scales)),
        }
    }

    pub(super) fn tensors(&self) -> [R64; 4] {
        [self.q, self.k, self.v, self.o]
    }
}
