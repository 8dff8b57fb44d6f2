//! The kernel's shared memory: tiles, rings and the tile queue, in the order of `schedule::footprint`.

use ptx::TensorMap;
use schedule::footprint::{
    ARRIVAL_BYTES, PartialSums, Staging, TILE_QUEUE_SLOT_BYTES, TILE_QUEUE_SLOTS, VERDICT_SLOTS, partial_sums,
    row_sum_columns, staging, sums_bytes_of_warpgroup,
};
use schedule::{Probabilities, Rescale, Schedule};
use tile::descriptor::Major;
use tile::{Asm, End, Gate, Layout, Ring, SharedTile, TileQueue, Verdict, WARPS};

use super::format::Format;
use crate::Refused;

/// Where everything lies, and the barriers that guard it.
pub(super) struct Memory {
    pub(super) q: SharedTile,
    pub(super) k: SharedTile,
    /// Row by row, or as 8-bit products read it: a row for each column, and below the rows of ones.
    pub(super) v: SharedTile,
    /// V row by row, where the producer transposes it into `v`.
    pub(super) v_rows: Option<SharedTile>,
    /// O on its way out, where `staging` says.
    pub(super) o: SharedTile,
    pub(super) staging: Staging,
    /// Says that O has left the ring of V, where it waits there.
    pub(super) o_gate: Option<Gate>,
    /// P, where it is multiplied from shared memory.
    pub(super) p: Option<SharedTile>,
    /// Offset of the total of O, where it is kept here.
    pub(super) sums: Option<u32>,
    /// Given back once a warpgroup when its O has been copied out of the slot, or once a warp when its last scores are
    /// computed.
    pub(super) q_ring: Ring,
    pub(super) k_ring: Ring,
    pub(super) v_ring: Ring,
    /// Filled by copies and given back by the warps that transpose.
    pub(super) v_rows_ring: Option<Ring>,
    pub(super) queue: TileQueue,
    /// Whether a tile must be done again, where it may have overflowed.
    pub(super) verdict: Option<Verdict>,
    /// Where a warpgroup's threads read how many shares arrived before theirs, where a query tile is split.
    pub(super) arrivals: Option<u32>,
}

/// A consumer's places in the rings.
pub(super) struct Ends {
    pub(super) tile: End,
    pub(super) q: End,
    pub(super) k: End,
    pub(super) v: End,
    pub(super) verdict: Option<End>,
}

impl Ends {
    pub(super) fn new(asm: &mut Asm, memory: &Memory) -> Ends {
        Ends {
            tile: memory.queue.ring().consumer(asm),
            q: memory.q_ring.consumer(asm),
            k: memory.k_ring.consumer(asm),
            v: memory.v_ring.consumer(asm),
            verdict: memory.verdict.as_ref().map(|verdict| verdict.end(asm)),
        }
    }
}

impl Memory {
    pub(super) fn new(layout: &mut Layout, schedule: &Schedule, format: Format) -> Result<Memory, Refused> {
        let (rows, columns) = (schedule.tile.rows, schedule.tile.columns);
        let (qk, dv) = (schedule.head_dim.qk, schedule.head_dim.v);
        let tile = |rows, width, stages, what: &str| {
            SharedTile::new(format.tensor(), rows, width, stages)
                .ok_or_else(|| Refused::new(format!("head_dim: {width}"), format!("a row of {what} has no swizzle")))
        };
        let mut q = tile(rows, qk, schedule.stages.q, "Q")?;
        let mut k = tile(columns, qk, schedule.stages.kv, "K")?;
        let mut v = match format.values() {
            Major::Mn => tile(columns, dv, schedule.stages.kv, "V")?,
            Major::K => tile(dv, columns, schedule.stages.kv, "V")?.with_rows_below(row_sum_columns(schedule)),
        };
        let transposes = schedule.transposes_values();
        let mut v_rows = transposes.then(|| tile(columns, dv, schedule.stages.kv, "V")).transpose()?;
        let mut o = SharedTile::new(format.output_tensor(schedule), rows, dv, 1)
            .ok_or_else(|| Refused::new(format!("head_dim: {dv}"), "a row of O has no swizzle"))?;
        let staging = staging(schedule);
        let slot = match staging {
            Staging::QuerySlot => q.tile_bytes().max(o.tile_bytes()),
            _ => q.tile_bytes(),
        };
        layout.tile("q", &mut q, slot);
        layout.tile_tight("k", &mut k);
        layout.tile_tight("v", &mut v);
        if let Some(v_rows) = &mut v_rows {
            layout.tile_tight("v_rows", v_rows);
        }
        match staging {
            Staging::OwnTile => layout.tile_tight("o", &mut o),
            Staging::QuerySlot => {
                o = q.viewed_as(dv).ok_or_else(|| {
                    Refused::new(
                        format!("head_dim: ({qk}, {dv})"),
                        "O leaves through the shared memory of Q, so rows of both must take the same swizzle",
                    )
                })?;
            }
            Staging::Values => {
                o = v.ring_viewed_as(o).ok_or_else(|| {
                    Refused::new(
                        format!("stages kv: {}", schedule.stages.kv),
                        "O does not fit the ring of V with its swizzle",
                    )
                })?;
            }
        }
        let p = match schedule.probabilities {
            Probabilities::Shared => {
                let mut p = tile(rows, columns, 1, "P")?;
                layout.tile_tight("p", &mut p);
                Some(p)
            }
            _ => None,
        };
        let sums = (partial_sums(schedule) == PartialSums::Shared).then(|| {
            layout.words("sums", schedule.roles.consumer.warpgroups, sums_bytes_of_warpgroup(schedule) as u32)
        });
        let groups = schedule.roles.consumer.warpgroups;
        let q_releases = if staging == Staging::QuerySlot { groups } else { groups * WARPS };
        let q_ring = Ring::new(layout, "q", schedule.stages.q, q_releases);
        let k_ring = Ring::new(layout, "k", schedule.stages.kv, groups * WARPS);
        let v_arrivals = if transposes { WARPS } else { 1 };
        let v_ring = Ring::filled_by(layout, "v", schedule.stages.kv, v_arrivals, groups * WARPS);
        let v_rows_ring = transposes.then(|| Ring::new(layout, "v_rows", schedule.stages.kv, WARPS));
        let o_gate = (staging == Staging::Values).then(|| Gate::new(layout, "o", groups));
        let (slots, slot_bytes) = (TILE_QUEUE_SLOTS as u32, TILE_QUEUE_SLOT_BYTES as u32);
        let takers = if transposes { groups + 1 } else { groups };
        let queue = TileQueue::new(layout, slots, slot_bytes, takers * WARPS);
        let verdict = (schedule.rescale == Rescale::OnOverflow)
            .then(|| Verdict::new(layout, VERDICT_SLOTS as u32, groups * WARPS));
        let arrivals = schedule.splits().then(|| layout.words("arrivals", groups, ARRIVAL_BYTES as u32));
        Ok(Memory {
            q,
            k,
            v,
            v_rows,
            o,
            staging,
            o_gate,
            p,
            sums,
            q_ring,
            k_ring,
            v_ring,
            v_rows_ring,
            queue,
            verdict,
            arrivals,
        })
    }

    /// Whether the slot of Q is free as soon as the tile's last scores are there.
    pub(super) fn q_is_free_early(&self) -> bool {
        self.staging != Staging::QuerySlot
    }

    /// Columns of the second product: those of V and those of ones.
    pub(super) fn output_columns(&self, schedule: &Schedule) -> u32 {
        schedule.head_dim.v + row_sum_columns(schedule)
    }

    /// The tensor map of V: a box has all rows of the tile that is loaded.
    pub(super) fn v_map(&self) -> TensorMap {
        let loaded = self.v_rows.as_ref().unwrap_or(&self.v);
        loaded.tensor_map(loaded.rows())
    }

    pub(super) fn rings(&self) -> impl Iterator<Item = &Ring> {
        let loaded = [&self.q_ring, &self.k_ring, &self.v_ring];
        loaded.into_iter().chain(&self.v_rows_ring).chain([self.queue.ring()])
    }
}
