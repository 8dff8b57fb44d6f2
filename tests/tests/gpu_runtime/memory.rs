//! Device memory and tile counters that run out: typed errors, and everything works again once there is room.

use cudarc::driver::CudaSlice;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use half::bf16;
use tilewright::{Error, Problem, Tilewright};
use tilewright_tests::gpu::call::{Results, Uploaded, build, run, still_works};
use tilewright_tests::gpu::compare::same;
use tilewright_tests::gpu::data::Tensors;
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::suite::{Case, gpu};

pub fn cases() -> Vec<Case> {
    vec![gpu("counters_run_out_in_a_capture", counters), gpu("device_memory_runs_out", device_memory)]
}

/// Each recorded launch of a dynamic kernel takes a counter for good. When none is left the error says what to call before, and the
/// launches recorded so far replay.
fn counters(gpu: &Gpu) {
    const MANY: usize = 20_000;
    let problem = build(Problem::builder().queries(300).heads(1).head_dim(64).causal(true));
    let engine = gpu.fresh();
    let plan = engine.warm_up(&problem).expect("the kernel loads");
    let stream = gpu.new_stream();
    let host = Tensors::<bf16>::random(&problem, 7);
    let (inputs, results) = (Uploaded::new(&stream, &host), Results::<bf16>::new(&stream, &problem));
    let at = results.pointers(&stream, &inputs);
    gpu.wait(&stream);
    let record = |launches: usize| {
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).expect("capture begins");
        // SAFETY: the stream lives; the buffers are as large as the problem says and outlive the graph.
        let error = (0..launches).find_map(|_| unsafe { plan.run_raw(stream.cu_stream(), at) }.err());
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        (error, stream.end_capture(flags).expect("capture ends").expect("something was recorded"))
    };
    let (error, graph) = record(MANY);
    let error = error.expect("counters run out");
    assert!(matches!(error, Error::CountersExhausted { .. }), "{error}");
    assert!(error.to_string().contains("`reserve_counters`"), "{error}");
    let right = run(gpu, &plan, &host);
    graph.launch().expect("the graph runs");
    gpu.wait(&stream);
    same("a graph of all counters", &results.download(&stream, &problem), &right);

    engine.reserve_counters(100).expect("room for a hundred");
    results.o.poison(&stream);
    let (error, graph) = record(100);
    assert_eq!(error, None, "what was reserved is there");
    graph.launch().expect("the graph runs");
    gpu.wait(&stream);
    same("a graph of reserved counters", &results.download(&stream, &problem), &right);
}

/// With the device full, a new handle cannot have its counters, and says so.
fn device_memory(gpu: &Gpu) {
    let problem = build(Problem::builder().queries(300).heads(4).head_dim(128).causal(true));
    let plan = gpu.attention.warm_up(&problem).expect("the kernel loads");
    let host = Tensors::<bf16>::random(&problem, 8);
    let right = run(gpu, &plan, &host);
    let (inputs, mut results) = (Uploaded::new(&gpu.stream, &host), Results::<bf16>::new(&gpu.stream, &problem));
    gpu.wait(&gpu.stream);

    let mut held: Vec<CudaSlice<u8>> = Vec::new();
    for bytes in [8_usize << 30, 1 << 30, 64 << 20, 2 << 20, 256 << 10, 16 << 10] {
        // SAFETY: the memory is never read.
        while let Ok(slice) = unsafe { gpu.stream.alloc::<u8>(bytes) } {
            held.push(slice);
        }
    }
    // Small memory of the driver's own may still hold the counters of a few handles.
    let handles: Vec<_> = (0..256).map(|_| Tilewright::new(&gpu.context)).collect();
    let refused = handles.into_iter().find_map(Result::err);
    // What was there before still runs: a launch takes no memory.
    let ran = results.run(&gpu.stream, &plan, inputs.inputs());
    gpu.wait(&gpu.stream);
    held.clear();
    gpu.wait(&gpu.stream);
    let error = refused.expect("no memory for the counters of another handle");
    assert!(matches!(error, Error::OutOfMemory { .. }) && error.to_string().contains("memory"), "{error:?}");
    ran.expect("a launch takes no memory");
    same("with the device full", &results.download(&gpu.stream, &problem), &right);
    still_works(gpu);
    gpu.fresh();
}
