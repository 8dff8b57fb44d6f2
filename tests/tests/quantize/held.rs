//! V read once: warpgroups that hold their tiles and wait for one another's.

use schedule::{Element, Granularities, Granularity, Quantize, Rotation};
use sim::{Kind, Options, Policy};
use tilewright::{Problem, ProblemBuilder};

use crate::case::{Case, Written};
use crate::{CHOSEN, Chosen, blocks, quantize, right, roles, seeds};

/// Keys of a V tile of 64 columns.
const TILE: u64 = 256;
/// Warpgroups of a block that round.
const GROUPS: u32 = 3;

fn problem(keys: u64, kv_heads: u64) -> ProblemBuilder {
    Problem::builder().queries(5).keys(keys).heads(kv_heads).kv_heads(kv_heads).head_dim(64)
}

/// Runs on so many blocks, all at the same time, by every seed; holds the outcome against the reference.
fn run(what: &str, case: Case<'_>, ctas: u32) -> Written {
    let case = case.ctas(ctas);
    let mut last = None;
    for seed in seeds() {
        for policy in [Policy::Early, Policy::Orderly] {
            last = Some(right(what, &case, &Options { policy, resident: ctas as usize, ..Options::seeded(seed) }));
        }
    }
    last.expect("there is a seed")
}

/// Held where it fits, and that the codes are to the bit those of two readings.
fn holds(what: &str, schedule: &Quantize, problem: &Problem, ctas: u32) {
    let once = Case::new(schedule, problem, &CHOSEN).ctas(ctas);
    assert!(once.dealt() > 0, "{what}: read once");
    let twice = Case::new(schedule, problem, &Chosen { all_at_once: false, ..CHOSEN }).ctas(ctas);
    assert_eq!(twice.dealt(), 0, "{what}: read twice");
    assert_eq!(run(what, once, ctas), run(what, twice, ctas), "{what}: the same codes and scales");
}

#[test]
fn a_head_as_long_as_the_device_holds_and_one_that_is_longer() {
    let schedule = quantize(64, blocks(128));
    for ctas in [1, 2, 5] {
        let most = u64::from(ctas * GROUPS) * TILE;
        let dealt = |keys: u64| {
            let problem = problem(keys, 1).build().expect("fine");
            Case::new(&schedule, &problem, &CHOSEN).ctas(ctas).dealt()
        };
        assert_eq!((dealt(most), dealt(most + 1)), (ctas * GROUPS, 0), "{ctas}");
        let longest = problem(most, 1).build().expect("fine");
        holds(&format!("{most} keys on {ctas} blocks"), &schedule, &longest, ctas);
        let longer = problem(most + 1, 1).build().expect("fine");
        run(&format!("{} keys on {ctas} blocks", most + 1), Case::new(&schedule, &longer, &CHOSEN), ctas);
    }
}

#[test]
fn rounds_of_many_heads_leave_some_warpgroups_free() {
    let schedule = quantize(64, blocks(128));
    // Tiles of a head, heads: rounds that fill the grid of six or leave one, two or five free, the last of fewer heads.
    for (tiles, heads) in [(1, 1), (1, 13), (2, 5), (4, 3), (5, 2)] {
        let problem = problem(tiles * TILE - 7, heads).batch(2).build().expect("fine");
        holds(&format!("{heads} heads of {tiles} tiles"), &schedule, &problem, 2);
    }
}

#[test]
fn one_scale_for_all_heads_is_dealt_in_one_round() {
    let scales = Granularities { v: Granularity::Tensor, ..blocks(64) };
    let schedule = Quantize { element: Element::F16, rotation: Rotation::Off, ..quantize(64, scales) };
    let problem = |heads| problem(TILE + 1, heads).batch(2).element(Element::F16).build().expect("fine");
    holds("two heads of two tiles in two batch entries", &schedule, &problem(2), 3);
    let three = problem(3);
    let case = Case::new(&schedule, &three, &CHOSEN).ctas(3);
    assert_eq!(case.dealt(), 0, "twelve tiles for nine warpgroups");
    run("three heads", case, 3);
}

#[test]
fn tiles_of_any_shape_are_held() {
    // Rings of one slot, where nothing is looked at ahead; two blocks a thread; threads without one.
    for (dim, k) in [(128, 224), (256, 128), (72, 64), (192, 128)] {
        let schedule = quantize(dim, blocks(k));
        let problem = problem(300, 3).head_dim(dim).build().expect("fine");
        holds(&schedule.name, &schedule, &problem, 4);
    }
}

#[test]
fn scales_of_heads_of_q_and_k_are_waited_for_behind_the_rounds() {
    use Granularity::{Head, Tensor};
    for (q, k, v) in [(Head, Head, Head), (Tensor, Head, Tensor)] {
        let schedule = quantize(64, Granularities { q, k, v });
        let problem = problem(300, 2).queries(200).build().expect("fine");
        holds(&schedule.name, &schedule, &problem, 3);
    }
}

#[test]
fn operations_may_be_late_where_a_tile_waits_for_itself() {
    // Tiles that are all of their head: nobody's word is waited for by turns.
    let mut schedule = quantize(64, blocks(128));
    schedule.roles = roles(1, 240);
    let problem = problem(TILE, 3).build().expect("fine");
    for policy in [Policy::Random, Policy::Late] {
        let case = Case::new(&schedule, &problem, &CHOSEN).ctas(1);
        right("tiles that wait for themselves", &case, &Options { policy, ..Options::default() });
    }
}

#[test]
fn blocks_that_do_not_all_run_would_wait_for_ever() {
    let schedule = quantize(64, blocks(128));
    let problem = problem(2 * u64::from(GROUPS) * TILE, 1).build().expect("fine");
    let options = |resident| Options { policy: Policy::Early, resident, limit: 400_000, ..Options::default() };
    let once = Case::new(&schedule, &problem, &CHOSEN).ctas(2);
    assert!(once.all_at_once(), "the launch says so");
    let failure = once.run(&options(1)).expect_err("the other block's tiles are never measured");
    assert_eq!(failure.kind(), Some(Kind::Endless), "{failure}");
    let twice = Case::new(&schedule, &problem, &Chosen { all_at_once: false, ..CHOSEN }).ctas(2);
    assert!(!twice.all_at_once(), "items are drawn");
    twice.run(&options(1)).unwrap_or_else(|failure| panic!("one block after the other: {failure}"));
}
