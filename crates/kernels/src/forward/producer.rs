//! The producer: one thread that decodes tiles and keeps the rings of Q, K and V full.

use ptx::qual::{Cmp, Int, Num, Regs, Value};
use ptx::{Operand, R32, R64, op};
use tile::descriptor::Major;
use tile::{Asm, Coordinates, End, Program, Ring, SharedTile, load_tile, load_tile_across};

use super::coordinates::Tile;
use super::repeats::Repeats;
use super::{Forward, order, overflow};

pub(super) fn emit(program: &mut Program, fwd: &Forward<'_>) {
    let exit = program.exit().clone();
    let registers = fwd.schedule.roles.producer.registers;
    program.role("producer", 0..1, None, Regs::Dec, registers);
    let asm = &mut program.asm;
    asm.comment("one thread of the first warp loads; the others leave");
    let other = asm.compare(Cmp::Ne, Num::U32, fwd.threads.warp, 0);
    asm.jump_if(other, &exit);
    let elected = asm.pred(|p| op::elect_sync(Operand::Sink, p, -1));
    asm.jump_unless(elected, &exit);

    let memory = &fwd.memory;
    let smem = fwd.threads.smem;
    let queue_end = memory.queue.ring().producer(asm);
    let q_end = memory.q_ring.producer(asm);
    let k_end = memory.k_ring.producer(asm);
    let v_end = memory.v_ring.producer(asm);
    let gate_end = memory.o_gate.as_ref().map(|gate| gate.end(asm));
    let tile = order::first(asm);
    let from = asm.b32(|d| op::mov(Value::B32, d, 0));
    let repeats = memory.verdict.as_ref().map(|verdict| Repeats::new(asm, verdict, tile, from));

    let next_tile = asm.label("LOAD_TILE");
    asm.place(&next_tile);
    asm.comment("decode the tile and hand it to the consumers");
    let place = order::decode(asm, fwd, tile);
    let (row, past) = order::row_or_end(asm, fwd, tile, place.row);
    let mut handed = place.handed_over(fwd, row);
    if let Some(repeats) = &repeats {
        asm.jump_if(past, &repeats.past);
        handed.blocks = overflow::mark(asm, place.blocks, repeats.repeated);
    }
    let hand_over = |asm: &mut Asm, tile: &Tile| {
        memory.queue.put(asm, smem, &queue_end, &tile.words());
        memory.queue.ring().advance(asm, &queue_end);
    };
    hand_over(asm, &handed);
    if repeats.is_none() {
        asm.jump_if(past, &exit);
    }

    let columns = fwd.schedule.tile.columns;
    let column = asm.new_b32();
    let k = Load { tile: &memory.k, ring: &memory.k_ring, map: fwd.abi.k, end: k_end };
    // The only slot of Q is free later than one of K: what can come first does.
    let k_first = fwd.schedule.stages.q == 1;
    if k_first {
        asm.comment("load the last block of K");
        asm.emit(op::mov(Value::B32, column, place.column));
        k.emit(asm, smem, [column, place.kv_head, place.batch]);
    }
    asm.comment("load Q");
    let q = Load { tile: &memory.q, ring: &memory.q_ring, map: fwd.abi.q, end: q_end };
    q.emit(asm, smem, [place.row, place.head, place.batch]);
    let draw_next = |asm: &mut Asm| {
        asm.comment("draw the next tile");
        match &repeats {
            None => order::draw(asm, fwd, tile, from),
            Some(repeats) => repeats.draw(asm, fwd),
        }
    };
    if fwd.abi.counter.is_none() {
        draw_next(asm);
    }

    asm.comment("load K and V from the last block to the first, V one block behind");
    if !k_first {
        asm.emit(op::mov(Value::B32, column, place.column));
    }
    let left = asm.b32(|d| op::mov(Value::B32, d, place.blocks));
    let v = Load { tile: &memory.v, ring: &memory.v_ring, map: fwd.abi.v, end: v_end };
    let across = fwd.format.values() == Major::K;
    if !k_first {
        k.emit(asm, smem, [column, place.kv_head, place.batch]);
    }
    if let (Some(gate), Some(end)) = (&memory.o_gate, &gate_end) {
        asm.comment("the O of the tile before must have left the ring of V");
        gate.wait(asm, smem, end);
    }
    let next_block = asm.label("LOAD_BLOCK");
    asm.place(&next_block);
    if fwd.abi.counter.is_some() {
        let due = order::is_due(asm, place.blocks, left);
        asm.only_if(due, "AHEAD", draw_next);
    }
    asm.emit(op::sub(Int::U32, left, left, 1));
    let ahead = asm.b32(|d| op::sub(Int::U32, d, column, columns));
    let more = asm.compare(Cmp::Ne, Num::U32, left, 0);
    asm.only_if(more, "LOAD_V", |asm| k.emit(asm, smem, [ahead, place.kv_head, place.batch]));
    match across {
        true => v.emit_across(asm, smem, [column, place.kv_head, place.batch]),
        false => v.emit(asm, smem, [column, place.kv_head, place.batch]),
    }
    asm.emit(op::mov(Value::B32, column, ahead));
    asm.jump_if(more, &next_block);
    if let Some(repeats) = &repeats {
        repeats.go_on(asm, smem);
        asm.jump(&next_tile);
        repeats.at_the_end(asm, fwd, &next_tile, |asm| hand_over(asm, &place.handed_over(fwd, row)));
        asm.jump(&exit);
    } else {
        let next = order::drawn(asm, from);
        asm.emit(op::mov(Value::B32, tile, next));
        asm.jump(&next_tile);
    }
}

/// One operand's way into shared memory.
struct Load<'a> {
    tile: &'a SharedTile,
    ring: &'a Ring,
    map: R64,
    end: End,
}

impl Load<'_> {
    /// Fills the next slot with rows.
    fn emit(&self, asm: &mut Asm, smem: R32, at: Coordinates) {
        load_tile(asm, smem, self.tile, self.ring, &self.end, self.map, at);
    }

    /// Fills the next slot with columns.
    fn emit_across(&self, asm: &mut Asm, smem: R32, at: Coordinates) {
        load_tile_across(asm, smem, self.tile, self.ring, &self.end, self.map, at);
    }
}
