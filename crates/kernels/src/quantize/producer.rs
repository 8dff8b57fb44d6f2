//! The producers: a thread for each warpgroup that consumes, which is dealt V, draws items and keeps that one's ring full.
//! None waits for another's ring.

use std::ops::RangeInclusive;

use ptx::qual::{Cmp, Int, Num, Regs, Value, Wide};
use ptx::{Operand, R32, R64, Special, op};
use tile::{Asm, Coordinates, End, Program, Ring, Slot, load_panels};

use super::Quantizer;
use super::memory::{Bases, Tile};
use super::order::{self, Item, Work};

/// The ring that a producer fills.
struct Feed<'a> {
    /// The first warpgroup's; `bases` moves it.
    ring: &'a Ring,
    bases: Bases,
    end: End,
}

pub(super) fn emit(program: &mut Program, qz: &Quantizer<'_>) {
    let exit = program.exit().clone();
    program.role("producer", 0..1, None, Regs::Dec, qz.schedule.roles.producer.registers);
    let (Some(shares), Some(ring)) = (qz.abi.v.shares, qz.memory.rings.first()) else { return };
    let groups = qz.schedule.roles.consumer.warpgroups;
    let asm = &mut program.asm;
    asm.comment("one thread of each warp loads, for the warpgroup of its number; other warps leave");
    let group = qz.threads.warp;
    let other = asm.compare(Cmp::Ge, Num::U32, group, groups);
    asm.jump_if(other, &exit);
    let elected = asm.pred(|p| op::elect_sync(Operand::Sink, p, -1));
    asm.jump_unless(elected, &exit);
    let feed = Feed { ring, bases: qz.memory.bases(asm, qz.threads.smem, group), end: ring.producer(asm) };

    let [next_round, all_dealt, next_draw, over] =
        ["ROUND", "ALL_DEALT", "DRAW", "NO_ITEM_LEFT"].map(|stem| asm.label(stem));
    asm.comment("rounds of V");
    let twice = asm.compare(Cmp::Eq, Num::U64, qz.abi.v_maxima, 0);
    asm.jump_if(twice, &all_dealt);
    let round = asm.b32(|d| op::mov(Value::B32, d, 0));
    asm.place(&next_round);
    let dealt = asm.compare(Cmp::Ge, Num::U32, round, shares.sections);
    asm.jump_if(dealt, &all_dealt);
    let item = order::dealt(asm, qz, shares, round, group);
    feed.put(asm, qz, &item, order::V..=order::V);
    asm.emit(op::add(Int::U32, round, round, 1));
    asm.jump(&next_round);

    asm.place(&all_dealt);
    asm.comment("every ring draws once past the last item, so the counter wraps to zero");
    let ctas = asm.b32(|d| op::mov_special(d, Special::NctaidX));
    let items = qz.abi.v.end;
    let all = asm.b32(|d| op::mad_lo(Int::U32, d, ctas, groups, items));
    let last = asm.b32(|d| op::sub(Int::U32, d, all, 1));
    let counter = Operand::at(qz.abi.counter, 0);
    let draw = asm.b32(|d| op::atom_inc(d, counter.clone(), last));
    asm.place(&next_draw);
    let past = asm.compare(Cmp::Ge, Num::U32, draw, items);
    asm.jump_if(past, &over);
    let drawn = asm.b32(|d| op::mov(Value::B32, d, draw));
    asm.comment("draw the next while this one loads");
    asm.emit(op::atom_inc(draw, counter, last));
    let item = order::decode(asm, qz, drawn);
    feed.put(asm, qz, &item, 0..=order::V);
    asm.jump(&next_draw);

    asm.place(&over);
    let end = asm.b32(|d| op::mov(Value::B32, d, order::END));
    let slot = feed.ring.acquire(asm, feed.bases.barriers, &feed.end);
    feed.say(asm, [end; 4]);
    feed.ring.publish(asm, slot);
    asm.jump(&exit);
}

impl Feed<'_> {
    /// Fills the next slots with an item of one of the tensors: what it is in the first, and its tile.
    fn put(&self, asm: &mut Asm, qz: &Quantizer<'_>, item: &Item, of: RangeInclusive<usize>) {
        let slot = self.ring.acquire(asm, self.bases.barriers, &self.end);
        self.say(asm, item.words());
        let filled = asm.label("FILLED");
        let tiles = [&qz.memory.q, &qz.memory.k, &qz.memory.v];
        for number in of {
            let (tensor, tile) = (qz.abi.tensors()[number], tiles[number]);
            let past = asm.label("ANOTHER_TENSOR");
            // All kinds of a tensor's items are below the next tensor's.
            let later = asm.compare(Cmp::Ge, Num::U32, item.kind, order::kind(number + 1, Work::Round));
            asm.jump_if(later, &past);
            let row = asm.b32(|d| op::mul_lo(Int::U32, d, item.tile, tile.rows));
            match tile.parts() {
                1 => self.load(asm, tile, tensor.map, slot, [row, item.head, item.batch]),
                _ => self.load_parts(asm, tile, tensor.map, [row, item.head, item.batch]),
            }
            asm.jump(&filled);
            asm.place(&past);
        }
        self.ring.publish(asm, slot);
        asm.place(&filled);
        self.ring.advance(asm, &self.end);
    }

    /// Loads the rows of one slot.
    fn load(&self, asm: &mut Asm, tile: &Tile, map: R64, slot: Slot, at: Coordinates) {
        self.ring.expect(asm, slot, tile.slot.tile_bytes());
        let base = tile.slot.stage_base(asm, self.bases.slots, self.end.stage());
        load_panels(asm, &tile.slot, base, map, &self.ring.full(slot), at);
    }

    /// Loads a tile of several slots, of which the first has been waited for; the end stays at the last.
    fn load_parts(&self, asm: &mut Asm, tile: &Tile, map: R64, [row, head, batch]: Coordinates) {
        let last = asm.b32(|d| op::add(Int::U32, d, row, tile.last_row()));
        let [next, loaded] = ["PART", "PARTS_LOADED"].map(|stem| asm.label(stem));
        asm.place(&next);
        let slot = self.ring.acquire(asm, self.bases.barriers, &self.end);
        self.load(asm, tile, map, slot, [row, head, batch]);
        let ended = asm.compare(Cmp::Eq, Num::U32, row, last);
        asm.jump_if(ended, &loaded);
        self.ring.advance(asm, &self.end);
        asm.emit(op::add(Int::U32, row, row, tile.slot.rows()));
        if tile.overlaps() {
            asm.emit(op::min(Int::U32, row, row, last));
        }
        asm.jump(&next);
        asm.place(&loaded);
    }

    fn say(&self, asm: &mut Asm, words: [R32; 4]) {
        let at = self.bases.words_of(asm, self.end.stage());
        asm.emit(op::st_shared_v(Wide::V4, Value::B32, at, Operand::vector(&words)));
    }
}
