//! A tile's coordinates as the queue hands them to the consumers.

use ptx::qual::{Int, Value};
use ptx::{R32, op};
use tile::Asm;

use super::Forward;
use super::shares::Share;

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
    /// Which share of the keys it is, where query tiles are split.
    pub(super) share: Option<Share>,
}

impl Tile {
    pub(super) fn new(asm: &mut Asm, fwd: &Forward<'_>) -> Tile {
        let [row, head, batch, blocks] = [(); 4].map(|()| asm.new_b32());
        let careful = fwd.memory.verdict.as_ref().map(|_| asm.new_b32());
        let kv_head = fwd.schedule.fp8.map(|_| asm.new_b32());
        let share = fwd.abi.shares.as_ref().map(|_| Share::new(asm));
        Tile { row, head, batch, blocks, careful, kv_head, share }
    }

    /// As the queue holds them; whether it is done with care is a mark on the number of blocks there.
    pub(super) fn words(&self) -> Vec<R32> {
        let share = self.share.iter().flat_map(Share::words);
        [self.row, self.head, self.batch, self.blocks].into_iter().chain(self.kv_head).chain(share).collect()
    }

    /// How many keys there are, from its first one on.
    pub(super) fn keys(&self, asm: &mut Asm, fwd: &Forward<'_>) -> R32 {
        self.in_share(asm, fwd.abi.keys)
    }

    /// How many keys one of its rows sees under the causal mask, from its first one on and not yet cut to those there are:
    /// bottom-right aligned, row i sees keys up to i + keys - queries.
    pub(super) fn keys_seen(&self, asm: &mut Asm, fwd: &Forward<'_>, row_in_tile: R32) -> R32 {
        let offset = asm.b32(|d| op::sub(Int::S32, d, fwd.abi.keys, fwd.abi.queries));
        let row = asm.b32(|d| op::add(Int::S32, d, self.row, row_in_tile));
        let last_seen = asm.b32(|d| op::add(Int::S32, d, row, offset));
        let seen = asm.b32(|d| op::add(Int::S32, d, last_seen, 1));
        self.in_share(asm, seen)
    }

    /// A key's number, counted from the first key of the share.
    fn in_share(&self, asm: &mut Asm, key: R32) -> R32 {
        match self.share {
            None => key,
            Some(share) => asm.b32(|d| op::sub(Int::S32, d, key, share.first)),
        }
    }

    /// Becomes a copy of another.
    pub(super) fn become_copy_of(&self, asm: &mut Asm, other: &Tile) {
        for (to, from) in self.words().into_iter().zip(other.words()).chain(self.careful.zip(other.careful)) {
            asm.emit(op::mov(Value::B32, to, from));
        }
    }
}
