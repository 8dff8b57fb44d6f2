//! The kernel's shared memory, in the order of `Quantize::shared_bytes`: one ring of slots for each consumer warpgroup,
//! equal in all, so that a warpgroup finds its own by a stride.
//!
//! A slot holds 64 rows, those of a product. A longer tile takes the slots after its first too, so that short tiles leave
//! none of them empty and a long one's are filled again one by one, as they are done with.

use ptx::qual::Int;
use ptx::{Operand, R32, op};
use schedule::{HOPPER, Quantize};
use tile::{Asm, Layout, Ring, SharedTile, WARPS, WGMMA_ROWS};

use super::format::Format;
use crate::Refused;
/// Bytes that say what a slot holds, and bytes of a warpgroup's maxima.
pub(super) const WORDS_BYTES: u32 = 16;
/// Sets of a warpgroup's maxima: one is written while the other may still be read.
pub(super) const MAXIMA_SETS: u32 = 2;

/// Where everything lies, and the barriers that guard it. Tiles, rings and words are those of the first warpgroup; the
/// others' are a stride further each.
pub(super) struct Memory {
    /// A tile of Q, of K and of V: three views of the same slots.
    pub(super) q: Tile,
    pub(super) k: Tile,
    pub(super) v: Tile,
    /// The matrices of the rotation, a stage each.
    pub(super) rotation: SharedTile,
    /// By warpgroup.
    pub(super) rings: Vec<Ring>,
    /// What each slot holds: four words.
    words: u32,
    /// The maxima of a warpgroup's warps.
    maxima: u32,
    strides: Strides,
}

/// Rows of a tensor that one item takes, in as many slots as they need.
pub(super) struct Tile {
    /// What a slot holds of it. The last slot's rows end with the tile, and so may be rows of the slot before again.
    pub(super) slot: SharedTile,
    pub(super) rows: u32,
}

impl Tile {
    /// Slots that it takes.
    pub(super) fn parts(&self) -> u32 {
        Quantize::parts(self.rows)
    }

    /// The first row of the last slot.
    pub(super) fn last_row(&self) -> u32 {
        self.rows - self.slot.rows()
    }

    /// Whether some rows are in two slots.
    pub(super) fn overlaps(&self) -> bool {
        !self.rows.is_multiple_of(self.slot.rows())
    }
}

/// Bytes from one warpgroup's to the next's.
#[derive(Clone, Copy)]
struct Strides {
    slots: u32,
    barriers: u32,
    words: u32,
    maxima: u32,
}

/// A warpgroup's addresses.
#[derive(Clone, Copy)]
pub(super) struct Bases {
    /// Of its slots, without the tile's offset.
    pub(super) slots: R32,
    /// Of its barriers, without the first ring's offsets.
    pub(super) barriers: R32,
    /// Of what its slots hold.
    pub(super) words: R32,
    /// Of its warps' maxima.
    pub(super) maxima: R32,
}

impl Memory {
    pub(super) fn new(layout: &mut Layout, schedule: &Quantize, format: Format) -> Result<Memory, Refused> {
        let groups = schedule.roles.consumer.warpgroups;
        let stages = schedule.stages;
        let slot = schedule.slot_bytes(&HOPPER) as u32;
        let (columns, value_columns) = (schedule.columns(), schedule.value_columns());
        let unswizzled = |what: &str| {
            let reason = format!("rows of {what} and of Q take different swizzles and share a ring");
            Refused::new(format!("head_dim: {}", schedule.head_dim), reason)
        };
        let tile = |rows, width, stages| SharedTile::new(format.tensor(), rows, width, stages);
        let mut slots = tile(WGMMA_ROWS, columns, stages).ok_or_else(|| unswizzled("nothing"))?;
        let mut first = None;
        for group in 0..groups {
            layout.tile(&format!("slots{group}"), &mut slots, slot);
            first.get_or_insert_with(|| slots.clone());
        }
        let first = first.ok_or_else(|| Refused::new("roles", "no consumer"))?;
        let v = first.slot_viewed_as(WGMMA_ROWS, value_columns).ok_or_else(|| unswizzled("V"))?;
        let unit = schedule.unit();
        let mut rotation = tile(unit, unit, columns / unit).ok_or_else(|| unswizzled("the rotation"))?;
        layout.tile_tight("rotation", &mut rotation);
        let rings = (0..groups).map(|group| Ring::new(layout, &format!("ring{group}"), stages, WARPS)).collect();
        let words = layout.words("words", groups * stages, WORDS_BYTES);
        let maxima = layout.words("maxima", groups * MAXIMA_SETS, WORDS_BYTES);
        let strides = Strides {
            slots: stages * slot,
            barriers: 2 * 8 * stages,
            words: WORDS_BYTES * stages,
            maxima: MAXIMA_SETS * WORDS_BYTES,
        };
        let q = Tile { slot: first.clone(), rows: schedule.scales.q.rows() };
        let k = Tile { slot: first, rows: schedule.scales.k.rows() };
        let v = Tile { slot: v, rows: schedule.value_keys() };
        Ok(Memory { q, k, v, rotation, rings, words, maxima, strides })
    }

    /// The addresses of a warpgroup, counted from the first that consumes.
    pub(super) fn bases(&self, asm: &mut Asm, smem: R32, group: R32) -> Bases {
        let mut at = |stride: u32| asm.b32(|d| op::mad_lo(Int::U32, d, group, stride, smem));
        let Strides { slots, barriers, words, maxima } = self.strides;
        let (slots, barriers, words, maxima) = (at(slots), at(barriers), at(words), at(maxima));
        let words = asm.b32(|d| op::add(Int::U32, d, words, self.words));
        let maxima = asm.b32(|d| op::add(Int::U32, d, maxima, self.maxima));
        Bases { slots, barriers, words, maxima }
    }
}

impl Bases {
    /// What the slot of a stage holds: four words.
    pub(super) fn words_of(&self, asm: &mut Asm, stage: Option<R32>) -> Operand {
        Operand::at(asm.indexed(self.words, stage, WORDS_BYTES), 0)
    }
}
