//! Blocks of a tile that none of a warpgroup's rows sees, under the causal mask.
//!
//! A tile's blocks reach to the keys of its last row. Those that lie past the keys of a warpgroup's own last row would be
//! masked whole; they are given back as they come, and the tensor cores are left to the other warpgroups.

use ptx::qual::{Cmp, Int, Num};
use ptx::{R32, op};
use schedule::{Schedule, Variant};
use tile::Asm;

use super::consumer::Consumer;

/// Rows of a warpgroup.
const GROUP_ROWS: u32 = 64;

/// Whether a warpgroup gives such blocks back: where it may find them when the diagonal starts at a tile's corner, and a tile
/// starts after the one before it has ended.
fn may_be(schedule: &Schedule) -> bool {
    let causal = schedule.variant != Variant::Full;
    causal && !schedule.overlap.across_tiles && !schedule.tile.columns.is_multiple_of(schedule.tile.rows)
}

/// The most of them that a warpgroup may find in a tile.
fn most(schedule: &Schedule) -> u32 {
    (schedule.tile.rows - GROUP_ROWS).div_ceil(schedule.tile.columns)
}

/// Columns from the start of a block behind the first that every row of the warpgroup sees. Where blocks past its last row
/// are given back, that row sees a key behind this block, and its first row all but as many as there are rows between.
pub(super) fn open_columns(schedule: &Schedule) -> u32 {
    if may_be(schedule) { (schedule.tile.columns + 2).saturating_sub(GROUP_ROWS) } else { 0 }
}

/// Goes past them, from the tile's last block, at which the warpgroup is. One block stays, also if no row sees a key. Of a
/// share of the keys, blocks and keys are counted from its first: one that has no block but such keeps that, masked whole.
pub(super) fn skip(asm: &mut Asm, consumer: &Consumer<'_, '_>) {
    if !may_be(consumer.fwd.schedule) {
        return;
    }
    let seen = keys_seen_by_last_row(asm, consumer);
    let least = asm.b32(|d| op::max(Int::S32, d, seen, 1));
    let sees = asm.label("SEEN");
    for _ in 0..most(consumer.fwd.schedule) {
        let seen = asm.compare(Cmp::Lt, Num::S32, consumer.column, least);
        asm.jump_if(seen, &sees);
        asm.comment("none of this warpgroup's rows sees the block");
        consumer.give_block_back(asm);
    }
    asm.place(&sees);
}

fn keys_seen_by_last_row(asm: &mut Asm, consumer: &Consumer<'_, '_>) -> R32 {
    let last = asm.b32(|d| op::add(Int::U32, d, consumer.group_row, GROUP_ROWS - 1));
    consumer.tile.keys_seen(asm, consumer.fwd, last)
}
