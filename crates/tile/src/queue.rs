//! The tile queue: the producer decodes a tile's coordinates once and hands them over in shared memory, so that
//! integer division stays out of the consumers.

use ptx::qual::{Shuffle, Value, Wide};
use ptx::{Operand, Pred, R32, op};

use crate::asm::Asm;
use crate::layout::Layout;
use crate::ring::{End, Ring};

/// Words of a slot that are handed over.
pub const WORDS: usize = 4;

/// A ring of slots with [`WORDS`] 32-bit words each.
#[derive(Debug, Clone)]
pub struct TileQueue {
    ring: Ring,
    words: u32,
    slot_bytes: u32,
}

impl TileQueue {
    /// A queue of `slots` slots of `slot_bytes` bytes, each released by `releases` arrivals.
    pub fn new(layout: &mut Layout, slots: u32, slot_bytes: u32, releases: u32) -> TileQueue {
        let ring = Ring::new(layout, "tile", slots, releases);
        TileQueue { ring, words: layout.words("tiles", slots, slot_bytes), slot_bytes }
    }

    /// Its barriers.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Producer (one thread): waits for a free slot, stores the words and publishes them.
    pub fn put(&self, asm: &mut Asm, smem: R32, end: &End, words: [R32; WORDS]) {
        let slot = self.ring.acquire(asm, smem, end);
        let at = self.address(asm, smem, end);
        asm.emit(op::st_shared_v(Wide::V4, Value::B32, at, Operand::vector(&words)));
        self.ring.publish(asm, slot);
        self.ring.advance(asm, end);
    }

    /// Consumers: waits for a slot, reads the words into `into` in every thread and gives the slot back.
    ///
    /// The words go through a shuffle: every lane loads the same ones, but only of a shuffle from one lane does the
    /// assembler know that, and what depends on them (loop bounds, and through them stages and descriptors) stays in
    /// uniform registers.
    pub fn take(&self, asm: &mut Asm, smem: R32, end: &End, leader: Pred, into: [R32; WORDS]) {
        self.ring.ready(asm, smem, end);
        let at = self.address(asm, smem, end);
        let loaded = into.map(|_| asm.new_b32());
        asm.emit(op::ld_shared_v(Wide::V4, Value::B32, Operand::vector(&loaded), at));
        for (to, from) in into.into_iter().zip(loaded) {
            asm.emit(op::shfl_sync(Shuffle::Idx, to, from, 0, 31, -1));
        }
        asm.emit(op::bar_warp_sync(-1));
        self.ring.release(asm, smem, end, leader);
        self.ring.advance(asm, end);
    }

    fn address(&self, asm: &mut Asm, smem: R32, end: &End) -> Operand {
        let base = asm.indexed(smem, end.stage(), self.slot_bytes);
        Operand::at(base, self.words as i32)
    }
}
