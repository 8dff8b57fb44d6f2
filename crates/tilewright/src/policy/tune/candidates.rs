//! Every schedule of a class that fits the machine, under names that say how each differs.

use std::num::NonZeroU32;

use schedule::{
    Consumer, Grid, HOPPER, Order, Overlap, Pass, Probabilities, Producer, Queries, Rescale, Roles, RowSum, Schedule,
    Scheduler, Split, Stages, Threshold, Tile, Variant, feasible,
};

use super::Class;

/// Registers of a producer's and a consumer's thread, for 1, 2 and 3 consumer warpgroups.
const REGISTERS: [(u32, u32); 3] = [(56, 240), (24, 240), (32, 160)];

/// Step of the tile's columns: the depth of one wgmma of 16-bit elements.
pub(super) const COLUMN_STEP: u32 = 16;

/// Growth of the row maximum that is let pass, in powers of two.
const THRESHOLD: f32 = 8.0;

/// Bytes of L2 for the K and V of a section, for causal problems.
const SECTION: u64 = 32 << 20;

/// The most heads of a section: of fewer, the last tiles of a launch are not the short ones.
const SECTION_HEADS: Option<NonZeroU32> = NonZeroU32::new(32);

/// The feasible schedules of a class, those with the fewest peculiarities first. Whether each is lowered is not asked.
///
/// Tiles of 64, 128 and 192 rows with columns by 16, one and two stages of Q, two to four of K and V, all overlaps, Q in
/// shared memory and in registers, rescaling always, above a threshold and on overflow,
/// both schedulers.
pub fn candidates(class: Class) -> Vec<Schedule> {
    let mut found = Vec::new();
    for grid in grids(class.variant) {
        let above = Threshold::new(THRESHOLD).map(Rescale::Above);
        for rescale in [Some(Rescale::Always), above, Some(Rescale::OnOverflow)].into_iter().flatten() {
            for queries in [Queries::Shared, Queries::Registers] {
                for tile in tiles() {
                    for overlap in overlaps(tile.rows) {
                        for (q, kv) in [(2, 2), (2, 3), (2, 4), (1, 2), (1, 3)] {
                            let stages = Stages { q, kv };
                            let schedule = made(class, tile, stages, overlap, queries, rescale, grid);
                            if feasible::check(&schedule, &HOPPER).is_empty() {
                                found.push(schedule);
                            }
                        }
                    }
                }
            }
        }
    }
    found
}

fn made(
    class: Class,
    tile: Tile,
    stages: Stages,
    overlap: Overlap,
    queries: Queries,
    rescale: Rescale,
    grid: Grid,
) -> Schedule {
    let warpgroups = tile.rows / 64;
    let (produce, consume) = REGISTERS[(warpgroups as usize).clamp(1, REGISTERS.len()) - 1];
    let mut schedule = Schedule {
        name: String::new(),
        doc: "Found by tuning.".into(),
        pass: Pass::Forward,
        element: class.element,
        variant: class.variant,
        head_dim: class.head_dim,
        tile,
        stages,
        roles: Roles {
            producer: Producer { warps: 1, registers: produce },
            consumer: Consumer { warpgroups, registers: consume },
        },
        overlap,
        queries,
        probabilities: Probabilities::Registers,
        rescale,
        row_sum: RowSum::Threads,
        fp8: None,
        split: Split::None,
        grid,
    };
    schedule.name = name(&schedule);
    schedule
}

/// `fwd_bf16_d128_causal_128x176_q1_kv2_wpa_rq_above_dynamic`: the class, the tile, the stages, the overlaps by their
/// initials, and what else is not usual.
fn name(schedule: &Schedule) -> String {
    let dim = schedule.head_dim;
    let dim = if dim.qk == dim.v { dim.qk.to_string() } else { format!("{}x{}", dim.qk, dim.v) };
    let mut name = format!("fwd_{}_d{dim}", schedule.element);
    if schedule.variant != Variant::Full {
        name += &format!("_{}", schedule.variant);
    }
    let (tile, stages) = (schedule.tile, schedule.stages);
    name += &format!("_{}x{}_q{}_kv{}_", tile.rows, tile.columns, stages.q, stages.kv);
    name.extend(Overlap::WORDS.iter().filter(|word| schedule.overlap.has(word)).filter_map(|word| word.chars().next()));
    if schedule.queries == Queries::Registers {
        name += "_rq";
    }
    match schedule.rescale {
        Rescale::Always => {}
        Rescale::OnOverflow => name += "_overflow",
        _ => name += "_above",
    }
    name + "_" + schedule.grid.scheduler.keyword()
}

fn tiles() -> impl Iterator<Item = Tile> {
    let columns = || (COLUMN_STEP..=HOPPER.wgmma_columns_max).rev().step_by(COLUMN_STEP as usize);
    [128, 192, 64].into_iter().flat_map(move |rows| columns().map(move |columns| Tile { rows, columns }))
}

fn overlaps(rows: u32) -> Vec<Overlap> {
    let within = Overlap { within_warpgroup: true, pingpong: false, across_tiles: false };
    let both = Overlap { pingpong: true, ..within };
    let across = |overlap: Overlap| Overlap { across_tiles: true, ..overlap };
    if rows > 64 { vec![both, across(both), within, across(within)] } else { vec![within, across(within)] }
}

fn grids(variant: Variant) -> Vec<Grid> {
    let of = |scheduler, order| Grid { scheduler, order };
    match variant {
        Variant::Causal => {
            vec![of(Scheduler::Dynamic, Order::LongestFirst { l2_bytes: SECTION, heads: SECTION_HEADS })]
        }
        _ => vec![of(Scheduler::Static, Order::HeadMajor), of(Scheduler::Dynamic, Order::HeadMajor)],
    }
}
