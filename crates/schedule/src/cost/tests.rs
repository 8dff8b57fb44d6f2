//! The model against a table of measurements, and its behaviour at the edges.

use super::{H200, Prediction, Work, predict, shares};
use crate::feasible::tests::{base, e4m3};
use crate::{
    Element, Grid, HOPPER, HeadDim, Order, Overlap, Queries, Rescale, Schedule, Scheduler, Split, Stages, Threshold,
    Tile, Variant,
};

/// Lengths of the columns of [`ALWAYS`] and [`STANDING`].
const LENGTHS: [u64; 6] = [512, 1024, 2048, 4096, 8192, 16384];

/// A row of a table: head dimension, tile, Q stages, across tiles, causal; TFLOP/s for each length, 0 where not measured.
/// bf16 on an H200 in bursts, 16,384 tokens, hidden size 2,048, half of the operations where causal.
type Row = (u32, [u32; 2], u32, bool, bool, [u32; 6]);

/// With `rescale: always`, at head dimension 256 `above(8.0)`.
const ALWAYS: [Row; 12] = [
    (128, [128, 128], 2, false, false, [563, 652, 652, 652, 0, 654]),
    (128, [128, 128], 2, true, false, [577, 644, 636, 631, 0, 603]),
    (128, [128, 128], 2, false, true, [353, 508, 595, 630, 0, 645]),
    (128, [128, 128], 2, true, true, [363, 510, 591, 612, 0, 627]),
    (128, [128, 176], 1, false, false, [450, 571, 611, 667, 0, 678]),
    (128, [128, 176], 1, false, true, [256, 400, 515, 597, 0, 661]),
    (64, [192, 128], 2, false, false, [421, 468, 518, 525, 0, 556]),
    (64, [128, 128], 2, true, false, [410, 462, 452, 433, 0, 420]),
    (64, [192, 128], 2, false, true, [253, 334, 450, 476, 0, 526]),
    (64, [128, 128], 2, true, true, [294, 392, 453, 467, 0, 481]),
    (256, [128, 80], 1, false, false, [0, 0, 745, 0, 0, 732]),
    (256, [128, 80], 1, false, true, [0, 0, 533, 0, 0, 679]),
];

/// With `rescale: on_overflow`, the schedules that are chosen; at head dimension 128 one Q stage stands for Q in registers.
const STANDING: [Row; 8] = [
    (64, [192, 128], 2, true, false, [426, 449, 530, 559, 601, 594]),
    (64, [128, 128], 2, true, true, [257, 361, 0, 0, 0, 0]),
    (64, [192, 128], 2, false, true, [0, 0, 430, 486, 581, 603]),
    (128, [128, 128], 2, true, false, [608, 622, 701, 772, 783, 771]),
    (128, [128, 128], 2, true, true, [361, 508, 0, 0, 0, 0]),
    (128, [128, 128], 1, true, true, [0, 0, 657, 716, 774, 789]),
    (256, [128, 80], 1, false, false, [578, 724, 705, 759, 776, 776]),
    (256, [128, 80], 1, false, true, [346, 491, 573, 692, 756, 790]),
];

fn schedule(row: &Row, rescale: Rescale) -> Schedule {
    let &(dim, [rows, columns], q, across_tiles, causal, _) = row;
    let mut schedule = base();
    schedule.element = Element::Bf16;
    schedule.head_dim = HeadDim::same(dim);
    schedule.tile = Tile { rows, columns };
    schedule.roles.consumer.warpgroups = rows / 64;
    schedule.stages = Stages { q, kv: 2 };
    schedule.overlap = Overlap { within_warpgroup: true, pingpong: dim < 256, across_tiles };
    schedule.rescale = match rescale {
        Rescale::Always if dim == 256 => Rescale::Above(Threshold::new(8.0).expect("it is one")),
        other => other,
    };
    if rescale == Rescale::OnOverflow && dim == 128 && q == 1 {
        schedule.queries = Queries::Registers;
    }
    (schedule.variant, schedule.grid) = if causal {
        let order = Order::LongestFirst { l2_bytes: 32 << 20, heads: None };
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

/// Signed relative errors of a table's cells with their words, the smallest first.
fn errors(rows: &[Row], rescale: Rescale) -> Vec<(f64, String)> {
    let mut errors = Vec::new();
    for row in rows {
        let schedule = schedule(row, rescale);
        for (length, measured) in LENGTHS.into_iter().zip(row.5).filter(|(_, measured)| *measured > 0) {
            let predicted = predict(&schedule, &work(row.0, length), &HOPPER, &H200).tflops();
            let words = format!("d{} {:?} across {} causal {} {length}", row.0, row.1, row.3, row.4);
            errors.push((predicted / f64::from(measured) - 1.0, words));
        }
    }
    errors.sort_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
    errors
}

#[test]
fn predictions_are_near_what_was_measured() {
    for (rows, rescale, cells) in [(&ALWAYS[..], Rescale::Always, 54), (&STANDING[..], Rescale::OnOverflow, 36)] {
        let errors = errors(rows, rescale);
        assert_eq!(errors.len(), cells);
        assert!(errors[cells / 2].0.abs() < 0.04, "{errors:#?}");
        assert!(errors[cells - 1].0.abs() < 0.16, "{:?}", errors[cells - 1]);
        // Neither table is predicted too fast or too slow as a whole.
        let mean = errors.iter().map(|(error, _)| (1.0 + error).ln()).sum::<f64>() / cells as f64;
        assert!(mean.abs() < 0.02, "{mean}");
    }
}

#[test]
fn a_standing_reference_pays_and_costs_at_the_tile_s_end() {
    let of = |rescale, length| predict(&schedule(&STANDING[3], rescale), &work(128, length), &HOPPER, &H200).seconds;
    let gain = |length| of(Rescale::Always, length) / of(Rescale::OnOverflow, length);
    assert!(gain(16384) > 1.1, "{}", gain(16384));
    assert!(gain(512) < gain(16384));
}

#[test]
fn eight_bits_are_told_as_not_calibrated() {
    let mut schedule = schedule(&ALWAYS[0], Rescale::Always);
    let of = |schedule: &Schedule| predict(schedule, &work(128, 8192), &HOPPER, &H200);
    let sixteen = of(&schedule);
    e4m3(&mut schedule);
    let eight = of(&schedule);
    assert!(sixteen.calibrated && !eight.calibrated);
    assert!(!sixteen.to_string().contains("calibrated") && eight.to_string().ends_with("not calibrated for 8 bits"));
    // Faster than 16 bits, by less than the tensor cores are.
    assert!((1.1..2.0).contains(&(sixteen.seconds / eight.seconds)), "{eight}");
}

#[test]
fn what_binds_follows_the_problem() {
    let of = |row: usize, work: Work| predict(&schedule(&ALWAYS[row], Rescale::Always), &work, &HOPPER, &H200);
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
    let none = |work: Work| -> Prediction { predict(&schedule(&ALWAYS[2], Rescale::Always), &work, &HOPPER, &H200) };
    let empty = Work { batch: 0, queries: 0, keys: 0, heads: 0, group: 0 };
    assert!(none(empty).seconds < 1e-5);
    let keyless = none(Work { batch: 2, queries: 300, keys: 0, heads: 4, group: 1 });
    assert_eq!((keyless.steps, keyless.flops), (0.0, 0.0));
}

#[test]
fn a_mask_hides_half_of_a_square_and_less_where_keys_come_before() {
    let of = |row: usize, queries, keys| {
        let work = Work { batch: 4, queries, keys, heads: 16, group: 4 };
        predict(&schedule(&ALWAYS[row], Rescale::Always), &work, &HOPPER, &H200)
    };
    let share = of(2, 8192, 8192).steps / of(0, 8192, 8192).steps;
    assert!((0.45..0.55).contains(&share), "{share}");
    let share = of(2, 128, 8192).steps / of(0, 128, 8192).steps;
    assert_eq!(share, 1.0);
    // Causal with more queries than keys: some tiles see nothing.
    assert!(of(2, 8192, 1024).steps < 1.0);
}
