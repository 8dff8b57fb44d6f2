//! A few small shapes for compute-sanitizer, which slows a GPU down by orders of magnitude:
//!
//! `for tool in memcheck synccheck initcheck; do compute-sanitizer --tool $tool --error-exitcode 1 gpu_sanitizer; done`
//!
//! Every shipped schedule on ragged tiles, and the cases around empty rows. Small numbers are held against the f64 reference too.

use std::process::ExitCode;
use std::time::Duration;

use half::{bf16, f16};
use schedule::{Element, Output, Schedule, Variant};
use tilewright::{Fp8Options, Half, Outputs, Plan, Problem, ScalesOf};
use tilewright_tests::gpu::call::{Results, Uploaded, build, run, still_works};
use tilewright_tests::gpu::compare::{EMPTY, against_references, every};
use tilewright_tests::gpu::data::Tensors;
use tilewright_tests::gpu::device::{Gpu, allow};
use tilewright_tests::gpu::eight::{Coded, call, problem_of};
use tilewright_tests::gpu::suite::{self, Case, gpu};

/// Two tiles and a bit of queries against three key blocks and a bit, and the other way round; two heads of a group.
fn ragged<T: Half>(gpu: &Gpu, schedule: &Schedule) {
    let dims = schedule.head_dim;
    for (queries, keys) in [(257, 389), (65, 1), (130, 65)] {
        let problem = Problem::builder().element(T::ELEMENT).head_dims(dims.qk, dims.v).heads(2).kv_heads(1);
        let problem = problem.queries(queries).keys(keys).causal(schedule.variant == Variant::Causal);
        let problem = build(problem);
        let plan = Plan::with_schedule(&gpu.attention, &problem, schedule).expect("a shipped schedule runs");
        let host = Tensors::<T>::random(&problem, 99);
        let rows: Vec<u64> = (0..queries).step_by(16).chain([queries - 1]).collect();
        if let Err(what) = against_references(&run(gpu, &plan, &host), &host, &rows) {
            panic!("{problem}: {what}");
        }
    }
}

/// The same in 8 bits.
fn ragged_in_8_bits<O: Half>(gpu: &Gpu, schedule: &Schedule) {
    for (queries, keys) in [(257, 389), (65, 1), (130, 65)] {
        let problem = build(problem_of(schedule).heads(2).kv_heads(1).queries(queries).keys(keys));
        let plan = Plan::with_schedule(&gpu.attention, &problem, schedule).expect("a shipped schedule runs");
        let rows: Vec<u64> = (0..queries).step_by(16).chain([queries - 1]).collect();
        if let Err(what) = call::check::<O>(gpu, &plan, &Coded::random(&problem, 99), &rows) {
            panic!("{what}");
        }
    }
}

/// 16-bit tensors through the quantizer, and Q alone over a cache.
fn joined(gpu: &Gpu) {
    let problem = build(Problem::builder().queries(130).keys(200).heads(2).kv_heads(1).head_dim(128).causal(true));
    for scales in [ScalesOf::Block, ScalesOf::Head, ScalesOf::Tensor] {
        let plan = gpu.attention.plan_fp8(&problem, &Fp8Options { scales, ..Fp8Options::default() }).expect("a plan");
        let inputs = Uploaded::new(&gpu.stream, &Tensors::<bf16>::random(&problem, 98));
        let mut results = Results::<bf16>::new(&gpu.stream, &problem);
        let (mut o, mut lse) = (results.o.view_mut(), results.lse.view_mut());
        let mut workspace = plan.allocate(&gpu.stream).expect("a workspace");
        let outputs = Outputs { o: &mut o, lse: &mut lse };
        plan.run(&gpu.stream, inputs.inputs(), outputs, &mut workspace).expect("runs");
        gpu.wait(&gpu.stream);
        assert!(results.download(&gpu.stream, &problem).o.iter().all(|o| o.is_finite()));
    }
}

fn by_schedule(schedule: Schedule) -> Case {
    gpu(format!("ragged::{}", schedule.name), move |gpu| match (schedule.element, schedule.fp8) {
        (_, Some(fp8)) if fp8.output == Output::F16 => ragged_in_8_bits::<f16>(gpu, &schedule),
        (_, Some(_)) => ragged_in_8_bits::<bf16>(gpu, &schedule),
        (Element::F16, None) => ragged::<f16>(gpu, &schedule),
        (_, None) => ragged::<bf16>(gpu, &schedule),
    })
}

/// Rows and problems that see nothing.
fn empty(gpu: &Gpu) {
    for (queries, keys) in [(3, 0), (0, 5)] {
        let problem = build(Problem::builder().batch(2).queries(queries).keys(keys).heads(2).head_dim(64));
        let plan = gpu.attention.plan(&problem).expect("a schedule");
        every(&run(gpu, &plan, &Tensors::<bf16>::count(&problem, |_| 1.0)), |_| EMPTY);
    }
    still_works(gpu);
}

fn main() -> ExitCode {
    allow(Duration::from_secs(300));
    let mut cases = vec![gpu("empty_problems", empty), gpu("joined_in_8_bits", joined)];
    cases.extend(templates::all().into_iter().map(by_schedule));
    suite::main(cases)
}
