//! What the tiles of one scale tell one another where each is read once: a word for each tile, which its warpgroup writes
//! and the warpgroups of all of them read. The word is the negated largest magnitude, so that zero means that it is not
//! there yet, and one message is both. The last to have read all zeroes them, for the next launch.

use ptx::qual::{Bits, Cmp, Int, Num, Value, Vote};
use ptx::{F32, Operand, R32, R64, op};
use tile::{Asm, WARPGROUP};

use super::abi::Shares;
use super::consumer::Lane;
use super::scale::{Largest, Meeting};
use super::shares::Words;

/// Bytes of a tile's word.
const BYTES: u32 = 4;
/// The sign.
const SIGN: i32 = i32::MIN;

/// The words of the tiles of one scale.
pub(super) struct Held {
    /// The tile's own.
    mine: R64,
    /// The first tile's.
    first: R64,
    tiles: R32,
}

impl Held {
    /// No number of warpgroups.
    pub(super) const NOT_COUNTED: i32 = -1;

    /// Those that start at tile number `first` of the tensor; the item's is number `mine`.
    pub(super) fn of(asm: &mut Asm, (maxima, shares): (R64, Shares), first: R32, mine: R32) -> Held {
        let [first, mine] = [first, mine].map(|tile| asm.b64(|d| op::mad_wide_u32(d, tile, BYTES, maxima)));
        Held { mine, first, tiles: shares.tiles }
    }

    /// Tells the others the largest of this warpgroup's tile, in one of its lanes.
    pub(super) fn tell(&self, asm: &mut Asm, most: F32, lane: &Lane) {
        let bits = asm.b32(|d| op::mov_bits(d, most));
        let word = asm.b32(|d| op::or(Bits::B32, d, bits, SIGN));
        asm.emit(op::red_max(Operand::at(self.mine, 0), word).when(lane.first));
    }

    /// Waits for all tiles' and returns their largest in every thread of the warpgroup, each of which looks at every 128th.
    pub(super) fn largest(&self, asm: &mut Asm, meeting: &Meeting, thread: R32) -> F32 {
        let mut largest = Largest::new(asm);
        let [next, again, all] = ["NEXT_TILES", "WAIT_FOR_TILES", "ALL_TILES"].map(|stem| asm.label(stem));
        let tile = asm.b32(|d| op::mov(Value::B32, d, thread));
        let before = asm.b32(|d| op::mov(Value::B32, d, 0));
        asm.place(&next);
        let ended = asm.compare(Cmp::Ge, Num::U32, before, self.tiles);
        asm.jump_if(ended, &all);
        // Threads past the last tile look at the last.
        let last = asm.b32(|d| op::sub(Int::U32, d, self.tiles, 1));
        let mine = asm.b32(|d| op::min(Int::U32, d, tile, last));
        let at = asm.b64(|d| op::mad_wide_u32(d, mine, BYTES, self.first));
        let word = asm.new_b32();
        asm.place(&again);
        asm.emit(op::ld_acquire(word, Operand::at(at, 0)));
        let missing = asm.compare(Cmp::Eq, Num::U32, word, 0);
        let some = asm.pred(|p| op::vote_sync(Vote::Any, p, missing, -1));
        asm.jump_if(some, &again);
        let negated = asm.f32(|d| op::mov_float(d, word));
        largest.take(asm, negated);
        asm.emit(op::add(Int::U32, tile, tile, WARPGROUP));
        asm.emit(op::add(Int::U32, before, before, WARPGROUP));
        asm.jump(&next);
        asm.place(&all);
        meeting.largest(asm, &largest)
    }

    /// Says that the warpgroup has the scale; one lane learns how many had it before.
    pub(super) fn leave(&self, asm: &mut Asm, scale: &Words, before: R32, lane: &Lane) {
        asm.emit(op::mov(Value::B32, before, Held::NOT_COUNTED));
        let count = scale.count(asm, before);
        asm.emit(count.when(lane.first));
    }

    /// Zeroes all words, if it was the last.
    pub(super) fn clear(&self, asm: &mut Asm, before: R32) {
        let (first, tiles) = (self.first, self.tiles);
        let last = asm.b32(|d| op::sub(Int::U32, d, tiles, 1));
        let is_last = asm.compare(Cmp::Eq, Num::U32, before, last);
        asm.only_if(is_last, "TILES_CLEARED", |asm| {
            let again = asm.label("CLEAR_TILE");
            let at = asm.b64(|d| op::mov(Value::B64, d, first));
            let left = asm.b32(|d| op::mov(Value::B32, d, tiles));
            asm.place(&again);
            asm.emit(op::red_and(Operand::at(at, 0), 0));
            asm.emit(op::add(Int::U64, at, at, BYTES));
            asm.emit(op::sub(Int::U32, left, left, 1));
            let more = asm.compare(Cmp::Ne, Num::U32, left, 0);
            asm.jump_if(more, &again);
        });
    }
}
