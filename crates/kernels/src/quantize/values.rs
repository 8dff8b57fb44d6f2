//! V: e4m3 transposed, by a scale that many tiles share.
//!
//! A tile goes from its slots into registers, and the slots to the next tile, before anything is waited for. What is read
//! once stays there until its scale is known. The next tile is measured in its slots before that: a warpgroup waits for a
//! scale only when it has told what others wait for, one tile ahead.

use ptx::qual::{Cmp, Int, Num, Value};
use ptx::{Label, R32, op};
use schedule::Granularity;
use tile::Asm;

use super::Quantizer;
use super::abi::{Shares, Tensor};
use super::blocks::{Blocks, Columns, Registers};
use super::consumer::Here;
use super::held::Held;
use super::order::{self, Work};
use super::scale::Scale;

/// V's tiles.
pub(super) struct Values<'a> {
    tensor: &'a Tensor,
    shares: Shares,
    blocks: Blocks<'a>,
    /// Thread of the warpgroup.
    thread: R32,
}

impl<'a> Values<'a> {
    pub(super) fn new(asm: &mut Asm, qz: &'a Quantizer<'_>, shares: Shares, thread: R32) -> Values<'a> {
        Values { tensor: &qz.abi.v, shares, blocks: Blocks::new(asm, &qz.memory.v, qz.format, thread), thread }
    }

    /// What one item asks for; `kind` says what. Goes on at the second label, or where the next item has been taken and is
    /// not of V's at the first.
    pub(super) fn work(&self, asm: &mut Asm, qz: &Quantizer<'_>, next: &Here<'_>, kind: R32, to: [&Label; 2]) {
        let [taken, done] = to;
        let not = |asm: &mut Asm, work: Work| asm.compare(Cmp::Ne, Num::U32, kind, order::kind(order::V, work));
        let [holds, holding, alone, measured, known] =
            ["HOLD", "HOLDING", "MEASURED_ALONE", "MEASURED_BEFORE", "SCALE_KNOWN"].map(|stem| asm.label(stem));
        asm.comment("v");
        let here = &next.kept(asm);
        let held = self.blocks.registers(asm);
        self.fetch(asm, next, &held);
        let (most, before, ahead) = (asm.new_f32(), asm.new_b32(), asm.new_b32());
        let unmeasured = not(asm, Work::Round);
        asm.jump_unless(unmeasured, &measured);
        let largest = self.blocks.largest(asm, &held);
        let of_tile = here.meeting.largest(asm, &largest);
        let stays = not(asm, Work::Measure);
        asm.jump_if(stays, &holds);
        here.words(asm, self.tensor, self.shares).add(asm, of_tile, here.lane.first);
        asm.jump(done);

        asm.place(&holds);
        self.held(asm, qz, here).tell(asm, of_tile, &here.lane);
        asm.place(&holding);
        next.take(asm, kind);
        let other = not(asm, Work::Hold);
        asm.jump_if(other, &alone);
        let parts = next.parts(asm, self.blocks.parts());
        let largest = self.blocks.largest_of_slots(asm, next, &parts);
        let of_tile = next.meeting.largest(asm, &largest);
        self.held(asm, qz, next).tell(asm, of_tile, &next.lane);
        asm.place(&alone);
        let tiles = self.held(asm, qz, here);
        let of_all = tiles.largest(asm, &here.meeting, self.thread);
        asm.emit(op::mov(Value::F32, most, of_all));
        let words = here.words(asm, self.tensor, self.shares);
        tiles.leave(asm, &words, before, &here.lane);
        asm.emit(op::mov(Value::B32, ahead, 1));
        asm.jump(&known);

        asm.place(&measured);
        let of_all = here.words(asm, self.tensor, self.shares).largest(asm, &here.meeting, here.lane.first);
        asm.emit(op::mov(Value::F32, most, of_all));
        asm.emit(op::mov(Value::B32, before, Held::NOT_COUNTED));
        asm.emit(op::mov(Value::B32, ahead, 0));

        asm.place(&known);
        let scale = Scale::of(asm, most, 1.0);
        here.store_shared_scale(asm, self.tensor, scale.stored);
        let columns = self.columns(asm, qz, here);
        self.blocks.store(asm, &held, scale, columns);
        self.held(asm, qz, here).clear(asm, before);
        let one = asm.compare(Cmp::Eq, Num::U32, ahead, 0);
        asm.jump_if(one, done);
        let other = not(asm, Work::Hold);
        asm.jump_if(other, taken);
        next.keep(asm, here);
        self.fetch(asm, next, &held);
        asm.jump(&holding);
    }

    /// Takes a tile from its slots into registers, gives them back and goes to the next item.
    fn fetch(&self, asm: &mut Asm, next: &Here<'_>, held: &Registers) {
        let parts = next.parts(asm, self.blocks.parts());
        self.blocks.load(asm, next, held);
        next.release_together(asm, &parts);
    }

    /// The words of the tiles that share the item's scale.
    fn held(&self, asm: &mut Asm, qz: &Quantizer<'_>, here: &Here<'_>) -> Held {
        let head = here.any_head(asm, self.tensor);
        let of_head = asm.b32(|d| op::mul_lo(Int::U32, d, head, self.tensor.tiles));
        let mine = asm.b32(|d| op::add(Int::U32, d, of_head, here.tile));
        let first = match self.tensor.granularity {
            Granularity::Tensor => asm.b32(|d| op::mov(Value::B32, d, 0)),
            _ => of_head,
        };
        Held::of(asm, (qz.abi.v_maxima, self.shares), first, mine)
    }

    fn columns(&self, asm: &mut Asm, qz: &Quantizer<'_>, here: &Here<'_>) -> Columns {
        let head = here.any_head(asm, self.tensor);
        let first = asm.b32(|d| op::mul_lo(Int::U32, d, head, qz.schedule.value_columns()));
        Columns {
            codes: self.tensor.codes,
            pitch: qz.abi.v_pitch,
            first,
            tile: here.tile,
            barrier: here.meeting.barrier,
        }
    }
}
