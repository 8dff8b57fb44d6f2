//! The consumers' walk over tiles: what of one tile runs beside the next.

use ptx::qual::Regs;
use ptx::{F32, Label};
use schedule::footprint::Staging;
use tile::{Asm, Program};

use super::Forward;
use super::consumer::Consumer;
use super::coordinates::Tile;
use super::shares::Shares;
use super::unseen;

/// The consumers' code, entered at `entry`.
pub(super) fn emit(program: &mut Program, fwd: &Forward<'_>, entry: &Label) {
    let groups = fwd.schedule.roles.consumer.warpgroups;
    let registers = fwd.schedule.roles.consumer.registers;
    let exit = program.exit().clone();
    program.role("consumer", 1..1 + groups, Some(entry), Regs::Inc, registers);
    let leader = Program::leader(&mut program.asm, &fwd.threads);
    let asm = &mut program.asm;
    let consumer = Consumer::new(asm, fwd, leader);
    match fwd.schedule.overlap.across_tiles {
        true => tiles_overlapped(asm, &consumer, &exit),
        false => tiles_in_turn(asm, &consumer, &exit),
    }
}

/// Inverse row sums and log-sum-exp of the lane's two rows.
#[derive(Clone, Copy)]
struct Results {
    inverse: [F32; 2],
    lse: [F32; 2],
}

impl Results {
    fn new(asm: &mut Asm) -> Results {
        Results { inverse: [asm.new_f32(), asm.new_f32()], lse: [asm.new_f32(), asm.new_f32()] }
    }
}

/// Each tile from its coordinates to its last store, then the next.
fn tiles_in_turn(asm: &mut Asm, consumer: &Consumer<'_, '_>, exit: &Label) {
    let fwd = consumer.fwd;
    let results = Results::new(asm);
    let shares = Shares::new(fwd, consumer);
    let next_tile = asm.label("TILE");
    // What is in a tile of its own has to leave before the kernel ends.
    let drain = (fwd.memory.staging == Staging::OwnTile).then(|| asm.label("DRAIN"));
    asm.place(&next_tile);
    let done = consumer.take_tile(asm, &consumer.tile);
    asm.jump_if(done, drain.as_ref().unwrap_or(exit));
    let q_slot = consumer.take_queries(asm, &consumer.tile);
    consumer.products.start_output(asm);
    consumer.start_at_last_block(asm);
    unseen::skip(asm, consumer);
    let mask = consumer.mask(asm);
    match fwd.schedule.overlap.within_warpgroup {
        true => {
            consumer.issue_first_scores(asm);
            consumer.finish_first_scores(asm, &mask);
            consumer.further_steps(asm, &mask);
            if shares.is_none() {
                finish_alone(asm, consumer, results);
            } else {
                consumer.issue_last_output(asm);
                consumer.products.wait(asm, 0);
                consumer.release_v(asm);
            }
        }
        false => {
            consumer.blocks_in_turn(asm, &mask);
            if shares.is_none() {
                consumer.finish_rows_in_turn(asm, results.inverse, results.lse);
            }
        }
    }
    let missing = asm.label("SHARES_MISSING");
    if let Some(shares) = &shares {
        shares.put_together(asm, consumer, &missing);
        consumer.results(asm, None, results.inverse, results.lse);
    }
    consumer.give_verdict(asm);
    let (epilogue, products, tile) = (&consumer.epilogue, &consumer.products, &consumer.tile);
    match &fwd.memory.o_gate {
        Some(gate) => epilogue.store_through_values(asm, fwd, products, tile, gate, results.inverse),
        None if drain.is_some() => epilogue.store_through_own(asm, fwd, products, tile, results.inverse),
        None => {
            let slot = (q_slot, consumer.ends.q.stage());
            epilogue.store_through_slot(asm, fwd, products, tile, slot, results.inverse);
        }
    }
    consumer.epilogue.store_statistics(asm, fwd, &consumer.tile, results.lse);
    fwd.memory.q_ring.advance(asm, &consumer.ends.q);
    asm.jump(&next_tile);
    if shares.is_some() {
        asm.place(&missing);
        asm.comment("another share is to end this query tile");
        consumer.epilogue.store_nothing(asm, fwd, q_slot);
        fwd.memory.q_ring.advance(asm, &consumer.ends.q);
        asm.jump(&next_tile);
    }
    if let Some(drain) = &drain {
        asm.place(drain);
        consumer.epilogue.drain(asm);
        asm.jump(exit);
    }
}

/// The first scores of the next tile run beside the last output and the stores of this one.
fn tiles_overlapped(asm: &mut Asm, consumer: &Consumer<'_, '_>, exit: &Label) {
    let fwd = consumer.fwd;
    let results = Results::new(asm);
    let next = Tile::new(asm, fwd);
    let [running, last, drain] = ["TILE", "LAST_TILE", "DRAIN"].map(|stem| asm.label(stem));
    let start_alone = |asm: &mut Asm| {
        let done = consumer.take_tile(asm, &consumer.tile);
        asm.jump_if(done, &drain);
        consumer.take_queries(asm, &consumer.tile);
        consumer.issue_first_scores(asm);
    };
    let store = |asm: &mut Asm| {
        consumer.give_verdict(asm);
        consumer.epilogue.store_through_own(asm, fwd, &consumer.products, &consumer.tile, results.inverse);
        consumer.epilogue.store_statistics(asm, fwd, &consumer.tile, results.lse);
    };

    asm.comment("the first tile starts alone");
    start_alone(asm);

    asm.place(&running);
    asm.comment("the first scores of this tile are in flight");
    consumer.products.start_output(asm);
    consumer.start_at_last_block(asm);
    let mask = consumer.mask(asm);
    consumer.finish_first_scores(asm, &mask);
    consumer.further_steps(asm, &mask);
    fwd.memory.q_ring.advance(asm, &consumer.ends.q);
    let done = consumer.take_tile(asm, &next);
    asm.jump_if(done, &last);
    consumer.take_queries(asm, &next);
    consumer.take_turn(asm);
    consumer.issue_last_output(asm);
    consumer.issue_first_scores(asm);
    consumer.pass_turn(asm);
    consumer.finish_rows(asm, 1, results.inverse, results.lse);
    store(asm);
    consumer.tile.become_copy_of(asm, &next);
    asm.jump(&running);

    asm.place(&last);
    asm.comment("the last tile ends alone");
    finish_alone(asm, consumer, results);
    store(asm);
    if fwd.memory.verdict.is_some() {
        // Not by a jump to the code above: in a loop around the loop over tiles, the assembler takes descriptors out of
        // uniform registers.
        asm.comment("it may come again");
        start_alone(asm);
        asm.jump(&running);
    }
    asm.place(&drain);
    consumer.epilogue.drain(asm);
    asm.jump(exit);
}

/// The output of a tile's last block with nothing beside it but the row sums.
fn finish_alone(asm: &mut Asm, consumer: &Consumer<'_, '_>, results: Results) {
    consumer.issue_last_output(asm);
    consumer.finish_rows(asm, 0, results.inverse, results.lse);
}
