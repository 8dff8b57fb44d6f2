//! A tile's coordinates as the queue hands them to the consumers.

use ptx::qual::Value;
use ptx::{R32, op};
use tile::Asm;

/// Where a tile lies, and how many key blocks it sees.
pub(super) struct Tile {
    pub(super) row: R32,
    pub(super) head: R32,
    pub(super) batch: R32,
    pub(super) blocks: R32,
    /// Not zero if it is done again with care, where tiles may overflow.
    pub(super) careful: Option<R32>,
}

impl Tile {
    /// `may_overflow`: whether it says how it is done.
    pub(super) fn new(asm: &mut Asm, may_overflow: bool) -> Tile {
        Tile {
            row: asm.new_b32(),
            head: asm.new_b32(),
            batch: asm.new_b32(),
            blocks: asm.new_b32(),
            careful: may_overflow.then(|| asm.new_b32()),
        }
    }

    /// Becomes a copy of another.
    pub(super) fn become_copy_of(&self, asm: &mut Asm, other: &Tile) {
        let pairs =
            [(self.row, other.row), (self.head, other.head), (self.batch, other.batch), (self.blocks, other.blocks)];
        for (to, from) in pairs.into_iter().chain(self.careful.zip(other.careful)) {
            asm.emit(op::mov(Value::B32, to, from));
        }
    }
}
