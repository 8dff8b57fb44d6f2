//! The model against a table of measurements, and its behaviour at the edges.

use super::{H200, Prediction, Work, predict, shares};
use crate::feasible::tests::base;
use crate::{Element, Grid, HOPPER, HeadDim, Order, Overlap, Schedule, Scheduler, Split, Stages, Tile, Variant};

/// Lengths of the columns of [`MEASURED`].
const LENGTHS: [u64; 5] = [512, 1024, 2048, 4096, 16384];

/// A row of the table: head dimension, tile, Q stages, across tiles, causal; TFLOP/s for each length, 0 where not
/// measured. bf16 on an H200 in bursts, 16,384 tokens, hidden size 2,048.
type Row = (u32, [u32; 2], u32, bool, bool, [u32; 5]);

const MEASURED: [Row; 12] = [
    (128, [128, 128], 2, false, false, [563, 652, 652, 652, 654]),
    (128, [128, 128], 2, true, false, [577, 644, 636, 631, 603]),
    (128, [128, 128], 2, false, true, [353, 508, 595, 630, 645]),
    (128, [128, 128], 2, true, true, [363, 510, 591, 612, 627]),
    (128, [128, 176], 1, false, false, [450, 571, 611, 667, 678]),
    (128, [128, 176], 1, false, true, [256, 400, 515, 597, 661]),
    (64, [192, 128], 2, false, false, [421, 468, 518, 525, 556]),
    (64, [128, 128], 2, true, false, [410, 462, 452, 433, 420]),
    (64, [192, 128], 2, false, true, [253, 334, 450, 476, 526]),
    (64, [128, 128], 2, true, true, [294, 392, 453, 467, 481]),
    (256, [128, 80], 1, false, false, [0, 0, 745, 0, 732]),
    (256, [128, 80], 1, false, true, [0, 0, 533, 0, 679]),
];

fn schedule(row: &Row) -> Schedule {
    let &(dim, [rows, columns], q, across_tiles, causal, _) = row;
    let mut schedule = base();
    schedule.element = Element::Bf16;
    schedule.head_dim = HeadDim::same(dim);
    schedule.tile = Tile { rows, columns };
    schedule.roles.consumer.warpgroups = rows / 64;
    schedule.stages = Stages { q, kv: 2 };
    schedule.overlap = Overlap { within_warpgroup: true, pingpong: dim < 256, across_tiles };
    (schedule.variant, schedule.grid) = if causal {
        let order = Order::LongestFirst { l2_bytes: 32 << 20 };
        (Variant::Causal, Grid { scheduler: Scheduler::Dynamic, order })
    } else {
        (Variant::Full, Grid::default())
    };
    schedule
}

fn work(dim: u32, length: u64) -> Work {
    Work { batch: 16384 / length, queries: length, keys: length, heads: 2048 / u64::from(dim), group: 1 }
}

fn split() -> Schedule {
    Schedule { split: Split::Keys, ..base() }
}

#[test]
fn few_tiles_over_many_keys_are_split_and_many_tiles_are_not() {
    let of = |heads, queries, keys| {
        let work = Work { batch: 1, queries, keys, heads, group: 1 };
        let whole = predict(&base(), &work, &HOPPER, &H200).seconds;
        (shares(&split(), &work, &HOPPER, &H200), predict(&split(), &work, &HOPPER, &H200).seconds / whole)
    };
    let (few, gain) = of(8, 512, 8192);
    assert!((3..=8).contains(&few) && gain < 0.5, "{few} shares, {gain}");
    let (one, gain) = of(1, 1, 65_536);
    assert!(one >= 32 && gain < 0.15, "{one} shares, {gain}");
    assert_eq!(of(64, 4096, 4096), (1, 1.0), "every SM has tiles enough");
    assert_eq!(of(8, 512, 128).0, 1, "one key tile has no shares");
    assert_eq!(of(8, 512, 0).0, 1, "no keys");
    let work = Work { batch: 1, queries: 512, keys: 8192, heads: 8, group: 1 };
    assert_eq!(shares(&base(), &work, &HOPPER, &H200), 1, "a schedule that splits nothing");
}

#[test]
fn predictions_are_near_what_was_measured() {
    let mut errors = Vec::new();
    for row in &MEASURED {
        let schedule = schedule(row);
        for (length, measured) in LENGTHS.into_iter().zip(row.5).filter(|(_, measured)| *measured > 0) {
            let predicted = predict(&schedule, &work(row.0, length), &HOPPER, &H200).tflops();
            errors.push((predicted / f64::from(measured) - 1.0, row.0, row.1, row.3, row.4, length));
        }
    }
    errors.sort_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
    let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
    assert!(median.0.abs() < 0.04, "{errors:?}");
    assert!(worst.0.abs() < 0.16, "{worst:?}");
}

#[test]
fn what_binds_follows_the_problem() {
    let of = |row: usize, work: Work| predict(&schedule(&MEASURED[row]), &work, &HOPPER, &H200);
    let long = of(0, work(128, 16384));
    assert_eq!((long.binds, long.tiles_per_sm, long.steps), ("tensor", 16, 128.0));
    assert!(long.bound < long.seconds);
    let lonely = Work { batch: 1, queries: 128, keys: 1 << 17, heads: 1, group: 1 };
    assert_eq!(of(0, lonely).binds, "idle SMs");
    let tiny = Work { batch: 1, queries: 1, keys: 1, heads: 1, group: 1 };
    assert_ne!(of(0, tiny).binds, "tensor");
    let one_step = Work { batch: 512, queries: 128, keys: 128, heads: 64, group: 1 };
    assert!(["tile edges", "memory"].contains(&of(0, one_step).binds));
}

#[test]
fn nothing_to_do_takes_a_launch() {
    let none = |work: Work| -> Prediction { predict(&schedule(&MEASURED[2]), &work, &HOPPER, &H200) };
    let empty = Work { batch: 0, queries: 0, keys: 0, heads: 0, group: 0 };
    assert!(none(empty).seconds < 1e-5);
    let keyless = none(Work { batch: 2, queries: 300, keys: 0, heads: 4, group: 1 });
    assert_eq!((keyless.steps, keyless.flops), (0.0, 0.0));
}

#[test]
fn a_mask_hides_half_of_a_square_and_less_where_keys_come_before() {
    let of = |row: usize, queries, keys| {
        let work = Work { batch: 4, queries, keys, heads: 16, group: 4 };
        predict(&schedule(&MEASURED[row]), &work, &HOPPER, &H200)
    };
    let share = of(2, 8192, 8192).steps / of(0, 8192, 8192).steps;
    assert!((0.45..0.55).contains(&share), "{share}");
    let share = of(2, 128, 8192).steps / of(0, 128, 8192).steps;
    assert_eq!(share, 1.0);
    // Causal with more queries than keys: some tiles see nothing.
    assert!(of(2, 8192, 1024).steps < 1.0);
}
