//! What the tiles of one scale share in global memory: a maximum that each adds to, how many have, and how many have used
//! it. The last to use it sets all to zero again, for the next launch.

use ptx::qual::{Cmp, Int, Num, Value};
use ptx::{F32, Inst, Operand, Pred, R32, R64, op};
use tile::Asm;

use super::abi::Shares;
use super::scale::Meeting;

/// Bytes of a scale's words.
const BYTES: u32 = 16;
/// Offsets of the words.
const MAXIMUM: i32 = 0;
const ADDED: i32 = 4;
const USED: i32 = 8;

/// The words of one scale.
pub(super) struct Words {
    at: R64,
    tiles: R32,
}

impl Words {
    /// Those of scale number `index`.
    pub(super) fn of(asm: &mut Asm, shares: Shares, index: R32) -> Words {
        let at = asm.b64(|d| op::mad_wide_u32(d, index, BYTES, shares.words));
        Words { at, tiles: shares.tiles }
    }

    /// Adds the largest magnitude of this warpgroup's tile, in one of its lanes.
    pub(super) fn add(&self, asm: &mut Asm, most: F32, first: Pred) {
        // As integers, floats that are not negative have the same order.
        let bits = asm.b32(|d| op::mov_bits(d, most));
        asm.only_if(first, "ADDED", |asm| {
            asm.emit(op::red_max(Operand::at(self.at, MAXIMUM), bits));
            asm.emit(op::fence_gpu());
            asm.emit(op::red_add(Operand::at(self.at, ADDED), 1));
        });
    }

    /// Waits until all tiles have added theirs, and returns the maximum in every thread of the warpgroup. One lane looks:
    /// whoever looks makes those wait that add.
    pub(super) fn largest(&self, asm: &mut Asm, meeting: &Meeting, first: Pred) -> F32 {
        let most = asm.b32(|d| op::mov(Value::B32, d, 0));
        asm.only_if(first, "MAXIMUM_TAKEN", |asm| {
            let again = asm.label("WAIT_FOR_MAXIMUM");
            let added = asm.new_b32();
            asm.place(&again);
            asm.emit(op::ld_acquire(added, Operand::at(self.at, ADDED)));
            let missing = asm.compare(Cmp::Lt, Num::U32, added, self.tiles);
            asm.jump_if(missing, &again);
            // Read by an atomic: zeroing it is then one atomic after others, and needs no fence.
            asm.emit(op::atom_max(most, Operand::at(self.at, MAXIMUM), 0));
            asm.comment("the maximum is here: say so, and clear it after the last");
            let before = asm.new_b32();
            let count = self.count(asm, before);
            asm.emit(count);
            let last = asm.b32(|d| op::sub(Int::U32, d, self.tiles, 1));
            let is_last = asm.compare(Cmp::Eq, Num::U32, before, last);
            asm.only_if(is_last, "CLEARED", |asm| {
                for word in [MAXIMUM, ADDED] {
                    asm.b32(|d| op::atom_exch(d, Operand::at(self.at, word), 0));
                }
            });
        });
        let most = asm.f32(|d| op::mov_float(d, most));
        meeting.told(asm, most, first)
    }

    /// Counts one more tile that has its scale, and gives how many had it before; after the last the count is zero again.
    pub(super) fn count(&self, asm: &mut Asm, before: R32) -> Inst {
        let last = asm.b32(|d| op::sub(Int::U32, d, self.tiles, 1));
        op::atom_inc(before, Operand::at(self.at, USED), last)
    }
}
