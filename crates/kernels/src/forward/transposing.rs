//! The producer of row-major 8-bit V: one thread loads, and all four warps turn over each tile of V from rows to columns.
//!
//! The loading thread is in one of the warps that transpose, so that its loads run one block ahead: what it waits for in
//! loading a block is given back by blocks that have been transposed before. Registers are few, and so are the ends of
//! rings: those of K and of V by rows go round together, and so do those of V by rows and by columns, and the tile queue's.

use ptx::qual::{Bits, Cmp, Int, Num, Regs, Value};
use ptx::{Operand, Pred, R32, op};
use tile::{Asm, End, Gate, Program, Ring, SharedTile, Transposer, load_slot};

use super::coordinates::Tile;
use super::{Forward, order};

pub(super) fn emit(program: &mut Program, fwd: &Forward<'_>) {
    let exit = program.exit().clone();
    let registers = fwd.schedule.roles.producer.registers;
    program.role("producer", 0..1, None, Regs::Dec, registers);
    let leader = Program::leader(&mut program.asm, &fwd.threads);
    let asm = &mut program.asm;
    asm.comment("one thread of the first warp loads; all four warps transpose");
    let loader = Loader::new(asm, fwd);
    let turn = Turn::new(asm, fwd, leader);
    let smem = fwd.threads.smem;
    let queue = &fwd.memory.queue;
    let handed = queue.ring().consumer(asm);
    let tile = Tile::new(asm, fwd);

    let next_tile = asm.label("LOAD_TILE");
    asm.place(&next_tile);
    loader.start_tile(asm, &handed);
    queue.take(asm, smem, &handed, leader, &tile.words());
    let past = asm.compare(Cmp::Eq, Num::S32, tile.row, order::NO_ROW);
    asm.jump_if(past, &exit);
    if let Some((gate, end)) = &turn.gate {
        asm.comment("the O of the tile before must have left the ring of V");
        gate.wait(asm, smem, end);
    }
    let left = asm.b32(|d| op::mov(Value::B32, d, tile.blocks));
    let next_block = asm.label("LOAD_BLOCK");
    asm.place(&next_block);
    asm.emit(op::sub(Int::U32, left, left, 1));
    loader.load_ahead(asm, &tile, left);
    turn.block(asm);
    let more = asm.compare(Cmp::Ne, Num::U32, left, 0);
    asm.jump_if(more, &next_block);
    asm.jump(&next_tile);
}

/// V by rows and its ring.
fn rows<'f>(fwd: &'f Forward<'_>) -> (&'f SharedTile, &'f Ring) {
    let memory = &fwd.memory;
    memory.v_rows.as_ref().zip(memory.v_rows_ring.as_ref()).expect("V comes row by row")
}

/// The thread that loads.
struct Loader<'f, 's> {
    fwd: &'f Forward<'s>,
    /// Holds in its warp.
    warp: Pred,
    q: End,
    /// Of K and of V by rows.
    kv: End,
    /// The tile's number.
    tile: R32,
}

impl<'f, 's> Loader<'f, 's> {
    fn new(asm: &mut Asm, fwd: &'f Forward<'s>) -> Loader<'f, 's> {
        let warp = asm.compare(Cmp::Eq, Num::U32, fwd.threads.warp, 0);
        let first = order::first(asm);
        let tile = asm.b32(|d| op::mov(Value::B32, d, first));
        let memory = &fwd.memory;
        Loader { fwd, warp, q: memory.q_ring.producer(asm), kv: memory.k_ring.producer(asm), tile }
    }

    /// Decodes a tile, hands it over and loads its queries and the last block of its keys, the first to be processed.
    fn start_tile(&self, asm: &mut Asm, handed: &End) {
        let (fwd, smem) = (self.fwd, self.fwd.threads.smem);
        let memory = &fwd.memory;
        asm.in_one_thread(self.warp, "TILE_LOADED", |asm| {
            asm.comment("decode the tile and hand it to the consumers");
            let place = order::decode(asm, fwd, self.tile);
            let (row, past) = order::row_or_end(asm, fwd, self.tile, place.row);
            let free = handed.opposite(asm);
            memory.queue.put(asm, smem, &free, &place.handed_over(fwd, row).words());
            let here = asm.pred(|p| op::not_pred(p, past));
            asm.only_if(here, "NO_TILE", |asm| {
                asm.comment("load Q");
                let at = [place.row, place.head, place.batch];
                load_slot(asm, smem, &memory.q, &memory.q_ring, &self.q, fwd.abi.q, at);
                memory.q_ring.advance(asm, &self.q);
                self.load_block(asm, [place.column, place.kv_head, place.batch]);
            });
        });
    }

    /// Loads the block before the one at hand; `left` blocks are before it. Where there is none, the next tile is drawn.
    fn load_ahead(&self, asm: &mut Asm, tile: &Tile, left: R32) {
        let kv_head = tile.kv_head.expect("8-bit tiles name their KV head");
        asm.in_one_thread(self.warp, "AHEAD_LOADED", |asm| {
            let more = asm.compare(Cmp::Ne, Num::U32, left, 0);
            asm.only_if(more, "NONE_AHEAD", |asm| {
                let ahead = asm.b32(|d| op::sub(Int::U32, d, left, 1));
                let column = asm.b32(|d| op::mul_lo(Int::U32, d, ahead, self.fwd.schedule.tile.columns));
                self.load_block(asm, [column, kv_head, tile.batch]);
            });
            let last = asm.compare(Cmp::Eq, Num::U32, left, 0);
            asm.only_if(last, "DRAWN", |asm| {
                asm.comment("draw the next tile");
                let from = asm.new_b32();
                order::draw(asm, self.fwd, self.tile, from);
                let drawn = order::drawn(asm, from);
                asm.emit(op::mov(Value::B32, self.tile, drawn));
            });
        });
    }

    fn load_block(&self, asm: &mut Asm, at: [R32; 3]) {
        let (memory, abi, smem) = (&self.fwd.memory, &self.fwd.abi, self.fwd.threads.smem);
        let (rows, ring) = rows(self.fwd);
        load_slot(asm, smem, &memory.k, &memory.k_ring, &self.kv, abi.k, at);
        load_slot(asm, smem, rows, ring, &self.kv, abi.v, at);
        memory.k_ring.advance(asm, &self.kv);
    }
}

/// A warp's part in transposing.
struct Turn<'f, 's> {
    fwd: &'f Forward<'s>,
    transposer: Transposer,
    leader: Pred,
    /// The consuming end of V by rows, and opposite it the producing one of V by columns.
    end: End,
    gate: Option<(&'f Gate, End)>,
}

impl<'f, 's> Turn<'f, 's> {
    fn new(asm: &mut Asm, fwd: &'f Forward<'s>, leader: Pred) -> Turn<'f, 's> {
        let (from, ring) = rows(fwd);
        let in_group = asm.b32(|d| op::and(Bits::B32, d, fwd.threads.warp, 3));
        Turn {
            fwd,
            transposer: Transposer::new(asm, from, &fwd.memory.v, fwd.threads.lane, in_group),
            leader,
            end: ring.consumer(asm),
            gate: fwd.memory.o_gate.as_ref().map(|gate| (gate, gate.end(asm))),
        }
    }

    /// Turns over the next block of V.
    fn block(&self, asm: &mut Asm) {
        let (memory, smem) = (&self.fwd.memory, self.fwd.threads.smem);
        let (from, ring) = rows(self.fwd);
        asm.comment("V from rows to columns");
        ring.ready(asm, smem, &self.end);
        let free = self.end.opposite(asm);
        let slot = memory.v_ring.acquire(asm, smem, &free);
        asm.emit(op::bar_warp_sync(Operand::Int(-1)));
        let source = from.stage_base(asm, smem, self.end.stage());
        let target = memory.v.stage_base(asm, smem, self.end.stage());
        self.transposer.emit(asm, source, target);
        asm.emit(op::fence_proxy_async());
        asm.emit(op::bar_warp_sync(Operand::Int(-1)));
        memory.v_ring.publish_by(asm, slot, self.leader);
        ring.release(asm, smem, &self.end, self.leader);
        ring.advance(asm, &self.end);
    }
}
