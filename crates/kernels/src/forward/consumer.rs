//! A consumer warpgroup: its place, its operands, and what it does with one block of keys.
//!
//! With overlap within the warpgroup, the scores of the next block are computed beside O += P V of this one:
//!
//! ```text
//! first block:  S = Q K^T | mask, softmax, round P
//! each step:    S' = Q K'^T and O += P V together | softmax of S' under the second | correct O, round P'
//! end:          O += P V of the last block | row sums under it
//! ```
//!
//! Without it, each block goes through both products before the next one starts. In which order tiles follow one
//! another is `walk`'s business.

use ptx::qual::{Bits, Cmp, Int, Num};
use ptx::{F32, Label, Pred, R32, op};
use schedule::{Queries, Rescale, RowSum, Variant};
use tile::{Asm, Slot, Threads, Turn};

use super::Forward;
use super::coordinates::Tile;
use super::epilogue::{self, Epilogue};
use super::lazy;
use super::mask::{Edges, Mask};
use super::memory::Ends;
use super::order::NO_ROW;
use super::overflow;
use super::products::Products;
use super::scales::TileScales;
use super::softmax::{self, Block, Choices, Rows, Scale};
use super::unseen;

/// Named barrier of the first turn; 0 is the CTA's.
const FIRST_TURN: u32 = 1;
/// Rows of a warp's part of a wgmma tile.
const WARP_ROWS: u32 = 16;

pub(super) struct Consumer<'f, 's> {
    pub(super) fwd: &'f Forward<'s>,
    pub(super) products: Products,
    pub(super) epilogue: Epilogue,
    /// The tile at hand.
    pub(super) tile: Tile,
    pub(super) ends: Ends,
    /// Holds in one lane of each warp.
    pub(super) leader: Pred,
    pub(super) scale: Scale,
    choices: Choices,
    /// Of 8-bit elements.
    scales: Option<TileScales<'f, 's>>,
    pub(super) rows: Rows,
    turn: Option<Turn>,
    /// First key of the block at hand, counted from the tile's first.
    pub(super) column: R32,
    /// The warpgroup's first row in the tile.
    pub(super) group_row: R32,
    lane_row: R32,
    lane_column: R32,
}

impl<'f, 's> Consumer<'f, 's> {
    pub(super) fn new(asm: &mut Asm, fwd: &'f Forward<'s>, leader: Pred) -> Consumer<'f, 's> {
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
        // And one of all consumers, past those.
        let together = FIRST_TURN + 2 * groups;
        let turn = fwd.schedule.overlap.pingpong.then(|| Turn::new(asm, FIRST_TURN, groups, index));
        let products = Products::new(asm, fwd, group_row, first_row, barrier);
        let epilogue = Epilogue::new(asm, fwd, group_row, first_row, lane_row, (barrier, together));
        let scales = TileScales::new(asm, fwd, group_row);
        let choices = Choices::of(fwd.schedule);
        let scale = match (&scales, fwd.abi.scale_pow2) {
            (Some(scales), _) => Scale::block(scales.c, fwd.schedule.rescale),
            (None, pow2) => Scale::one(asm, fwd.abi.scale_log2, pow2.expect("16-bit elements come with one scale")),
        };
        Consumer {
            fwd,
            products,
            epilogue,
            scale,
            choices,
            scales,
            rows: Rows::new(asm, choices),
            turn,
            leader,
            tile: Tile::new(asm, fwd),
            column: asm.new_b32(),
            group_row,
            lane_row,
            lane_column,
            ends: Ends::new(asm, &fwd.memory),
        }
    }

    /// Waits for the next tile's coordinates.
    pub(super) fn take_tile(&self, asm: &mut Asm, into: &Tile) -> Pred {
        asm.comment("the next tile's coordinates");
        let queue = &self.fwd.memory.queue;
        queue.take(asm, self.fwd.threads.smem, &self.ends.tile, self.leader, &into.words());
        if let Some(careful) = into.careful {
            overflow::unmark(asm, into.blocks, careful);
        }
        asm.compare(Cmp::Eq, Num::S32, into.row, NO_ROW)
    }

    /// Waits for the Q of a tile, and takes it to registers if that is where the first product reads it.
    pub(super) fn take_queries(&self, asm: &mut Asm, tile: &Tile) -> Slot {
        let (fwd, smem) = (self.fwd, self.fwd.threads.smem);
        if let Some(scales) = &self.scales {
            scales.load(asm, tile);
        }
        let slot = fwd.memory.q_ring.ready(asm, smem, &self.ends.q);
        let taken = self.products.load_queries(asm, fwd, self.ends.q.stage());
        if taken && fwd.memory.q_is_free_early() {
            fwd.memory.q_ring.release(asm, smem, &self.ends.q, self.leader);
        }
        slot
    }

    /// Goes to the last block of the tile at hand, the first to be processed.
    pub(super) fn start_at_last_block(&self, asm: &mut Asm) {
        let last = asm.b32(|d| op::sub(Int::U32, d, self.tile.blocks, 1));
        asm.emit(op::mul_lo(Int::U32, self.column, last, self.fwd.schedule.tile.columns));
    }

    pub(super) fn mask(&self, asm: &mut Asm) -> Mask {
        let keys = self.tile.keys(asm, self.fwd);
        let seen = self.tile.keys_seen(asm, self.fwd, self.lane_row);
        Mask { keys, lane_column: self.lane_column, seen, open: unseen::open_columns(self.fwd.schedule) }
    }

    fn causal(&self) -> bool {
        self.fwd.schedule.variant != Variant::Full
    }

    /// Issues the first scores of a tile.
    pub(super) fn issue_first_scores(&self, asm: &mut Asm) {
        asm.comment("first block");
        self.wait_k(asm);
        self.issue_scores(asm);
    }

    /// From the first scores, issued before, to the first P.
    pub(super) fn finish_first_scores(&self, asm: &mut Asm, mask: &Mask) {
        self.products.wait(asm, 0);
        self.scores_done(asm);
        mask.apply(asm, &self.products.scores, self.column, self.first_edges());
        self.softmax(asm, Block { first: true, may_be_empty: true, reference_stands: false });
        if self.waits_ahead() {
            self.wait_v(asm);
        }
        self.products.round_probabilities(asm, self.fwd);
    }

    /// All blocks after the first, the scores of each beside the output of the one before.
    pub(super) fn further_steps(&self, asm: &mut Asm, mask: &Mask) {
        self.each_further_block(asm, |asm, edges, stands| self.step(asm, mask, edges, stands));
    }

    /// Issues the output of the last block, whose P is there.
    pub(super) fn issue_last_output(&self, asm: &mut Asm) {
        asm.comment("last block");
        if !self.waits_ahead() {
            self.wait_v(asm);
        }
        self.products.issue_output(asm, self.fwd, self.ends.v.stage());
    }

    /// Waits until at most `left` groups of products are in flight, so that the last output is there, and gives its V back.
    /// The rows are finished under the wait, or after it if the tensor cores make their sums.
    pub(super) fn finish_rows(&self, asm: &mut Asm, left: u32, inverse: [F32; 2], lse: [F32; 2]) {
        let of_v = self.scale_of_v(asm);
        let by_threads = self.fwd.schedule.row_sum == RowSum::Threads;
        if by_threads {
            self.results(asm, of_v, inverse, lse);
        }
        self.products.wait(asm, left);
        self.release_v(asm);
        self.products.finish_output(asm);
        if !by_threads {
            self.results(asm, of_v, inverse, lse);
        }
    }

    /// The same where nothing is in flight.
    pub(super) fn finish_rows_in_turn(&self, asm: &mut Asm, inverse: [F32; 2], lse: [F32; 2]) {
        let of_v = self.scale_of_v(asm);
        self.products.finish_output(asm);
        self.results(asm, of_v, inverse, lse);
    }

    fn scale_of_v(&self, asm: &mut Asm) -> Option<F32> {
        self.scales.as_ref().map(|scales| scales.values(asm, &self.tile))
    }

    /// Row sums, their inverses, times the scale of V, and the log-sum-exp.
    pub(super) fn results(&self, asm: &mut Asm, of_v: Option<F32>, inverse: [F32; 2], lse: [F32; 2]) {
        let sums = self.products.row_sums(self.fwd);
        softmax::finish(asm, &self.rows, sums, &self.scale, inverse, lse);
        if let Some(of_v) = of_v {
            inverse.into_iter().for_each(|inverse| asm.emit(op::mul_f32(inverse, inverse, of_v)));
        }
    }

    /// Says whether the finished tile is to be done again, where it may have overflowed. Its sums and O must be there.
    pub(super) fn give_verdict(&self, asm: &mut Asm) {
        let (verdict, end) = (&self.fwd.memory.verdict, &self.ends.verdict);
        let (Some(verdict), Some(end)) = (verdict, end) else { return };
        let (Some(careful), Some(sums)) = (self.tile.careful, self.rows.totals()) else { return };
        let again = overflow::to_be_repeated(asm, careful, sums, &self.products.output);
        verdict.give(asm, &self.fwd.threads, end, self.leader, again);
    }

    /// One step: the scores of the next block and the output of this one.
    fn step(&self, asm: &mut Asm, mask: &Mask, edges: Edges, reference_stands: bool) {
        self.wait_k(asm);
        self.take_turn(asm);
        self.issue_scores(asm);
        if !self.waits_ahead() {
            self.wait_v(asm);
        }
        self.products.issue_output(asm, self.fwd, self.ends.v.stage());
        self.pass_turn(asm);
        self.products.wait(asm, 1);
        self.scores_done(asm);
        if self.choices.lazy() && !edges.diagonal {
            return self.finish_lazily(asm);
        }
        mask.apply(asm, &self.products.scores, self.column, edges);
        let block = Block { first: false, may_be_empty: edges.diagonal, reference_stands };
        let factors = self.softmax(asm, block);
        if !self.waits_ahead() {
            self.products.wait(asm, 0);
            self.release_v(asm);
            self.rescale(asm, factors, None);
            return self.products.round_probabilities(asm, self.fwd);
        }
        let nothing = factors.and_then(|factors| self.nothing_to_rescale(asm, factors));
        self.finish_ahead(asm, factors, nothing);
    }

    /// The rest of a step over a block that every row sees whole, by the maxima at hand.
    fn finish_lazily(&self, asm: &mut Asm) {
        asm.comment("online softmax");
        let Scale::Block { c, offset } = self.scale else { return };
        self.scales.iter().for_each(|scales| scales.next_block(asm, self.column));
        let (scores, always) = (&self.products.scores, self.products.keeps_partial_sums());
        let outcome = lazy::update(asm, &self.rows, scores, (c, offset), self.choices, always);
        self.finish_ahead(asm, outcome.map(|outcome| outcome.factors), outcome.map(|outcome| outcome.stands));
    }

    /// The end of a step whose P is there, from the wait for its V on. Rounding comes before that and before O is corrected:
    /// where loops and branches part it from the exponentials, those are moved behind.
    fn finish_ahead(&self, asm: &mut Asm, factors: Option<[F32; 2]>, nothing: Option<Pred>) {
        let converted = self.products.convert_probabilities(asm, self.fwd);
        let v_ring = &self.fwd.memory.v_ring;
        let read = v_ring.slot(asm, self.fwd.threads.smem, &self.ends.v);
        v_ring.advance(asm, &self.ends.v);
        self.wait_v(asm);
        self.products.wait(asm, 0);
        v_ring.release_slot(asm, read, self.leader);
        self.products.join_probabilities(asm, &converted);
        self.rescale(asm, factors, nothing);
    }

    /// All blocks, each through both products before the next.
    pub(super) fn blocks_in_turn(&self, asm: &mut Asm, mask: &Mask) {
        self.take_turn(asm);
        asm.comment("first block");
        let first = Block { first: true, may_be_empty: true, reference_stands: false };
        self.whole_block(asm, mask, self.first_edges(), first);
        self.each_further_block(asm, |asm, edges, reference_stands| {
            let block = Block { first: false, may_be_empty: edges.diagonal, reference_stands };
            self.whole_block(asm, mask, edges, block);
        });
        self.pass_turn(asm);
    }

    fn whole_block(&self, asm: &mut Asm, mask: &Mask, edges: Edges, block: Block) {
        self.wait_k(asm);
        self.issue_scores(asm);
        self.pass_turn(asm);
        self.products.wait(asm, 0);
        self.scores_done(asm);
        mask.apply(asm, &self.products.scores, self.column, edges);
        let factors = self.softmax(asm, block);
        self.rescale(asm, factors, None);
        self.products.round_probabilities(asm, self.fwd);
        self.wait_v(asm);
        self.take_turn(asm);
        self.products.issue_output(asm, self.fwd, self.ends.v.stage());
        self.products.wait(asm, 0);
        self.release_v(asm);
    }

    /// The block that is processed first is the last one of the row: it may cross both edges.
    fn first_edges(&self) -> Edges {
        Edges { end: true, diagonal: self.causal() }
    }

    /// Loops over the blocks before the one at hand: those that the diagonal crosses, then the others. Where tiles may
    /// overflow, the reference stands for the others, unless the tile is done with care; it stands from where every row
    /// has seen a key. `step` gets the edges and whether the reference stands.
    fn each_further_block(&self, asm: &mut Asm, step: impl Fn(&mut Asm, Edges, bool)) {
        let columns = self.fwd.schedule.tile.columns;
        let end = asm.label("BLOCKS_DONE");
        let unmasked = asm.label("UNMASKED");
        let inside = Edges { end: false, diagonal: false };
        // A loop from `start` on, until no block is left or, where it asks, until what it asks holds.
        let each = |asm: &mut Asm, start: &Label, ask: Option<&dyn Fn(&mut Asm) -> Pred>, what: &str, edges, stands| {
            asm.place(start);
            let none = asm.compare(Cmp::Le, Num::S32, self.column, 0);
            asm.jump_if(none, &end);
            if let Some(ask) = ask {
                let rest = ask(asm);
                asm.jump_if(rest, &unmasked);
            }
            asm.comment(what);
            asm.emit(op::sub(Int::S32, self.column, self.column, columns));
            step(asm, edges, stands);
            asm.jump(start);
        };
        if self.causal() {
            let masked = asm.label("MASKED");
            // A block is free of the diagonal if the warpgroup's first row sees its last key.
            let mut free = self.tile.keys_seen(asm, self.fwd, self.group_row);
            if let Some(careful) = self.tile.careful {
                // With care, none is: the mark is larger than any column. One comparison, not two, keeps what depends on
                // it in uniform registers.
                free = asm.b32(|d| op::sub(Int::S32, d, free, careful));
            }
            if self.choices.lazy() {
                // One more, so that every row has seen a score before its maximum is taken for granted.
                free = asm.b32(|d| op::sub(Int::S32, d, free, columns));
            }
            let is_free = |asm: &mut Asm| match self.tile.careful {
                None => asm.compare(Cmp::Le, Num::S32, self.column, free),
                Some(_) => asm.compare(Cmp::Lt, Num::S32, self.column, free),
            };
            let edges = Edges { end: false, diagonal: true };
            each(asm, &masked, Some(&is_free), "step over a block that the diagonal crosses", edges, false);
        } else if let Some(careful) = self.tile.careful {
            let with_care = asm.label("WITH_CARE");
            let at_ease = |asm: &mut Asm| asm.compare(Cmp::Eq, Num::U32, careful, 0);
            each(asm, &with_care, Some(&at_ease), "step of a tile that is done again", inside, false);
        }
        each(asm, &unmasked, None, "step over a block that every row sees whole", inside, self.tile.careful.is_some());
        asm.place(&end);
    }

    fn softmax(&self, asm: &mut Asm, block: Block) -> Option<[F32; 2]> {
        asm.comment("online softmax");
        match &self.scales {
            Some(scales) if block.first => scales.first_block(asm, self.column),
            Some(scales) => scales.next_block(asm, self.column),
            None => {}
        }
        softmax::update(asm, &self.rows, &self.products.scores, &self.scale, self.choices, block)
    }

    /// A predicate that holds if O may stay as it is; none if it is always corrected.
    fn nothing_to_rescale(&self, asm: &mut Asm, factors: [F32; 2]) -> Option<Pred> {
        matches!(self.fwd.schedule.rescale, Rescale::Above(_)).then(|| softmax::nothing_to_rescale(asm, factors))
    }

    /// Multiplies O with its factors, unless the predicate, made here if it is not given, says that there is nothing to do.
    fn rescale(&self, asm: &mut Asm, factors: Option<[F32; 2]>, nothing: Option<Pred>) {
        let Some(factors) = factors else { return };
        asm.comment("O to the new maximum");
        self.products.rescale_output(asm, self.column, factors, |asm, output| {
            match nothing.or_else(|| self.nothing_to_rescale(asm, factors)) {
                None => output.scale_rows(asm, factors),
                Some(nothing) => {
                    let kept = asm.label("O_KEPT");
                    asm.jump_if(nothing, &kept);
                    output.scale_rows(asm, factors);
                    asm.place(&kept);
                }
            }
        });
    }

    fn issue_scores(&self, asm: &mut Asm) {
        self.products.issue_scores(asm, self.fwd, self.ends.q.stage(), self.ends.k.stage());
    }

    fn wait_k(&self, asm: &mut Asm) {
        self.fwd.memory.k_ring.ready(asm, self.fwd.threads.smem, &self.ends.k);
    }

    /// Whether the V of a block is waited for as soon as its P is there: between the softmax and the wait for the output
    /// beside it. The loop of that wait holds the assembler to this order; otherwise it moves most exponentials behind the
    /// wait for the output, and so out of its shadow.
    fn waits_ahead(&self) -> bool {
        self.fwd.schedule.fp8.is_some()
    }

    /// The scores of a block are there: its K goes back, and Q with the tile's last block if O needs it no more.
    fn scores_done(&self, asm: &mut Asm) {
        let (memory, smem) = (&self.fwd.memory, self.fwd.threads.smem);
        memory.k_ring.release(asm, smem, &self.ends.k, self.leader);
        memory.k_ring.advance(asm, &self.ends.k);
        if memory.q_is_free_early() && self.fwd.schedule.queries == Queries::Shared {
            let last = asm.compare(Cmp::Eq, Num::S32, self.column, 0);
            let here = asm.pred(|p| op::and_pred(p, last, self.leader));
            memory.q_ring.release(asm, smem, &self.ends.q, here);
        }
    }

    pub(super) fn wait_v(&self, asm: &mut Asm) {
        self.fwd.memory.v_ring.ready(asm, self.fwd.threads.smem, &self.ends.v);
    }

    pub(super) fn release_v(&self, asm: &mut Asm) {
        self.fwd.memory.v_ring.release(asm, self.fwd.threads.smem, &self.ends.v, self.leader);
        self.fwd.memory.v_ring.advance(asm, &self.ends.v);
    }

    /// Goes past the block at hand without looking at it: a step's turn is taken and passed, its K and V are given back.
    pub(super) fn give_block_back(&self, asm: &mut Asm) {
        self.take_turn(asm);
        self.pass_turn(asm);
        self.wait_k(asm);
        self.scores_done(asm);
        self.wait_v(asm);
        self.release_v(asm);
        self.scales.iter().for_each(|scales| scales.skip_block(asm));
        asm.emit(op::sub(Int::S32, self.column, self.column, self.fwd.schedule.tile.columns));
    }

    pub(super) fn take_turn(&self, asm: &mut Asm) {
        if let Some(turn) = &self.turn {
            turn.take(asm);
        }
    }

    pub(super) fn pass_turn(&self, asm: &mut Asm) {
        if let Some(turn) = &self.turn {
            turn.pass(asm);
        }
    }
}
