//! Which tile comes next, and where it lies: the producer's arithmetic, once a tile.

use ptx::qual::{Bits, Int, Num, Value};
use ptx::{Operand, Pred, R32, Special, op, qual::Cmp};
use schedule::Variant;
use tile::Asm;
use tile::descriptor::Major;

use super::Forward;
use super::coordinates::Tile;
use super::shares::{self, Share};

/// Keys of one byte that a copy along them moves at a time.
const COPY_STEP: u32 = 16;

/// A tile's place.
pub(super) struct Place {
    /// First query row.
    pub(super) row: R32,
    /// Query head.
    pub(super) head: R32,
    /// KV head.
    pub(super) kv_head: R32,
    /// Batch entry.
    pub(super) batch: R32,
    /// Key blocks that some row of the tile sees, at least one.
    pub(super) blocks: R32,
    /// First key of the last of them; past the end of K and V if no row sees a key.
    pub(super) column: R32,
    /// Which share of the keys it is, where query tiles are split: the blocks are those of the share then.
    pub(super) share: Option<Share>,
}

impl Place {
    /// As the queue hands it over, `row` standing for the row.
    pub(super) fn handed_over(&self, fwd: &Forward<'_>, row: R32) -> Tile {
        let kv_head = fwd.schedule.fp8.map(|_| self.kv_head);
        Tile { row, head: self.head, batch: self.batch, blocks: self.blocks, careful: None, kv_head, share: self.share }
    }
}

/// Blocks of a tile that are still to be loaded when the next tile is drawn. Earlier, and tiles would wait for the blocks
/// that drew them while others idle; later, and the first loads of the next tile would wait for its number.
const DRAWN_AHEAD: u32 = 3;

/// Whether the next tile is to be drawn, when `left` of a tile's blocks are still to be loaded.
pub(super) fn is_due(asm: &mut Asm, blocks: R32, left: R32) -> Pred {
    let ahead = asm.b32(|d| op::min(Int::U32, d, blocks, DRAWN_AHEAD));
    asm.compare(Cmp::Eq, Num::U32, left, ahead)
}

/// The number of the first tile of this CTA.
pub(super) fn first(asm: &mut Asm) -> R32 {
    asm.b32(|d| op::mov_special(d, Special::CtaidX))
}

/// Draws the tile after `tile`: the next of the grid's stride, or of the counter that all CTAs share. `from` is what
/// [`drawn`] makes its number of, so that nothing waits for the counter before that is needed.
pub(super) fn draw(asm: &mut Asm, fwd: &Forward<'_>, tile: R32, from: R32) {
    match fwd.abi.counter {
        None => asm.emit(op::mov(Value::B32, from, tile)),
        Some(counter) => {
            // Every tile draws once, so the counter has wrapped to zero when the launch ends.
            let last = asm.b32(|d| op::sub(Int::U32, d, fwd.abi.tiles, 1));
            asm.emit(op::atom_inc(from, Operand::at(counter, 0), last));
        }
    }
}

/// The number of the tile that was drawn.
pub(super) fn drawn(asm: &mut Asm, from: R32) -> R32 {
    let ctas = asm.b32(|d| op::mov_special(d, Special::NctaidX));
    asm.b32(|d| op::add(Int::U32, d, from, ctas))
}

/// Where tile number `tile` lies.
pub(super) fn decode(asm: &mut Asm, fwd: &Forward<'_>, tile: R32) -> Place {
    let abi = &fwd.abi;
    let u32 = Int::U32;
    // Quotient and remainder.
    let divide = |asm: &mut Asm, n: R32, by: R32| {
        let quotient = asm.b32(|d| op::div(u32, d, n, by));
        let whole = asm.b32(|d| op::mul_lo(u32, d, quotient, by));
        (quotient, asm.b32(|d| op::sub(u32, d, n, whole)))
    };
    let (tile, share) = match &abi.shares {
        None => (tile, None),
        Some(shares) => {
            let (tile, share) = divide(asm, tile, shares.number);
            (tile, Some((shares, share)))
        }
    };
    let number = tile;
    let (any_head, block) = match abi.sections {
        None => divide(asm, tile, abi.query_tiles),
        Some(sections) => {
            asm.comment("of a section of heads the tiles with the most keys first");
            let per_section = asm.b32(|d| op::mul_lo(u32, d, abi.query_tiles, sections.heads));
            let (section, rest) = divide(asm, tile, per_section);
            let first_head = asm.b32(|d| op::mul_lo(u32, d, section, sections.heads));
            let left = asm.b32(|d| op::sub(u32, d, sections.heads_total, first_head));
            let heads = asm.b32(|d| op::min(u32, d, left, sections.heads));
            let (block, head) = divide(asm, rest, heads);
            (asm.b32(|d| op::add(u32, d, head, first_head)), block)
        }
    };
    let block = match fwd.schedule.variant {
        Variant::Full => block,
        _ => {
            let from_end = asm.b32(|d| op::sub(u32, d, abi.query_tiles, block));
            asm.b32(|d| op::sub(u32, d, from_end, 1))
        }
    };
    let (batch, head) = divide(asm, any_head, abi.heads);
    let kv_head = asm.b32(|d| op::div(u32, d, head, abi.group));
    let row = asm.b32(|d| op::mul_lo(u32, d, block, fwd.schedule.tile.rows));
    let visible = match fwd.schedule.variant {
        Variant::Full => abi.keys,
        _ => {
            asm.comment("keys that the tile's last row sees");
            let end = asm.b32(|d| op::add(Int::S32, d, row, fwd.schedule.tile.rows));
            let offset = asm.b32(|d| op::sub(Int::S32, d, abi.keys, abi.queries));
            let seen = asm.b32(|d| op::add(Int::S32, d, end, offset));
            let seen = asm.b32(|d| op::max(Int::S32, d, seen, 0));
            asm.b32(|d| op::min(Int::S32, d, seen, abi.keys))
        }
    };
    let columns = fwd.schedule.tile.columns;
    let up = asm.b32(|d| op::add(u32, d, visible, columns - 1));
    let blocks = asm.b32(|d| op::div(u32, d, up, columns));
    let (before, blocks) = match share {
        None => (None, blocks),
        Some((shares, index)) => {
            let divided = divide(asm, blocks, shares.number);
            let (before, blocks) = shares::part(asm, divided, index);
            (Some(before), blocks)
        }
    };
    // A tile that sees no key goes through one block all the same: loaded from past the end, which reads as zeros, and
    // masked whole, it leaves O = 0 and a log-sum-exp of minus infinity.
    let none = asm.compare(Cmp::Eq, Num::U32, blocks, 0);
    let blocks = asm.b32(|d| op::max(u32, d, blocks, 1));
    let last = asm.b32(|d| op::sub(u32, d, blocks, 1));
    let last = match before {
        None => last,
        Some(before) => asm.b32(|d| op::add(u32, d, before, last)),
    };
    let column = asm.b32(|d| op::mul_lo(u32, d, last, columns));
    let past = match fwd.format.values() {
        Major::Mn => asm.b32(|d| op::add(u32, d, abi.keys, 1)),
        // Keys lie along the rows of V, where a copy starts on 16 bytes, also past the end.
        Major::K => {
            let beyond = asm.b32(|d| op::add(u32, d, abi.keys, COPY_STEP));
            asm.b32(|d| op::and(Bits::B32, d, beyond, -(COPY_STEP as i32)))
        }
    };
    let column = asm.b32(|d| op::selp(Value::B32, d, past, column, none));
    let share = share.zip(before).map(|((_, index), before)| {
        let first = asm.b32(|d| op::mul_lo(u32, d, before, columns));
        let first = asm.b32(|d| op::selp(Value::B32, d, past, first, none));
        Share { first, index, tile: number }
    });
    Place { row, head, kv_head, batch, blocks, column, share }
}

/// The row that stands for "no tile is left".
pub(super) const NO_ROW: i32 = -1;

/// `row`, or [`NO_ROW`] if the tile is past the last one.
pub(super) fn row_or_end(asm: &mut Asm, fwd: &Forward<'_>, tile: R32, row: R32) -> (R32, Pred) {
    let past = asm.compare(Cmp::Ge, Num::U32, tile, fwd.abi.tiles);
    (asm.b32(|d| op::selp(Value::B32, d, NO_ROW, row, past)), past)
}
