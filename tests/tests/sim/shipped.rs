//! Every shipped kernel over shapes with edges and seeds: no finding, right numbers, the same run for the same seed.
//!
//! `TILEWRIGHT_SIM_SEEDS=20` runs more of them.

use crate::attention::Case;
use rayon::prelude::*;
use schedule::{Exponential, Fp8, Rescale, Schedule, Variant};
use sim::forward::{Inputs, Problem};
use sim::{Machine, Options, Policy};

fn problems(causal: bool) -> Vec<Problem> {
    let base = Problem { causal, ..Problem::new(1, 1, 1) };
    vec![
        // One row and one key.
        base,
        // Whole tiles, more queries than keys: under a causal mask some rows, and whole tiles, see nothing.
        Problem { heads: 2, kv_heads: 2, queries: 256, keys: 128, ..base },
        // Edges in both, grouped heads, more keys than queries, two batch entries.
        Problem { batch: 2, heads: 2, kv_heads: 1, queries: 70, keys: 333, ctas: 2, ..base },
        // A ring goes round several times in one CTA.
        Problem { heads: 4, kv_heads: 2, queries: 130, keys: 257, ctas: 1, ..base },
        // One CTA a tile.
        Problem { heads: 1, kv_heads: 1, queries: 300, keys: 190, ctas: 100, ..base },
        // No keys at all.
        Problem { heads: 1, kv_heads: 1, queries: 65, keys: 0, ..base },
    ]
}

fn seeds() -> u64 {
    std::env::var("TILEWRIGHT_SIM_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2)
}

fn policy(seed: u64) -> Policy {
    [Policy::Random, Policy::Late, Policy::Random, Policy::Early][seed as usize % 4]
}

fn trials(schedule: &Schedule) -> Vec<String> {
    let module = kernels::lower(schedule).expect("it ships");
    let verified = check::verify(module).unwrap_or_else(|findings| panic!("{}: {findings:?}", schedule.name));
    let kernel = &ptx::Proven::module(&verified).kernel;
    let mut faults = Vec::new();
    for problem in problems(schedule.variant != Variant::Full) {
        let case = Case::new(kernel, &problem);
        for seed in 0..seeds() {
            let options = Options { policy: policy(seed), ..Options::seeded(seed) };
            match case.run(kernel, &options) {
                Ok(outputs) => {
                    let wrong = case.wrong(&outputs);
                    faults.extend(wrong.map(|w| format!("{} {problem:?} seed {seed}: {w}", schedule.name)));
                }
                Err(failure) => faults.push(format!("{problem:?}: {failure}")),
            }
        }
    }
    faults
}

#[test]
fn every_shipped_kernel_is_clean_and_right() {
    let faults: Vec<String> = templates::all().par_iter().flat_map(trials).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_diagonal_may_cross_tiles_of_any_columns_whether_tiles_overlap_or_not() {
    let base = templates::named("fwd_bf16_d128_causal").expect("it ships");
    let cases = [(true, 80), (true, 96), (false, 80), (false, 96)].map(|(across_tiles, columns)| {
        let mut schedule = base.clone();
        schedule.name = format!("across_{across_tiles}_{columns}");
        schedule.tile.columns = columns;
        schedule.overlap.across_tiles = across_tiles;
        schedule
    });
    let faults: Vec<String> = cases.par_iter().flat_map(trials).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn half_of_p_may_do_without_the_exponential_unit() {
    let mut schedule = templates::named("fwd_linear_e4m3_d128").expect("it ships");
    schedule.name = "half_linear".into();
    schedule.rescale = Rescale::Always;
    schedule.fp8 = schedule.fp8.map(|fp8| Fp8 { exponential: Exponential::Linear(2), ..fp8 });
    let faults = trials(&schedule);
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_tile_that_overflows_is_done_again() {
    let mut again = templates::all();
    again.retain(|schedule| schedule.rescale == Rescale::OnOverflow);
    assert!(!again.is_empty(), "no shipped schedule does tiles again");
    again.par_iter().for_each(|schedule| {
        let kernel = kernels::lower(schedule).expect("it ships").kernel;
        let causal = schedule.variant != Variant::Full;
        let (rows, columns) = (schedule.tile.rows, schedule.tile.columns);
        let problem = Problem { causal, ctas: 2, ..Problem::new(3, rows + 5, rows + 3 * columns) };
        let (calm, wild) = (Case::new(&kernel, &problem), Case::with(&kernel, &problem, Inputs::wild));
        let run = |case: &Case| {
            let report = Machine::run_kernel(&kernel, case.launch(), &Options::seeded(3));
            let report = report.unwrap_or_else(|failure| panic!("{}: {failure}", schedule.name));
            assert_eq!(case.wrong(&case.outputs(&report)), None, "{}", schedule.name);
            report.instructions
        };
        let (calm, wild) = (run(&calm), run(&wild));
        assert!(wild * 10 > calm * 15, "{}: {calm}, {wild}", schedule.name);
    });
}

#[test]
fn the_same_seed_is_the_same_run() {
    let schedule = templates::named("fwd_bf16_d64_causal").expect("it ships");
    let kernel = kernels::lower(&schedule).expect("it ships").kernel;
    let problem = Problem { causal: true, ..Problem::new(2, 130, 140) };
    let case = Case::new(&kernel, &problem);
    let run = |seed| {
        let options = Options { trace: true, ..Options::seeded(seed) };
        sim::Machine::run_kernel(&kernel, case.launch(), &options).expect("it is clean")
    };
    let (one, two, other) = (run(5), run(5), run(6));
    assert_eq!(one.trace.to_json(), two.trace.to_json());
    assert_eq!(one.buffer("O"), two.buffer("O"));
    assert_eq!(one.buffer("O"), other.buffer("O"), "timing does not change what a clean kernel computes");
    assert_ne!(one.instructions, other.instructions, "another seed waits otherwise");
}
