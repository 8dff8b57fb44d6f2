//! The kernel's shared memory: tiles, rings and the tile queue, in the order of `schedule::footprint`.

use schedule::footprint::{TILE_QUEUE_SLOT_BYTES, TILE_QUEUE_SLOTS};
use schedule::{Probabilities, Schedule};
use tile::{Layout, Ring, SharedTile, TileQueue};

use super::format::Format;
use crate::Refused;

/// Warps of a warpgroup: each gives a slot back by itself.
const WARPS: u32 = 4;

/// Where everything lies, and the barriers that guard it.
pub(super) struct Memory {
    pub(super) q: SharedTile,
    pub(super) k: SharedTile,
    pub(super) v: SharedTile,
    /// O on its way out: in the Q slot that it came from, or in a tile of its own if tiles overlap.
    pub(super) o: SharedTile,
    /// P, where it is multiplied from shared memory.
    pub(super) p: Option<SharedTile>,
    /// Given back once a warpgroup when its O has been copied out of the slot, or once a warp when its last scores are
    /// computed.
    pub(super) q_ring: Ring,
    pub(super) k_ring: Ring,
    pub(super) v_ring: Ring,
    pub(super) queue: TileQueue,
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
        let mut v = tile(columns, dv, schedule.stages.kv, "V")?;
        let mut o = tile(rows, dv, 1, "O")?;
        let own_o = schedule.overlap.across_tiles;
        let slot = if own_o { q.tile_bytes() } else { q.tile_bytes().max(o.tile_bytes()) };
        layout.tile("q", &mut q, slot);
        layout.tile_tight("k", &mut k);
        layout.tile_tight("v", &mut v);
        if own_o {
            layout.tile_tight("o", &mut o);
        } else {
            o = q.viewed_as(dv).ok_or_else(|| {
                Refused::new(
                    format!("head_dim: ({qk}, {dv})"),
                    "O leaves through the shared memory of Q, so rows of both must take the same swizzle",
                )
            })?;
        }
        let p = match schedule.probabilities {
            Probabilities::Shared => {
                let mut p = tile(rows, columns, 1, "P")?;
                layout.tile_tight("p", &mut p);
                Some(p)
            }
            _ => None,
        };
        let groups = schedule.roles.consumer.warpgroups;
        let q_releases = if own_o { groups * WARPS } else { groups };
        let q_ring = Ring::new(layout, "q", schedule.stages.q, q_releases);
        let k_ring = Ring::new(layout, "k", schedule.stages.kv, groups * WARPS);
        let v_ring = Ring::new(layout, "v", schedule.stages.kv, groups * WARPS);
        let slots = TILE_QUEUE_SLOTS as u32;
        let mut queue = TileQueue::new(layout, slots, groups * WARPS);
        queue.place(layout, slots, TILE_QUEUE_SLOT_BYTES as u32);
        Ok(Memory { q, k, v, o, p, q_ring, k_ring, v_ring, queue })
    }

    pub(super) fn rings(&self) -> [&Ring; 4] {
        [&self.q_ring, &self.k_ring, &self.v_ring, self.queue.ring()]
    }
}
