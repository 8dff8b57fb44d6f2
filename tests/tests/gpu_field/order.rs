//! Repeats, streams, devices, threads and graphs: FC-33, FC-34, FC-35, FC-40.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaGraph, CudaStream, result};
use half::{bf16, f16};
use tilewright::{Element, Error, Inputs, Outputs, Plan, Problem, ProblemBuilder};
use tilewright_tests::gpu::call::{Results, Uploaded, build, plan, run, solve, still_works, try_run_on};
use tilewright_tests::gpu::compare::{Row, every, same};
use tilewright_tests::gpu::data::Tensors;
use tilewright_tests::gpu::device::{Gpu, current_context, pause, set};
use tilewright_tests::gpu::suite::{Case, NotRun, Verdict, gpu, gpu_if};

pub fn cases() -> Vec<Case> {
    vec![
        gpu("fc33_forward_full", |gpu| fc33(gpu, false)),
        gpu("fc33_forward_causal", |gpu| fc33(gpu, true)),
        gpu("fc34_ordered_on_the_stream", fc34_ordered),
        gpu("fc34_nothing_on_the_default_stream", fc34_default),
        gpu_if("fc35_a", fc35_a),
        gpu("fc35_b", fc35_b),
        gpu_if("fc35_c", fc35_c),
        gpu("fc40_replay_full", |gpu| fc40_replay(gpu, decode())),
        gpu("fc40_replay_causal", |gpu| fc40_replay(gpu, decode().queries(300).keys(1000).causal(true))),
        gpu("fc40_cold", fc40_cold),
    ]
}

/// Thirty runs, half of them beside other work, give the same bits.
fn fc33(gpu: &Gpu, causal: bool) {
    let problem = Problem::builder().batch(2).queries(1024).heads(8).kv_heads(2).head_dim(128).causal(causal);
    let problem = build(problem);
    let (plan, host) = (plan(gpu, &problem), Tensors::<bf16>::random(&problem, 33));
    let right = run(gpu, &plan, &host);
    let (other, busy) = (gpu.new_stream(), build(Problem::builder().queries(16_384).heads(8).head_dim(128)));
    let busy_plan = gpu.attention.plan(&busy).expect("a schedule for the other work");
    let inputs = Uploaded::new(&other, &Tensors::<bf16>::of(&busy, |_| 1.0, |_| 1.0, |_| 1.0));
    let mut results = Results::new(&other, &busy);
    for round in 0..30 {
        for _ in 0..5 * (round % 2) {
            results.run(&other, &busy_plan, inputs.inputs()).expect("the other work runs");
        }
        same(&format!("run {round}"), &run(gpu, &plan, &host), &right);
        gpu.wait(&other);
    }
}

/// Inputs that arrive late, attention, and a copy of O, with no wait of the host between.
fn fc34_ordered(gpu: &Gpu) {
    let problem = build(Problem::builder().queries(300).heads(4).kv_heads(2).head_dim(128).causal(true));
    let (plan, host) = (plan(gpu, &problem), Tensors::<bf16>::random(&problem, 34));
    let right = run(gpu, &plan, &host);
    let side = gpu.new_stream();
    let source = Uploaded::new(&side, &host);
    let mut inputs = Uploaded::new(&side, &host);
    for round in 0..100 {
        let (mut results, mut copy) = (Results::new(&side, &problem), Results::new(&side, &problem));
        for tensor in [&inputs.q, &inputs.k, &inputs.v] {
            set(&side, tensor, 0..tensor.len(), 0xFF);
        }
        pause(&side, if round < 2 { 50 } else { 2 });
        let late = [(&source.q, &mut inputs.q), (&source.k, &mut inputs.k), (&source.v, &mut inputs.v)];
        for (from, to) in late {
            side.memcpy_dtod(from, to).expect("an input arrives");
        }
        results.run(&side, &plan, inputs.inputs()).expect("attention is enqueued");
        side.memcpy_dtod(&results.o.view(), &mut copy.o.view_mut()).expect("O is copied");
        side.memcpy_dtod(&results.lse.view(), &mut copy.lse.view_mut()).expect("LSE is copied");
        gpu.wait(&side);
        same(&format!("run {round}"), &copy.download(&side, &problem), &right);
    }
}

/// While the legacy default stream is held, work on a side stream ends.
fn fc34_default(gpu: &Gpu) {
    static RELEASED: AtomicBool = AtomicBool::new(false);
    static HELD_TO_THE_END: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn hold(_: *mut c_void) {
        let start = Instant::now();
        while !RELEASED.load(Ordering::Acquire) {
            if start.elapsed() > Duration::from_secs(5) {
                HELD_TO_THE_END.store(true, Ordering::Release);
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let problem = build(Problem::builder().queries(300).heads(4).kv_heads(2).head_dim(128).causal(true));
    let (plan, host) = (plan(gpu, &problem), Tensors::<bf16>::random(&problem, 34));
    let right = run(gpu, &plan, &host);
    let side = gpu.new_stream();
    let (inputs, mut results) = (Uploaded::new(&side, &host), Results::new(&side, &problem));
    gpu.wait(&side);
    // SAFETY: the null stream is always there; the function ignores its argument and calls nothing of the driver.
    unsafe { result::stream::launch_host_function(std::ptr::null_mut(), hold, std::ptr::null_mut()) }
        .expect("the default stream is held");
    results.run(&side, &plan, inputs.inputs()).expect("attention is enqueued");
    gpu.wait(&side);
    RELEASED.store(true, Ordering::Release);
    gpu.context.synchronize().expect("the default stream ends");
    assert!(!HELD_TO_THE_END.load(Ordering::Acquire), "the work waited for the legacy default stream");
    same("beside a held default stream", &results.download(&side, &problem), &right);
}

/// Everything 1 in f16, `[4, 16, 32, 64]`.
fn ones() -> (Problem, Tensors<f16>) {
    let problem = build(Problem::builder().element(Element::F16).batch(4).queries(16).heads(32).head_dim(64));
    let host = Tensors::of(&problem, |_| 1.0, |_| 1.0, |_| 1.0);
    (problem, host)
}

/// The second GPU, if there is one.
fn second() -> Result<Gpu, NotRun> {
    let count = CudaContext::device_count().expect("the driver counts");
    if count < 2 {
        return Err(NotRun("one GPU only".into()));
    }
    Gpu::open(1).map_err(NotRun)
}

/// First on GPU 0, then on GPU 1 while GPU 0 is current.
fn fc35_a(gpu: &Gpu) -> Verdict {
    let other = second()?;
    let (problem, host) = ones();
    let lse = 8.0 + 16_f64.ln();
    every(&solve(gpu, &problem, &host), |_| Row { o: 1.0, lse });
    let plan = other.attention.plan(&problem).expect("a schedule on GPU 1");
    assert_eq!(plan.engine().device().ordinal(), 1);
    let (inputs, mut results) = (Uploaded::new(&other.stream, &host), Results::new(&other.stream, &problem));
    other.wait(&other.stream);
    gpu.context.bind_to_thread().expect("GPU 0 is current");
    let before = current_context();
    results.run(&other.stream, &plan, inputs.inputs()).expect("GPU 1 runs while GPU 0 is current");
    assert_eq!(current_context(), before, "the caller's context is as it was");
    other.wait(&other.stream);
    every(&results.download(&other.stream, &problem), |_| Row { o: 1.0, lse });
    Ok(())
}

/// A thread that made no CUDA call yet, for the first load of a handle and for its run.
fn fc35_b(gpu: &Gpu) {
    let (problem, host) = ones();
    let engine = gpu.fresh();
    let (inputs, mut results) = (Uploaded::new(&gpu.stream, &host), Results::new(&gpu.stream, &problem));
    gpu.wait(&gpu.stream);
    std::thread::scope(|scope| {
        let (engine, inputs, results, stream) = (&engine, &inputs, &mut results, &gpu.stream);
        let thread = scope.spawn(move || {
            assert!(current_context().is_null(), "a new thread has no context");
            let plan = engine.plan(&problem).expect("a schedule");
            results.run(stream, &plan, inputs.inputs()).expect("a fresh thread runs");
            assert!(current_context().is_null(), "the thread has no context afterwards either");
        });
        thread.join().expect("the thread ends");
    });
    gpu.wait(&gpu.stream);
    let answer = results.download(&gpu.stream, &problem);
    every(&answer, |_| Row { o: 1.0, lse: 8.0 + 16_f64.ln() });
    assert_eq!(answer.o.iter().map(|x| x.to_f64()).sum::<f64>(), 131_072.0);
}

/// A tensor of the other GPU is refused by name.
fn fc35_c(gpu: &Gpu) -> Verdict {
    let other = second()?;
    let (problem, host) = ones();
    let (here, there) = (Uploaded::new(&gpu.stream, &host), Uploaded::new(&other.stream, &host));
    let mut results = Results::<f16>::new(&gpu.stream, &problem);
    let (mut o, mut lse) = (results.o.view_mut(), results.lse.view_mut());
    let inputs = Inputs { q: &here.q, k: &there.k, v: &here.v };
    let refused = plan(gpu, &problem).run(&gpu.stream, inputs, Outputs { o: &mut o, lse: &mut lse });
    let error = refused.expect_err("K is on the other GPU");
    assert!(matches!(error, Error::WrongDevice { .. }) && error.to_string().contains("tensor k"), "{error}");
    still_works(gpu);
    Ok(())
}

/// A decode step: one query against a cache.
fn decode() -> ProblemBuilder {
    Problem::builder().batch(4).queries(1).keys(4096).heads(8).kv_heads(2).head_dim(128)
}

/// Records what `work` enqueues. Strictly: whatever could not be recorded fails.
fn capture(stream: &std::sync::Arc<CudaStream>, work: impl FnOnce()) -> Option<CudaGraph> {
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).expect("capture begins");
    work();
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    stream.end_capture(flags).expect("capture ends")
}

/// Two launches in one graph, replayed with new data in the same buffers.
fn fc40_replay(gpu: &Gpu, builder: ProblemBuilder) {
    let problem = build(builder);
    let plan = gpu.attention.warm_up(&problem).expect("the kernel loads");
    let stream = gpu.new_stream();
    let mut inputs = Uploaded::new(&stream, &Tensors::<bf16>::random(&problem, 400));
    let results = [Results::<bf16>::new(&stream, &problem), Results::new(&stream, &problem)];
    let pointers = results.each_ref().map(|results| results.pointers(&stream, &inputs));
    gpu.wait(&stream);
    let graph = capture(&stream, || {
        for at in pointers {
            // SAFETY: the stream lives; the buffers are as large as the problem says and outlive the graph.
            unsafe { plan.run_raw(stream.cu_stream(), at) }.expect("a launch is recorded");
        }
    });
    let graph = graph.expect("something was recorded");
    for seed in [401, 402, 403] {
        let host = Tensors::random(&problem, seed);
        inputs.replace(&stream, &host);
        for results in &results {
            results.o.poison(&stream);
            results.lse.poison(&stream);
        }
        graph.launch().expect("the graph runs");
        gpu.wait(&stream);
        let right = run(gpu, &plan, &host);
        for results in &results {
            same(&format!("replay with data {seed}"), &results.download(&stream, &problem), &right);
        }
    }
}

/// A first call inside a capture says what to call before, and the capture ends in peace.
fn fc40_cold(gpu: &Gpu) {
    let problem = build(decode().queries(5).causal(true));
    let (engine, stream) = (gpu.fresh(), gpu.new_stream());
    let plan: Plan = engine.plan(&problem).expect("a schedule");
    let host = Tensors::<bf16>::random(&problem, 40);
    let (inputs, results) = (Uploaded::new(&stream, &host), Results::<bf16>::new(&stream, &problem));
    let at = results.pointers(&stream, &inputs);
    gpu.wait(&stream);
    let mut told = None;
    let graph = capture(&stream, || {
        // SAFETY: the stream lives; the buffers are as large as the problem says and outlive the graph.
        told = unsafe { plan.run_raw(stream.cu_stream(), at) }.err();
    });
    match told {
        Some(error) => {
            assert!(matches!(error, Error::CaptureCold { .. }) && error.to_string().contains("`warm_up`"), "{error}");
            plan.warm_up().expect("the kernel loads after the capture");
        }
        None => {
            graph.expect("something was recorded").launch().expect("the graph runs");
            gpu.wait(&stream);
            same("a cold capture", &results.download(&stream, &problem), &solve(gpu, &problem, &host));
        }
    }
    let answer = try_run_on(gpu, &stream, &plan, &host).expect("the plan runs");
    same("after a cold capture", &answer, &solve(gpu, &problem, &host));
}
