//! Query tiles that are split, on the machine: right whatever the shares, and the same bits whatever comes first.

use crate::attention::Case;
use rayon::prelude::*;
use schedule::{Element, HeadDim, Overlap, Rescale, Schedule, Split, Stages, Threshold, Tile, Variant};
use sim::forward::{Forward, Inputs, Problem};
use sim::{Machine, Options, Policy};

/// A schedule that splits, of every element type, head dimension and mask, with one, two or three consumer warpgroups.
fn schedules() -> Vec<Schedule> {
    let base = templates::named("fwd_split_bf16_d128").expect("it ships");
    let mut all = Vec::new();
    for (at, element) in [Element::Bf16, Element::F16].into_iter().enumerate() {
        // Each with one of two shapes of tiles at its head dimensions, so that every part is tried and the test stays short.
        let tiles = [(64, [192, 64], 128, 2), (128, [64, 64], 128, 2), (256, [128, 64], 80, 1)];
        for (dim, rows, columns, q) in tiles.map(|(dim, rows, columns, q)| (dim, rows[at], columns, q)) {
            for variant in [Variant::Full, Variant::Causal] {
                let causal = variant == Variant::Causal;
                let mut schedule = base.clone();
                schedule.name = format!("split_{element}_d{dim}_{variant}_{rows}");
                schedule.element = element;
                schedule.variant = variant;
                schedule.head_dim = HeadDim::same(dim);
                schedule.tile = Tile { rows, columns };
                schedule.stages = Stages { q, kv: 2 };
                schedule.roles.consumer.warpgroups = rows / 64;
                (schedule.roles.producer.registers, schedule.roles.consumer.registers) = match rows {
                    64 => (56, 240),
                    128 => (40, 232),
                    _ => (32, 160),
                };
                schedule.overlap = Overlap { pingpong: rows > 64 && dim < 256, ..base.overlap };
                if element == Element::F16 && dim == 256 {
                    schedule.rescale = Threshold::new(8.0).map_or(Rescale::Always, Rescale::Above);
                }
                if causal {
                    schedule.grid = templates::named("fwd_bf16_d128_causal").expect("it ships").grid;
                }
                all.push(schedule);
            }
        }
    }
    let mut in_turn = Schedule { name: "split_in_turn".into(), ..base.clone() };
    in_turn.overlap = Overlap::default();
    all.extend([base, in_turn]);
    all
}

/// Shapes with edges; keys fewer than shares, none, and more shares than blocks among them.
fn problems(causal: bool) -> Vec<Problem> {
    let base = Problem { causal, ..Problem::new(1, 1, 1) };
    vec![
        Problem { queries: 1, keys: 1, shares: 3, ..base },
        Problem { queries: 1, keys: 1500, shares: 5, ctas: 5, ..base },
        Problem { queries: 300, keys: 190, shares: 2, ctas: 4, ..base },
        Problem { batch: 2, heads: 2, kv_heads: 1, queries: 70, keys: 333, shares: 3, ctas: 100, ..base },
        Problem { queries: 65, keys: 0, shares: 2, ..base },
        Problem { queries: 256, keys: 128, shares: 4, ctas: 1, ..base },
        Problem { queries: 130, keys: 700, shares: 1, ..base },
        // Under a causal mask a tile's first rows do not see the last of the last share's blocks, and then none of them.
        Problem { queries: 192, keys: 700, shares: 3, ctas: 3, ..base },
        Problem { queries: 192, keys: 700, shares: 6, ctas: 3, ..base },
    ]
}

fn seeds() -> u64 {
    std::env::var("TILEWRIGHT_SIM_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2)
}

fn policy(seed: u64) -> Policy {
    [Policy::Random, Policy::Late, Policy::Random, Policy::Early][seed as usize % 4]
}

/// Runs the kernel with every seed: right, the same bits, and counters back at zero. Returns what is off.
fn trial(schedule: &Schedule, problem: &Problem) -> Vec<String> {
    let module = kernels::lower(schedule).unwrap_or_else(|why| panic!("{}: {why}", schedule.name));
    let verified = check::verify(module).unwrap_or_else(|findings| panic!("{}: {findings:?}", schedule.name));
    let kernel = &ptx::Proven::module(&verified).kernel;
    let problem = Problem { kv_heads: problem.kv_heads.min(problem.heads), ..*problem };
    let case = Case::new(kernel, &problem);
    let mut first = None;
    let mut faults = Vec::new();
    for seed in 0..seeds() {
        let options = Options { policy: policy(seed), ..Options::seeded(seed) };
        let mut tell = |what: String| faults.push(format!("{} {problem:?} seed {seed}: {what}", schedule.name));
        let report = match Machine::run_kernel(kernel, case.launch(), &options) {
            Ok(report) => report,
            Err(failure) => {
                tell(failure.to_string());
                continue;
            }
        };
        case.wrong(&case.outputs(&report)).into_iter().for_each(&mut tell);
        Forward::left_counting(&report).into_iter().for_each(&mut tell);
        let bits = [report.buffer("O"), report.buffer("LSE")].map(|buffer| buffer.map(<[u8]>::to_vec));
        if *first.get_or_insert_with(|| bits.clone()) != bits {
            tell("other bits than with the first seed".into());
        }
    }
    faults
}

#[test]
fn shares_put_together_are_right_and_the_same_whatever_comes_first() {
    let faults: Vec<String> = schedules()
        .par_iter()
        .flat_map(|schedule| {
            let problems = problems(schedule.variant == Variant::Causal);
            problems.par_iter().flat_map_iter(|problem| trial(schedule, problem)).collect::<Vec<_>>()
        })
        .collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_share_with_far_higher_scores_outweighs_the_others() {
    let schedule = templates::named("fwd_split_bf16_d128").expect("it ships");
    let kernel = kernels::lower(&schedule).expect("it ships").kernel;
    let problem = Problem { shares: 3, ..Problem::new(1, 70, 500) };
    let case = Case::with(&kernel, &problem, Inputs::wild);
    let outputs = case.run(&kernel, &Options::seeded(1)).expect("it is clean");
    assert_eq!(case.wrong(&outputs), None);
}

#[test]
fn a_row_that_is_no_number_stays_so_and_spoils_no_other() {
    let schedule = templates::named("fwd_split_bf16_d128").expect("it ships");
    let kernel = kernels::lower(&schedule).expect("it ships").kernel;
    let problem = Problem { shares: 3, ..Problem::new(1, 70, 500) };
    let forward = Forward::of(&kernel).expect("a forward kernel");
    let mut inputs = Inputs::noise(forward, &problem, 1);
    inputs.q[5 * 128] = f32::NAN;
    let case = Case::of(&kernel, &problem, &inputs);
    let outputs = case.run(&kernel, &Options::seeded(1)).expect("it is clean");
    for (row, lse) in outputs.lse.iter().enumerate() {
        let o = &outputs.o[128 * row..][..128];
        let spoiled = row == 5;
        assert!(lse.is_nan() == spoiled && o.iter().all(|x| x.is_nan() == spoiled), "row {row}");
    }
}

#[test]
fn a_split_kernel_with_one_share_gives_the_bits_of_the_whole() {
    let split = templates::named("fwd_split_bf16_d128").expect("it ships");
    let whole = Schedule { split: Split::None, ..split.clone() };
    let problem = Problem::new(2, 130, 300);
    let bits = |schedule: &Schedule| {
        let kernel = kernels::lower(schedule).expect("it is lowered").kernel;
        Case::new(&kernel, &problem).run(&kernel, &Options::seeded(2)).expect("it is clean")
    };
    assert_eq!(bits(&split), bits(&whole));
}
