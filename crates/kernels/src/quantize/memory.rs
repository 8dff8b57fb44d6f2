//! The kernel's shared memory, in the order of `Quantize::shared_bytes`: one ring of slots for each consumer warpgroup,
//! equal in all, so that a warpgroup finds its own by a stride.

use ptx::qual::Int;
use ptx::{Operand, R32, op};
use schedule::{HOPPER, Quantize};
use tile::{Asm, Layout, Ring, SharedTile, WARPS};

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
    pub(super) q: SharedTile,
    pub(super) k: SharedTile,
    pub(super) v: SharedTile,
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
        let mut slots = tile(schedule.scales.q.rows(), columns, stages).ok_or_else(|| unswizzled("nothing"))?;
        let mut first = None;
        for group in 0..groups {
            layout.tile(&format!("slots{group}"), &mut slots, slot);
            first.get_or_insert_with(|| slots.clone());
        }
        let first = first.ok_or_else(|| Refused::new("roles", "no consumer"))?;
        let k = first.slot_viewed_as(schedule.scales.k.rows(), columns).ok_or_else(|| unswizzled("K"))?;
        let v = first.slot_viewed_as(schedule.value_keys(), value_columns).ok_or_else(|| unswizzled("V"))?;
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
        Ok(Memory { q: first, k, v, rotation, rings, words, maxima, strides })
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
