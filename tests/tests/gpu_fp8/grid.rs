//! Elements, head dimensions, masks and orders of V over lengths and groups; and every schedule by itself, the derived
//! ones among them.

use half::{bf16, f16};
use schedule::{Exponential, Rescale, Schedule};
use tilewright::{Accumulation, Element, Entry, Exponentials, Fp8, Output, Plan, Problem, Registry, ScaleBy, Values};
use tilewright_tests::gpu::call::build;
use tilewright_tests::gpu::compare::rows;
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::eight::{Coded, Off, call, problem_of};
use tilewright_tests::gpu::suite::{Case, gpu};

const HEAD_DIMS: [u32; 5] = [64, 96, 128, 192, 256];
const LENGTHS: [u64; 9] = [1, 63, 64, 65, 127, 129, 333, 1000, 2049];
const GROUPS: [u64; 3] = [1, 4, 7];
/// Scores of a head from which on there is one batch and one key head.
const LARGE: u64 = 1 << 18;

/// One kind of problem.
#[derive(Debug, Clone, Copy)]
struct Kind {
    element: Element,
    dim: u32,
    causal: bool,
    values: Values,
    output: Output,
    accumulation: Accumulation,
    exponentials: Exponentials,
}

/// Every head dimension, mask and order of V of e4m3; O in f16, e5m2, accurate sums and linear exponentials at some of them.
fn kinds() -> Vec<Kind> {
    let mut all = Vec::new();
    for dim in HEAD_DIMS {
        for (causal, values) in [false, true].into_iter().flat_map(|mask| Values::ALL.iter().map(move |v| (mask, *v))) {
            let plain = Kind {
                element: Element::E4m3,
                dim,
                causal,
                values,
                output: Output::Bf16,
                accumulation: Accumulation::Fast,
                exponentials: Exponentials::Exact,
            };
            all.push(plain);
            if causal == (values == Values::Rows) {
                all.push(Kind { output: Output::F16, ..plain });
                all.push(Kind { element: Element::E5m2, ..plain });
            }
            if dim <= 128 {
                all.push(Kind { accumulation: Accumulation::Accurate, ..plain });
            }
            if [64, 128].contains(&dim) && values == Values::Transposed {
                all.extend([Output::Bf16, Output::F16].map(|output| Kind {
                    output,
                    exponentials: Exponentials::Linear,
                    ..plain
                }));
            }
        }
    }
    all
}

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = kinds().into_iter().enumerate().map(|(at, kind)| by_kind(at, kind)).collect();
    let shipped = templates::all().into_iter().filter(|schedule| schedule.fp8.is_some());
    cases.extend(shipped.map(|schedule| by_schedule(Entry::new(schedule))));
    let derived = Registry::shipped().derived().iter().map(|entry| entry.schedule().clone());
    cases.extend(derived.chain([half_linear()]).map(|schedule| by_schedule(Entry::new(schedule))));
    cases
}

/// Half of P without the exponential unit: no shipped schedule has that.
fn half_linear() -> Schedule {
    let mut schedule = templates::named("fwd_linear_e4m3_d128").expect("it ships");
    schedule.name = "half_linear".into();
    schedule.rescale = Rescale::Always;
    schedule.fp8 = schedule.fp8.map(|fp8| schedule::Fp8 { exponential: Exponential::Linear(2), ..fp8 });
    schedule
}

/// Runs problems and tells all that are off at once.
fn check(gpu: &Gpu, seed: u64, problems: &[Problem], plan: impl Fn(&Problem) -> Plan) {
    let (mut off, mut worst) = (Vec::new(), Off::default());
    for (at, problem) in problems.iter().enumerate() {
        let plan = plan(problem);
        let coded = Coded::random(problem, seed + 3 * at as u64);
        let which = rows(problem, u64::from(plan.schedule().tile.rows));
        let found = match problem.output_element() {
            Element::F16 => call::check::<f16>(gpu, &plan, &coded, &which),
            _ => call::check::<bf16>(gpu, &plan, &coded, &which),
        };
        match found {
            Ok(found) => worst = worst.worse(found),
            Err(what) => off.push(format!("  {what}")),
        }
    }
    assert!(off.is_empty(), "{} of {} problems are off:\n{}", off.len(), problems.len(), off.join("\n"));
    print!("[{} problems, O {:.1e}, a row {:.1e}, LSE {:.1e}] ", problems.len(), worst.whole, worst.row, worst.lse);
}

/// A latin square of lengths, with groups and layouts of scales in turn.
fn problems(at: usize, kind: &Kind) -> Vec<Problem> {
    let Kind { element, dim, causal, values, output, accumulation, exponentials } = *kind;
    let scales = [
        [ScaleBy::KvHead, ScaleBy::KvHead, ScaleBy::KvHead],
        [ScaleBy::Block(64), ScaleBy::Head, ScaleBy::Head],
        [ScaleBy::Head, ScaleBy::Tensor, ScaleBy::One],
        [ScaleBy::One, ScaleBy::One, ScaleBy::Tensor],
    ];
    let of = |(i, queries): (usize, u64)| {
        let keys = LENGTHS[(i + at) % LENGTHS.len()];
        let group = GROUPS[(i + at) % GROUPS.len()];
        let few = if queries * keys < LARGE { 2 } else { 1 };
        let [q, k, v] = scales[(i + at) % scales.len()].map(Into::into);
        let fp8 = Fp8 { output, values, q, k, v, accumulation, exponentials };
        let builder = Problem::builder().element(element).head_dim(dim).causal(causal).batch(few).queries(queries);
        build(builder.keys(keys).heads(group * few).kv_heads(few).fp8(fp8))
    };
    LENGTHS.into_iter().enumerate().map(of).collect()
}

fn by_kind(at: usize, kind: Kind) -> Case {
    let Kind { element, dim, causal, values, output, accumulation, exponentials } = kind;
    let mask = if causal { "causal" } else { "full" };
    let how = match (accumulation, exponentials) {
        (Accumulation::Accurate, _) => "_accurate",
        (_, Exponentials::Linear) => "_linear",
        _ => "",
    };
    gpu(format!("grid::{element}_d{dim}_{mask}_{values}_to_{output}{how}"), move |gpu| {
        check(gpu, 100, &problems(at, &kind), |problem| {
            let plan = gpu.attention.plan(problem).expect("a schedule for every kind");
            let linear = plan.schedule().fp8.is_some_and(|fp8| !fp8.exponential.is_exact());
            assert_eq!(linear, exponentials == Exponentials::Linear, "{}", plan.schedule().name);
            plan
        });
    })
}

/// One tile and less, ragged both ways, many heads (more tiles than SMs), long.
const SHAPES: [[u64; 5]; 5] =
    [[1, 1, 1, 1, 1], [2, 129, 333, 8, 2], [1, 333, 129, 7, 1], [1, 64, 4097, 4, 1], [4, 700, 450, 12, 3]];

fn by_schedule(entry: Entry) -> Case {
    let name = entry.schedule().name.clone();
    gpu(format!("schedule::{name}"), move |gpu| {
        let schedule: &Schedule = entry.schedule();
        let problems = SHAPES.map(|[batch, queries, keys, heads, kv_heads]| {
            let builder = problem_of(schedule).batch(batch).queries(queries).keys(keys);
            build(builder.heads(heads).kv_heads(kv_heads))
        });
        check(gpu, 200, &problems, |problem| {
            Plan::with_schedule(&gpu.attention, problem, schedule).expect("the schedule runs")
        });
    })
}
