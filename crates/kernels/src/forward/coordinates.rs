//! A tile's coordinates as the queue hands them to the consumers.

use ptx::qual::Value;
use ptx::{R32, op};
use tile::Asm;

use super::Forward;

/// Where a tile lies, and how many key blocks it sees.
pub(super) struct Tile {
    pub(super) row: R32,
    pub(super) head: R32,
    pub(super) batch: R32,
    pub(super) blocks: R32,
    /// Not zero if it is done again with care, where tiles may overflow.
    pub(super) careful: Option<R32>,
    /// Of 8-bit elements, whose scales have one.
    pub(super) kv_head: Option<R32>,
}

impl Tile {
    pub(super) fn new(asm: &mut Asm, fwd: &Forward<'_>) -> Tile {
        let [row, head, batch, blocks] = [(); 4].map(|()| asm.new_b32());
        let careful = fwd.memory.verdict.as_ref().map(|_| asm.new_b32());
        Tile { row, head, batch, blocks, careful, kv_head: fwd.schedule.fp8.map(|_| asm.new_b32()) }
    }

    /// As the queue holds them; whether it is done with care is a mark on the number of blocks there.
    pub(super) fn words(&self) -> Vec<R32> {
        [self.row, self.head, self.batch, self.blocks].into_iter().chain(self.kv_head).collect()
    }

    /// Becomes a copy of another.
    pub(super) fn become_copy_of(&self, asm: &mut Asm, other: &Tile) {
        for (to, from) in self.words().into_iter().zip(other.words()).chain(self.careful.zip(other.careful)) {
            asm.emit(op::mov(Value::B32, to, from));
        }
    }
}
