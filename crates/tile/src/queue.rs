//! The tile queue: the producer decodes a tile's coordinates once and hands them over in shared memory, so that
//! integer division stays out of the consumers.

use ptx::qual::{Shuffle, Value, Wide};
use ptx::{Operand, Pred, R32, op};

use crate::asm::Asm;
use crate::layout::Layout;
use crate::ring::{End, Ring};

/// Words that one access moves.
const WORDS: usize = 4;

/// A ring of slots of 32-bit words, four or more.
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

    /// Producer (one thread): waits for a free slot, stores the words and publishes them. The end stays where it is.
    pub fn put(&self, asm: &mut Asm, smem: R32, end: &End, words: &[R32]) {
        let slot = self.ring.acquire(asm, smem, end);
        let base = asm.indexed(smem, end.stage(), self.slot_bytes);
        for (at, part) in self.parts(base, words) {
            asm.emit(match *part {
                [word] => op::st_shared(Value::B32, at, word),
                _ => op::st_shared_v(Wide::V4, Value::B32, at, Operand::vector(part)),
            });
        }
        self.ring.publish(asm, slot);
    }

    /// Consumers: waits for a slot, reads the words into `into` in every thread and gives the slot back.
    ///
    /// The words go through a shuffle: every lane loads the same ones, but only of a shuffle from one lane does the
    /// assembler know that, and what depends on them (loop bounds, and through them stages and descriptors) stays in
    /// uniform registers.
    pub fn take(&self, asm: &mut Asm, smem: R32, end: &End, leader: Pred, into: &[R32]) {
        self.ring.ready(asm, smem, end);
        let base = asm.indexed(smem, end.stage(), self.slot_bytes);
        let loaded: Vec<R32> = into.iter().map(|_| asm.new_b32()).collect();
        for (at, part) in self.parts(base, &loaded) {
            asm.emit(match *part {
                [word] => op::ld_shared(Value::B32, word, at),
                _ => op::ld_shared_v(Wide::V4, Value::B32, Operand::vector(part), at),
            });
        }
        for (&to, from) in into.iter().zip(loaded) {
            asm.emit(op::shfl_sync(Shuffle::Idx, to, from, 0, 31, -1));
        }
        asm.emit(op::bar_warp_sync(-1));
        self.ring.release(asm, smem, end, leader);
        self.ring.advance(asm, end);
    }

    /// Words by fours with their places in the slot at `base`, and what is left one by one.
    fn parts<'w>(&self, base: R32, words: &'w [R32]) -> impl Iterator<Item = (Operand, &'w [R32])> {
        let (fours, ones) = words.split_at(words.len() / WORDS * WORDS);
        let first = self.words as usize;
        fours.chunks(WORDS).chain(ones.chunks(1)).scan(first, move |next, part| {
            let at = Operand::at(base, *next as i32);
            *next += size_of::<u32>() * part.len();
            Some((at, part))
        })
    }
}
