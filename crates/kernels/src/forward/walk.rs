//! The consumers' walk over tiles: what of one tile runs beside the next.

use ptx::qual::{Cmp, Num, Value};
use ptx::{F32, Label, op};
use tile::Asm;

use super::consumer::{Consumer, Tile};

/// Inverse row sums and log-sum-exp of the lane's two rows.
struct Results {
    inverse: [F32; 2],
    lse: [F32; 2],
}

impl Results {
    fn new(asm: &mut Asm) -> Results {
        Results { inverse: [asm.new_f32(), asm.new_f32()], lse: [asm.new_f32(), asm.new_f32()] }
    }

    /// What a row without keys has: O = 0 and a log-sum-exp of minus infinity.
    fn of_no_keys(&self, asm: &mut Asm) {
        asm.comment("a row without keys: O = 0, log-sum-exp = -inf");
        for (inverse, lse) in self.inverse.into_iter().zip(self.lse) {
            asm.emit(op::mov(Value::F32, inverse, 0.0));
            asm.emit(op::mov(Value::F32, lse, f32::NEG_INFINITY));
        }
    }
}

fn has_no_keys(asm: &mut Asm, tile: &Tile) -> ptx::Pred {
    asm.compare(Cmp::Eq, Num::U32, tile.blocks, 0)
}

/// Each tile from its coordinates to its last store, then the next.
pub(super) fn tiles_in_turn(asm: &mut Asm, consumer: &Consumer<'_, '_>, exit: &Label) {
    let fwd = consumer.fwd;
    let q_ring = &fwd.memory.q_ring;
    let results = Results::new(asm);
    let next_tile = asm.label("TILE");
    asm.place(&next_tile);
    let done = consumer.take_tile(asm, &consumer.tile);
    asm.jump_if(done, exit);
    let q_slot = consumer.take_queries(asm);
    results.of_no_keys(asm);
    consumer.products.output.zero(asm);
    let finished = asm.label("FINISHED");
    let no_keys = has_no_keys(asm, &consumer.tile);
    asm.jump_if(no_keys, &finished);

    consumer.start_at_last_block(asm);
    let mask = consumer.mask(asm);
    match fwd.schedule.overlap.within_warpgroup {
        true => {
            consumer.issue_first_scores(asm);
            consumer.finish_first_scores(asm, &mask);
            consumer.further_steps(asm, &mask);
            consumer.issue_last_output(asm);
            consumer.finish_rows(asm, results.inverse, results.lse);
            consumer.products.wait(asm, 0);
            consumer.release_v(asm);
        }
        false => {
            consumer.blocks_in_turn(asm, &mask);
            consumer.finish_rows(asm, results.inverse, results.lse);
        }
    }

    asm.place(&finished);
    let slot = (q_slot, consumer.ends.q.stage());
    consumer.epilogue.store_through_slot(asm, fwd, &consumer.products, &consumer.tile, slot, results.inverse);
    consumer.epilogue.store_statistics(asm, fwd, &consumer.tile, results.lse);
    q_ring.advance(asm, &consumer.ends.q);
    asm.jump(&next_tile);
}

/// The first scores of the next tile run beside the last output and the stores of this one.
///
/// A tile without keys has no scores to run ahead with: it is entered alone, and so is the one after it.
pub(super) fn tiles_overlapped(asm: &mut Asm, consumer: &Consumer<'_, '_>, exit: &Label) {
    let (fwd, smem) = (consumer.fwd, consumer.fwd.threads.smem);
    let q_ring = &fwd.memory.q_ring;
    let results = Results::new(asm);
    let next = Tile::new(asm);
    let [alone, running, last_alone, without_keys, drain] =
        ["TILE_ALONE", "TILE", "LAST_ALONE", "NO_KEYS", "DRAIN"].map(|stem| asm.label(stem));
    let store = |asm: &mut Asm| {
        consumer.epilogue.store_through_own(asm, fwd, &consumer.products, &consumer.tile, results.inverse);
        consumer.epilogue.store_statistics(asm, fwd, &consumer.tile, results.lse);
    };

    asm.place(&alone);
    let done = consumer.take_tile(asm, &consumer.tile);
    asm.jump_if(done, &drain);
    let no_keys = has_no_keys(asm, &consumer.tile);
    asm.jump_if(no_keys, &without_keys);
    consumer.take_queries(asm);
    consumer.issue_first_scores(asm);

    asm.place(&running);
    asm.comment("the first scores of this tile are in flight");
    consumer.products.output.zero(asm);
    consumer.start_at_last_block(asm);
    let mask = consumer.mask(asm);
    consumer.finish_first_scores(asm, &mask);
    consumer.further_steps(asm, &mask);
    q_ring.advance(asm, &consumer.ends.q);
    let done = consumer.take_tile(asm, &next);
    asm.jump_if(done, &last_alone);
    let no_keys = has_no_keys(asm, &next);
    asm.jump_if(no_keys, &last_alone);
    consumer.take_queries(asm);
    consumer.take_turn(asm);
    consumer.issue_last_output(asm);
    consumer.issue_first_scores(asm);
    consumer.pass_turn(asm);
    consumer.finish_rows(asm, results.inverse, results.lse);
    consumer.products.wait(asm, 1);
    consumer.release_v(asm);
    store(asm);
    consumer.tile.become_copy_of(asm, &next);
    asm.jump(&running);

    asm.place(&last_alone);
    asm.comment("no scores to run beside: the last output alone");
    consumer.issue_last_output(asm);
    consumer.finish_rows(asm, results.inverse, results.lse);
    consumer.products.wait(asm, 0);
    consumer.release_v(asm);
    store(asm);
    consumer.tile.become_copy_of(asm, &next);
    let done = asm.compare(Cmp::Eq, Num::S32, consumer.tile.row, super::order::NO_ROW);
    asm.jump_if(done, &drain);

    asm.place(&without_keys);
    results.of_no_keys(asm);
    consumer.products.output.zero(asm);
    q_ring.ready(asm, smem, &consumer.ends.q);
    q_ring.release(asm, smem, &consumer.ends.q, consumer.leader);
    q_ring.advance(asm, &consumer.ends.q);
    store(asm);
    asm.jump(&alone);

    asm.place(&drain);
    consumer.epilogue.drain(asm);
    asm.jump(exit);
}
