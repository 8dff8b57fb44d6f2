//! Zeros, not-a-numbers, infinities and magnitudes at the ends of the format.

use schedule::{Quantize, Rotation};
use sim::{Options, Policy};
use tilewright::reference::e4m3;

use super::case::{Case, Written};
use super::{CHOSEN, blocks, problem, quantize};

/// Columns of every row here.
const DIM: u64 = 64;

fn run(schedule: &Quantize, change: impl FnOnce(Case<'_>) -> Case<'_>) -> (Vec<String>, Written) {
    let problem = problem(DIM as u32).batch(1).heads(1).build().expect("fine");
    let case = change(Case::new(schedule, &problem, &CHOSEN));
    let options = Options { policy: Policy::Early, ..Options::default() };
    let written = case.run(&options).unwrap_or_else(|failure| panic!("{failure}"));
    (case.differences(&written), written)
}

#[test]
fn a_block_of_zeros_has_scale_one_and_zeros() {
    for rotation in [Rotation::Hadamard, Rotation::Off] {
        let schedule = Quantize { rotation, ..quantize(DIM as u32, blocks(64)) };
        let (differences, written) = run(&schedule, |case| case.scale(0, 0.0).scale(2, 0.0));
        assert!(differences.is_empty(), "{differences:#?}");
        for t in [0, 2] {
            assert!(
                written.codes[t].iter().all(|&code| code & 0x7f == 0) && written.scales[t].iter().all(|&s| s == 1.0)
            );
        }
    }
}

#[test]
fn tiny_and_huge_magnitudes_keep_finite_scales() {
    let schedule = Quantize { rotation: Rotation::Off, ..quantize(DIM as u32, blocks(64)) };
    for factor in [1e-37, 1e-28, 1e30, 5e37] {
        let (differences, written) = run(&schedule, |case| [0, 1, 2].into_iter().fold(case, |c, t| c.scale(t, factor)));
        assert!(differences.is_empty(), "{factor}: {differences:#?}");
        assert!(written.scales.concat().iter().all(|s| s.is_finite() && *s > 0.0), "{factor}: {:?}", written.scales);
    }
}

#[test]
fn a_nan_stays_where_it_is() {
    for rotation in [Rotation::Hadamard, Rotation::Off] {
        let schedule = Quantize { rotation, ..quantize(DIM as u32, blocks(64)) };
        let (clean, _) = run(&schedule, |case| case);
        let (_, written) = run(&schedule, |case| {
            case.put(0, [0, 5, 0, 7], f32::NAN).put(1, [0, 150, 0, 1], f32::NAN).put(2, [0, 33, 0, 2], f32::NAN)
        });
        assert!(clean.is_empty(), "{clean:#?}");
        let nans = |t: usize| -> Vec<usize> {
            (0..written.codes[t].len()).filter(|&at| e4m3::decode(written.codes[t][at]).is_nan()).collect()
        };
        let row = |row: u64| -> Vec<usize> { (row * DIM..(row + 1) * DIM).map(|at| at as usize).collect() };
        assert_eq!((nans(0), nans(1)), (row(5), row(150)), "{rotation}");
        // Column 2 of V's codes, 208 keys a column, key 33 at place 33.
        assert_eq!(nans(2), [2 * 208 + 33], "{rotation}");
        assert!(written.scales.concat().iter().all(|s| s.is_finite()), "{:?}", written.scales);
    }
}

#[test]
fn an_infinity_saturates_and_its_scale_is_finite() {
    let schedule = quantize(DIM as u32, blocks(64));
    let (differences, written) = run(&schedule, |case| {
        case.put(0, [0, 69, 0, 0], f32::NEG_INFINITY).put(1, [0, 0, 0, 9], f32::INFINITY).put(
            2,
            [0, 202, 0, 63],
            f32::INFINITY,
        )
    });
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(written.codes[0][69 * 64..].iter().all(|&code| code & 0x7f == 0x7e));
    assert!(written.scales.concat().iter().all(|s| s.is_finite()), "{:?}", written.scales);
}

#[test]
fn outliers_do_not_reach_other_blocks() {
    let schedule = quantize(DIM as u32, blocks(64));
    let (_, plain) = run(&schedule, |case| case);
    let (differences, written) = run(&schedule, |case| case.put(1, [0, 70, 0, 3], 1e6));
    assert!(differences.is_empty(), "{differences:#?}");
    let other: Vec<usize> = (0..4).filter(|&block| written.scales[1][block] != plain.scales[1][block]).collect();
    assert_eq!(other, [1]);
}
