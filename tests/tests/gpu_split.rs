//! Query tiles that several blocks share: right over shapes, the same bits every time, and apart from other launches, on streams and in
//! graphs.

use std::process::ExitCode;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use half::{bf16, f16};
use schedule::{Element, Schedule, Variant};
use tilewright::{Half, Plan, Problem, ProblemBuilder, Registry};
use tilewright_tests::gpu::call::{Results, Uploaded, build, run};
use tilewright_tests::gpu::compare::{against_references, rows, same};
use tilewright_tests::gpu::data::Tensors;
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::suite::{self, Case, gpu};

/// Queries, keys, query heads, key heads: one row and a ragged last tile, over few keys and many.
const SHAPES: [(u64, u64, u64, u64); 8] = [
    (1, 1, 2, 1),
    (1, 8192, 8, 2),
    (5, 4097, 4, 1),
    (65, 1000, 2, 2),
    (128, 16_384, 4, 4),
    (333, 129, 4, 2),
    (512, 8192, 8, 8),
    (700, 3000, 2, 1),
];

/// A schedule that splits over the shapes.
fn shapes<T: Half>(gpu: &Gpu, schedule: &Schedule) {
    let dims = schedule.head_dim;
    let (mut off, mut split) = (Vec::new(), 0);
    for (at, (queries, keys, heads, kv_heads)) in SHAPES.into_iter().enumerate() {
        let problem = Problem::builder().element(T::ELEMENT).head_dims(dims.qk, dims.v).heads(heads).kv_heads(kv_heads);
        let problem = build(problem.queries(queries).keys(keys).causal(schedule.variant == Variant::Causal));
        let plan = Plan::with_schedule(&gpu.attention, &problem, schedule).expect("it computes this");
        split += usize::from(plan.workspace_bytes() > 0);
        let host = Tensors::<T>::random(&problem, 2000 + 3 * at as u64);
        let answer = run(gpu, &plan, &host);
        if let Err(what) = against_references(&answer, &host, &rows(&problem, u64::from(schedule.tile.rows))) {
            off.push(format!("  {problem} in {} shares: {what}", plan.scalars().shares));
        }
        same(&format!("{problem} again"), &run(gpu, &plan, &host), &answer);
    }
    assert!(off.is_empty(), "{} of {} shapes are off:\n{}", off.len(), SHAPES.len(), off.join("\n"));
    assert!(split >= 4, "only {split} of {} shapes were split", SHAPES.len());
}

fn by_schedule(schedule: Schedule) -> Case {
    gpu(format!("shapes::{}", schedule.name), move |gpu| match schedule.element {
        Element::F16 => shapes::<f16>(gpu, &schedule),
        _ => shapes::<bf16>(gpu, &schedule),
    })
}

/// A problem of few tiles over many keys, and its plan, which splits.
fn plan(gpu: &Gpu, builder: ProblemBuilder) -> Plan {
    let plan = gpu.attention.plan(&build(builder)).expect("a schedule");
    assert!(plan.workspace_bytes() > 0, "{} by {}", plan.problem(), plan.schedule().name);
    plan
}

fn long() -> ProblemBuilder {
    Problem::builder().queries(512).keys(8192).heads(8).head_dim(128)
}

fn short() -> ProblemBuilder {
    Problem::builder().queries(100).keys(4000).heads(4).kv_heads(2).head_dim(128).causal(true)
}

/// A hundred launches one after the other, two plans in turn: counters are back at zero after each.
fn repeated(gpu: &Gpu) {
    let plans = [plan(gpu, long()), plan(gpu, short())];
    let hosts = plans.each_ref().map(|plan| Tensors::<bf16>::random(plan.problem(), 70));
    let right = [0, 1].map(|at| run(gpu, &plans[at], &hosts[at]));
    let inputs = hosts.each_ref().map(|host| Uploaded::new(&gpu.stream, host));
    for round in 0..100 {
        let at = round % 2;
        let mut results = Results::new(&gpu.stream, plans[at].problem());
        results.run(&gpu.stream, &plans[at], inputs[at].inputs()).expect("a launch");
        gpu.wait(&gpu.stream);
        same(&format!("round {round}"), &results.download(&gpu.stream, plans[at].problem()), &right[at]);
    }
}

/// Launches of one plan in flight on eight streams.
fn streams(gpu: &Gpu) {
    let plan = plan(gpu, long());
    let calls: Vec<_> = (0..8)
        .map(|at| {
            let (stream, host) = (gpu.new_stream(), Tensors::<bf16>::random(plan.problem(), 160 + 3 * at));
            let right = run(gpu, &plan, &host);
            let (inputs, results) = (Uploaded::new(&stream, &host), Results::<bf16>::new(&stream, plan.problem()));
            gpu.wait(&stream);
            (stream, right, inputs, results)
        })
        .collect();
    for round in 0..10 {
        for (stream, _, inputs, results) in &calls {
            results.o.poison(stream);
            results.lse.poison(stream);
            let at = results.pointers(stream, inputs);
            for _ in 0..3 {
                // SAFETY: the stream lives; the buffers are as large as the problem says and live to the end of the trial.
                unsafe { plan.run_raw(stream.cu_stream(), at) }.expect("a launch among many");
            }
        }
        for (at, (stream, right, _, results)) in calls.iter().enumerate() {
            gpu.wait(stream);
            same(&format!("stream {at} round {round}"), &results.download(stream, plan.problem()), right);
        }
    }
}

/// Two launches in a graph that is replayed while the same plan runs on another stream; and a prepared plan.
fn graph(gpu: &Gpu) {
    let plan = plan(gpu, long());
    plan.warm_up().expect("the kernel loads");
    let (stream, side) = (gpu.new_stream(), gpu.new_stream());
    let host = Tensors::<bf16>::random(plan.problem(), 400);
    let right = run(gpu, &plan, &host);
    let inputs = Uploaded::new(&stream, &host);
    let results = [(); 4].map(|()| Results::<bf16>::new(&stream, plan.problem()));
    let at = results.each_ref().map(|results| results.pointers(&stream, &inputs));
    gpu.wait(&stream);
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).expect("capture begins");
    for at in [at[0], at[1]] {
        // SAFETY: the stream lives; the buffers are as large as the problem says and outlive the graph.
        unsafe { plan.run_raw(stream.cu_stream(), at) }.expect("a launch is recorded");
    }
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).expect("capture ends").expect("something was recorded");
    // SAFETY: the addresses are those of buffers that outlive the prepared plan.
    let prepared = unsafe { plan.prepare_raw(at[3]) }.expect("it is prepared");
    for round in 0..20 {
        for results in &results {
            results.o.poison(&stream);
            results.lse.poison(&stream);
        }
        gpu.wait(&stream);
        graph.launch().expect("the graph runs");
        // SAFETY: as above; the side stream's outputs are its own.
        unsafe { plan.run_raw(side.cu_stream(), at[2]) }.expect("a launch beside the graph");
        // SAFETY: as above; launches of the prepared plan are all on this stream.
        unsafe { prepared.launch(side.cu_stream()) }.expect("the prepared plan runs");
        gpu.wait(&stream);
        gpu.wait(&side);
        for (which, results) in results.iter().enumerate() {
            same(&format!("round {round} of call {which}"), &results.download(&stream, plan.problem()), &right);
        }
    }
}

fn main() -> ExitCode {
    let mut cases = vec![gpu("repeated", repeated), gpu("streams", streams), gpu("graph", graph)];
    let entries = Registry::shipped().entries().iter().map(|entry| entry.schedule().clone());
    cases.extend(entries.filter(Schedule::splits).map(by_schedule));
    suite::main(cases)
}
