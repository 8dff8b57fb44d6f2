//! A consumer warpgroup: 64 query rows against all key blocks that they see, from the last to the first.
//!
//! With overlap within the warpgroup, the scores of the next block are computed beside O += P V of this one:
//!
//! ```text
//! first block:  S = Q K^T | mask, softmax, round P
//! each step:    S' = Q K'^T and O += P V together | softmax of S' under the second | correct O, round P'
//! end:          O += P V of the last block | row sums under it
//! ```
//!
//! Without it, each block goes through both products before the next one starts.

use ptx::qual::{Bits, Cmp, Int, Num, Regs, Value};
use ptx::{F32, Label, Pred, R32, op};
use schedule::{Rescale, Variant};
use tile::{Asm, End, Program, Slot, Threads, Turn};

use super::Forward;
use super::epilogue::{self, Epilogue};
use super::mask::{Edges, Mask};
use super::order::NO_ROW;
use super::products::Products;
use super::softmax::{self, Block, Rows, Scale};

/// Named barrier of the first turn; 0 is the CTA's.
const FIRST_TURN: u32 = 1;
/// Rows of a warp's part of a wgmma tile.
const WARP_ROWS: u32 = 16;

/// A tile's coordinates as the queue hands them over.
pub(super) struct Tile {
    pub(super) row: R32,
    pub(super) head: R32,
    pub(super) batch: R32,
    pub(super) blocks: R32,
}

struct Consumer<'f, 's> {
    fwd: &'f Forward<'s>,
    products: Products,
    epilogue: Epilogue,
    scale: Scale,
    rows: Rows,
    turn: Option<Turn>,
    /// Holds in one lane of each warp.
    leader: Pred,
    tile: Tile,
    /// First key of the block at hand.
    column: R32,
    /// The warpgroup's first row in the tile.
    group_row: R32,
    lane_row: R32,
    lane_column: R32,
    ends: Ends,
}

struct Ends {
    tile: End,
    q: End,
    k: End,
    v: End,
}

pub(super) fn emit(program: &mut Program, fwd: &Forward<'_>, entry: &Label) {
    let groups = fwd.schedule.roles.consumer.warpgroups;
    let registers = fwd.schedule.roles.consumer.registers;
    let exit = program.exit().clone();
    program.role("consumer", 1..1 + groups, Some(entry), Regs::Inc, registers);
    let leader = Program::leader(&mut program.asm, &fwd.threads);
    let asm = &mut program.asm;
    let consumer = Consumer::new(asm, fwd, leader);

    let next_tile = asm.label("TILE");
    asm.place(&next_tile);
    consumer.tile(asm, &next_tile, &exit);
}

impl<'f, 's> Consumer<'f, 's> {
    fn new(asm: &mut Asm, fwd: &'f Forward<'s>, leader: Pred) -> Consumer<'f, 's> {
        let groups = fwd.schedule.roles.consumer.warpgroups;
        let Threads { lane, warp, warpgroup, .. } = fwd.threads;
        let index = asm.b32(|d| op::sub(Int::U32, d, warpgroup, 1));
        let group_row = asm.b32(|d| op::shl(Bits::B32, d, index, 6));
        let in_group = asm.b32(|d| op::and(Bits::B32, d, warp, 3));
        let first_row = asm.b32(|d| op::mad_lo(Int::U32, d, in_group, WARP_ROWS, group_row));
        let lane_row = epilogue::lane_row(asm, lane, first_row);
        let lane_column = softmax::lane_column(asm, lane);
        // A barrier of the warpgroup's own, past those of the turns.
        let barrier = asm.b32(|d| op::add(Int::U32, d, index, FIRST_TURN + groups));
        let turn = fwd.schedule.overlap.pingpong.then(|| Turn::new(asm, FIRST_TURN, groups, index));
        let memory = &fwd.memory;
        Consumer {
            fwd,
            products: Products::new(asm, fwd, group_row, first_row, barrier),
            epilogue: Epilogue::new(asm, fwd, group_row, first_row, lane_row, barrier),
            scale: Scale::new(asm, fwd.abi.scale_log2, fwd.abi.scale_pow2),
            rows: Rows::new(asm),
            turn,
            leader,
            tile: Tile { row: asm.new_b32(), head: asm.new_b32(), batch: asm.new_b32(), blocks: asm.new_b32() },
            column: asm.new_b32(),
            group_row,
            lane_row,
            lane_column,
            ends: Ends {
                tile: memory.queue.ring().consumer(asm),
                q: memory.q_ring.consumer(asm),
                k: memory.k_ring.consumer(asm),
                v: memory.v_ring.consumer(asm),
            },
        }
    }

    /// One tile from its coordinates to its last store.
    fn tile(&self, asm: &mut Asm, next_tile: &Label, exit: &Label) {
        let (fwd, smem) = (self.fwd, self.fwd.threads.smem);
        let memory = &fwd.memory;
        asm.comment("the next tile's coordinates");
        let words = [self.tile.row, self.tile.head, self.tile.batch, self.tile.blocks];
        memory.queue.take(asm, smem, &self.ends.tile, self.leader, words);
        let done = asm.compare(Cmp::Eq, Num::S32, self.tile.row, NO_ROW);
        asm.jump_if(done, exit);
        let q_slot = memory.q_ring.ready(asm, smem, &self.ends.q);

        asm.comment("a row without keys: O = 0, log-sum-exp = -inf");
        let inverse = [0.0; 2].map(|v| asm.f32(|d| op::mov(Value::F32, d, v)));
        let lse = [f32::NEG_INFINITY; 2].map(|v| asm.f32(|d| op::mov(Value::F32, d, v)));
        self.products.output.zero(asm);
        let finished = asm.label("FINISHED");
        let no_keys = asm.compare(Cmp::Eq, Num::U32, self.tile.blocks, 0);
        asm.jump_if(no_keys, &finished);

        let last = asm.b32(|d| op::sub(Int::U32, d, self.tile.blocks, 1));
        asm.emit(op::mul_lo(Int::U32, self.column, last, fwd.schedule.tile.columns));
        let mask = self.mask(asm);
        match fwd.schedule.overlap.within_warpgroup {
            true => self.blocks_overlapped(asm, &mask, inverse, lse),
            false => self.blocks_in_turn(asm, &mask, inverse, lse),
        }

        asm.place(&finished);
        self.epilogue.store_output(asm, fwd, &self.products, &self.tile, (q_slot, self.ends.q.stage()), inverse);
        self.epilogue.store_statistics(asm, fwd, &self.tile, lse);
        memory.q_ring.advance(asm, &self.ends.q);
        asm.jump(next_tile);
    }

    fn mask(&self, asm: &mut Asm) -> Mask {
        let abi = &self.fwd.abi;
        // Bottom-right aligned: row i sees keys up to i + keys - queries.
        let offset = asm.b32(|d| op::sub(Int::S32, d, abi.keys, abi.queries));
        let row = asm.b32(|d| op::add(Int::S32, d, self.tile.row, self.lane_row));
        let last_seen = asm.b32(|d| op::add(Int::S32, d, row, offset));
        let seen = asm.b32(|d| op::add(Int::S32, d, last_seen, 1));
        Mask { keys: abi.keys, lane_column: self.lane_column, seen }
    }

    fn causal(&self) -> bool {
        self.fwd.schedule.variant != Variant::Full
    }

    /// All blocks, the scores of the next one beside the output of this one.
    fn blocks_overlapped(&self, asm: &mut Asm, mask: &Mask, inverse: [F32; 2], lse: [F32; 2]) {
        asm.comment("first block");
        let slot = self.wait_k(asm);
        self.issue_scores(asm);
        self.products.wait(asm, 0);
        self.release_k(asm, slot);
        mask.apply(asm, &self.products.scores, self.column, self.first_edges());
        self.softmax(asm, Block { first: true, may_be_empty: true });
        self.products.round_probabilities(asm, self.fwd);

        self.each_further_block(asm, |asm, edges| self.step(asm, mask, edges));

        asm.comment("last block");
        let slot = self.wait_v(asm);
        self.products.issue_output(asm, self.fwd, self.ends.v.stage());
        softmax::finish(asm, &self.rows, &self.scale, inverse, lse);
        self.products.wait(asm, 0);
        self.release_v(asm, slot);
    }

    /// One step: the scores of the next block and the output of this one.
    fn step(&self, asm: &mut Asm, mask: &Mask, edges: Edges) {
        let k_slot = self.wait_k(asm);
        self.take_turn(asm);
        self.issue_scores(asm);
        let v_slot = self.wait_v(asm);
        self.products.issue_output(asm, self.fwd, self.ends.v.stage());
        self.pass_turn(asm);
        self.products.wait(asm, 1);
        self.release_k(asm, k_slot);
        mask.apply(asm, &self.products.scores, self.column, edges);
        let factors = self.softmax(asm, Block { first: false, may_be_empty: edges.diagonal });
        self.products.wait(asm, 0);
        self.release_v(asm, v_slot);
        self.rescale(asm, factors);
        self.products.round_probabilities(asm, self.fwd);
    }

    /// All blocks, each through both products before the next.
    fn blocks_in_turn(&self, asm: &mut Asm, mask: &Mask, inverse: [F32; 2], lse: [F32; 2]) {
        self.take_turn(asm);
        asm.comment("first block");
        self.whole_block(asm, mask, self.first_edges(), true);
        self.each_further_block(asm, |asm, edges| self.whole_block(asm, mask, edges, false));
        self.pass_turn(asm);
        softmax::finish(asm, &self.rows, &self.scale, inverse, lse);
    }

    fn whole_block(&self, asm: &mut Asm, mask: &Mask, edges: Edges, first: bool) {
        let slot = self.wait_k(asm);
        self.issue_scores(asm);
        self.pass_turn(asm);
        self.products.wait(asm, 0);
        self.release_k(asm, slot);
        mask.apply(asm, &self.products.scores, self.column, edges);
        let factors = self.softmax(asm, Block { first, may_be_empty: first || edges.diagonal });
        self.rescale(asm, factors);
        self.products.round_probabilities(asm, self.fwd);
        let slot = self.wait_v(asm);
        self.take_turn(asm);
        self.products.issue_output(asm, self.fwd, self.ends.v.stage());
        self.products.wait(asm, 0);
        self.release_v(asm, slot);
    }

    /// The block that is processed first is the last one of the row: it may cross both edges.
    fn first_edges(&self) -> Edges {
        Edges { end: true, diagonal: self.causal() }
    }

    /// Loops over the blocks before the one at hand: those that the diagonal crosses, then the others.
    fn each_further_block(&self, asm: &mut Asm, step: impl Fn(&mut Asm, Edges)) {
        let columns = self.fwd.schedule.tile.columns;
        let end = asm.label("BLOCKS_DONE");
        let unmasked = asm.label("UNMASKED");
        let none_left = |asm: &mut Asm, column| asm.compare(Cmp::Le, Num::S32, column, 0);
        if self.causal() {
            let masked = asm.label("MASKED");
            let abi = &self.fwd.abi;
            // A block is free of the diagonal if the warpgroup's first row sees its last key.
            let row = asm.b32(|d| op::add(Int::S32, d, self.tile.row, self.group_row));
            let offset = asm.b32(|d| op::sub(Int::S32, d, abi.keys, abi.queries));
            let last_seen = asm.b32(|d| op::add(Int::S32, d, row, offset));
            let free = asm.b32(|d| op::add(Int::S32, d, last_seen, 1));
            asm.place(&masked);
            let none = none_left(asm, self.column);
            asm.jump_if(none, &end);
            let is_free = asm.compare(Cmp::Le, Num::S32, self.column, free);
            asm.jump_if(is_free, &unmasked);
            asm.comment("step over a block that the diagonal crosses");
            asm.emit(op::sub(Int::S32, self.column, self.column, columns));
            step(asm, Edges { end: false, diagonal: true });
            asm.jump(&masked);
        }
        asm.place(&unmasked);
        let none = none_left(asm, self.column);
        asm.jump_if(none, &end);
        asm.comment("step over a block that every row sees whole");
        asm.emit(op::sub(Int::S32, self.column, self.column, columns));
        step(asm, Edges { end: false, diagonal: false });
        asm.jump(&unmasked);
        asm.place(&end);
    }

    fn softmax(&self, asm: &mut Asm, block: Block) -> Option<[F32; 2]> {
        asm.comment("online softmax");
        softmax::update(asm, &self.rows, &self.products.scores, &self.scale, self.fwd.schedule.rescale, block)
    }

    fn rescale(&self, asm: &mut Asm, factors: Option<[F32; 2]>) {
        let Some(factors) = factors else { return };
        asm.comment("O to the new maximum");
        match self.fwd.schedule.rescale {
            Rescale::Always => self.products.rescale(asm, factors),
            _ => {
                let kept = asm.label("O_KEPT");
                let nothing = softmax::nothing_to_rescale(asm, factors);
                asm.jump_if(nothing, &kept);
                self.products.rescale(asm, factors);
                asm.place(&kept);
            }
        }
    }

    fn issue_scores(&self, asm: &mut Asm) {
        self.products.issue_scores(asm, self.fwd, self.ends.q.stage(), self.ends.k.stage());
    }

    fn wait_k(&self, asm: &mut Asm) -> Slot {
        self.fwd.memory.k_ring.ready(asm, self.fwd.threads.smem, &self.ends.k)
    }

    fn release_k(&self, asm: &mut Asm, slot: Slot) {
        self.fwd.memory.k_ring.release(asm, slot, self.leader);
        self.fwd.memory.k_ring.advance(asm, &self.ends.k);
    }

    fn wait_v(&self, asm: &mut Asm) -> Slot {
        self.fwd.memory.v_ring.ready(asm, self.fwd.threads.smem, &self.ends.v)
    }

    fn release_v(&self, asm: &mut Asm, slot: Slot) {
        self.fwd.memory.v_ring.release(asm, slot, self.leader);
        self.fwd.memory.v_ring.advance(asm, &self.ends.v);
    }

    fn take_turn(&self, asm: &mut Asm) {
        if let Some(turn) = &self.turn {
            turn.take(asm);
        }
    }

    fn pass_turn(&self, asm: &mut Asm) {
        if let Some(turn) = &self.turn {
            turn.pass(asm);
        }
    }
}
