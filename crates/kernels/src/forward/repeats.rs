//! Tiles that are done again: the producer hears the verdict on each tile one tile later, and hands a tile that
//! overflowed out once more, to be done with care. How a tile is done depends on nothing but its own numbers, so that a
//! launch gives the same bits whatever CTA takes a tile.

use ptx::qual::{Cmp, Num, Value};
use ptx::{Label, Pred, R32, op};
use tile::{Asm, End, Verdict};

use super::{Forward, order};

/// Stands for "no tile".
const NONE: i32 = -1;

/// What the producer carries from tile to tile.
pub(super) struct Repeats<'f> {
    verdict: &'f Verdict,
    end: End,
    /// Number of the tile at hand.
    tile: R32,
    /// Number of the tile before it whose verdict has not been heard, or [`NONE`].
    before: R32,
    /// What the number of the tile that was drawn and not yet handed over is made of.
    from: R32,
    /// Whether the tile at hand was at hand before, 0 or 1: then it is done with care.
    pub(super) repeated: R32,
    /// Where the tile at hand is past the last one.
    pub(super) past: Label,
}

impl<'f> Repeats<'f> {
    pub(super) fn new(asm: &mut Asm, verdict: &'f Verdict, tile: R32, from: R32) -> Repeats<'f> {
        let end = verdict.end(asm);
        let mut set = |value: i32| asm.b32(|d| op::mov(Value::B32, d, value));
        let (before, repeated) = (set(NONE), set(0));
        Repeats { verdict, end, tile, before, from, repeated, past: asm.label("PAST_THE_LAST") }
    }

    /// Draws the next tile, unless the one at hand is a repetition: then the next was drawn before.
    pub(super) fn draw(&self, asm: &mut Asm, fwd: &Forward<'_>) {
        let first_time = asm.compare(Cmp::Eq, Num::U32, self.repeated, 0);
        asm.only_if(first_time, "DRAWN", |asm| order::draw(asm, fwd, self.tile, self.from));
    }

    /// Goes on to the tile that was drawn, or back to the one before if it overflowed.
    pub(super) fn go_on(&self, asm: &mut Asm, smem: R32) {
        asm.comment("hear of the tile before this one, and go on");
        let next = order::drawn(asm, self.from);
        asm.emit(op::mov(Value::B32, self.repeated, 0));
        self.if_to_be_repeated(asm, smem, |asm, repeats| asm.emit(op::mov(Value::B32, next, repeats.before)));
        asm.emit(op::mov(Value::B32, self.before, self.tile));
        asm.emit(op::mov(Value::B32, self.tile, next));
    }

    /// The code at [`Repeats::past`]: waits for the verdict on the last tile, and says that no tile is left once it is a
    /// good one. Consumers that wait for the next tile before they finish this one are told first that there is none.
    pub(super) fn at_the_end(&self, asm: &mut Asm, fwd: &Forward<'_>, next_tile: &Label, no_tile: impl Fn(&mut Asm)) {
        asm.place(&self.past);
        if fwd.schedule.overlap.across_tiles {
            asm.comment("no tile for now: the last one is to be finished");
            no_tile(asm);
        }
        self.if_to_be_repeated(asm, fwd.threads.smem, |asm, repeats| {
            asm.emit(op::mov(Value::B32, repeats.tile, repeats.before));
            asm.emit(op::mov(Value::B32, repeats.before, NONE));
            asm.jump(next_tile);
        });
        asm.comment("no tile is left");
        no_tile(asm);
    }

    /// Waits for the verdict on the tile before, if there is one, and runs code if it is to be done again.
    fn if_to_be_repeated(&self, asm: &mut Asm, smem: R32, code: impl FnOnce(&mut Asm, &Self)) {
        let any: Pred = asm.compare(Cmp::Ne, Num::S32, self.before, NONE);
        asm.only_if(any, "HEARD", |asm| {
            let again = self.verdict.hear(asm, smem, &self.end);
            asm.only_if(again, "SOUND", |asm| {
                asm.emit(op::mov(Value::B32, self.repeated, 1));
                code(asm, self);
            });
        });
    }
}
