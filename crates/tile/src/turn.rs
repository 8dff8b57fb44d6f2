//! Ping-pong: consumer warpgroups take turns on the tensor cores, by one named barrier each.
//!
//! A warpgroup that takes its turn waits on its own barrier for 128 threads of its own and 128 of the one before it;
//! passing the turn arrives on the next one's barrier without waiting (PTX ISA, "bar").

use ptx::qual::{Cmp, Int, Num, Value};
use ptx::{R32, op};

use crate::WARPGROUP;
use crate::asm::Asm;

/// The turns of a warpgroup.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    own: R32,
    next: R32,
}

impl Turn {
    /// Turns of `groups` warpgroups over barriers `first_barrier` and following; `index` is this warpgroup's, from 0.
    /// The last warpgroup opens the round by passing the turn to the first.
    pub fn new(asm: &mut Asm, first_barrier: u32, groups: u32, index: R32) -> Turn {
        let own = asm.b32(|d| op::add(Int::U32, d, index, first_barrier));
        let last = asm.compare(Cmp::Eq, Num::U32, index, groups - 1);
        let after = asm.b32(|d| op::add(Int::U32, d, own, 1));
        let next = asm.b32(|d| op::selp(Value::B32, d, first_barrier, after, last));
        asm.comment("the last warpgroup gives the first one its turn");
        asm.only_if(last, "TURN_OPENED", |asm| asm.emit(op::bar_arrive(first_barrier, 2 * WARPGROUP)));
        Turn { own, next }
    }

    /// Waits for this warpgroup's turn.
    pub fn take(&self, asm: &mut Asm) {
        asm.emit(op::bar_sync(self.own, 2 * WARPGROUP));
    }

    /// Gives the turn to the next warpgroup.
    pub fn pass(&self, asm: &mut Asm) {
        asm.emit(op::bar_arrive(self.next, 2 * WARPGROUP));
    }
}
