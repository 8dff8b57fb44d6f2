//! The mask: scores of keys that a row does not see become minus infinity.

use ptx::qual::{Cmp, Int, Num, Value};
use ptx::{R32, op};
use tile::{Accumulator, Asm};

/// The last lane's first column.
const LANE_COLUMNS: u32 = 6;

/// Which edges a block may cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edges {
    /// The last key.
    pub(super) end: bool,
    /// The diagonal.
    pub(super) diagonal: bool,
}

/// What a mask is cut from.
pub(super) struct Mask {
    /// Key rows.
    pub(super) keys: R32,
    /// The lane's first column in a tile: 2 (l % 4).
    pub(super) lane_column: R32,
    /// Of the lane's upper row in this tile: the number of keys it sees, not yet cut to `keys`.
    pub(super) seen: R32,
    /// Columns from the start of a block behind the warpgroup's first that all its rows see.
    pub(super) open: u32,
}

impl Mask {
    /// Masks the block whose first key is `column`.
    pub(super) fn apply(&self, asm: &mut Asm, scores: &Accumulator, column: R32, edges: Edges) {
        if !edges.end && !edges.diagonal {
            return;
        }
        let base = asm.b32(|d| op::add(Int::S32, d, column, self.lane_column));
        let to_end = edges.end.then(|| asm.b32(|d| op::sub(Int::S32, d, self.keys, base)));
        for half in 0..2 {
            let to_diagonal = edges.diagonal.then(|| {
                let first = asm.b32(|d| op::sub(Int::S32, d, self.seen, base));
                asm.b32(|d| op::add(Int::S32, d, first, 8 * half as u32))
            });
            // Columns below the limit are seen; the compile-time column of each register is compared with it.
            let limit = match (to_end, to_diagonal) {
                (Some(a), Some(b)) => asm.b32(|d| op::min(Int::S32, d, a, b)),
                (Some(a), None) | (None, Some(a)) => a,
                (None, None) => return,
            };
            // A lane's columns lie up to `LANE_COLUMNS` behind those that its registers are named by.
            let open = if edges.end { 0 } else { self.open.saturating_sub(LANE_COLUMNS) };
            for (column, s) in scores.row(half).filter(|&(column, _)| column >= open) {
                let hidden = asm.compare(Cmp::Le, Num::S32, limit, column);
                asm.emit(op::selp(Value::F32, s, f32::NEG_INFINITY, s, hidden));
            }
        }
    }
}
