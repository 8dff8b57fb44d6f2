//! Loading, the kernel cache and shared memory: FC-36, FC-37, FC-38, FC-39.

use half::{bf16, f16};
use runtime::Kernel;
use schedule::HOPPER;
use tilewright::{Element, Error, Half, LoadReport, Plan, Problem, ProblemBuilder, Registry, Tilewright};
use tilewright_tests::gpu::call::{Answer, Results, Uploaded, build, plan, run, still_works};
use tilewright_tests::gpu::compare::{against_references, same};
use tilewright_tests::gpu::data::Tensors;
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::suite::{Case, NotRun, Verdict, cpu, gpu, gpu_if};

pub fn cases() -> Vec<Case> {
    vec![
        gpu_if("fc36_d", fc36_d),
        gpu("fc37_a", fc37_a),
        gpu("fc38_alternate", fc38),
        cpu("fc39_a", || {
            for entry in Registry::shipped().entries() {
                let kernel = kernels::lower(entry.schedule()).expect("every shipped schedule lowers").kernel;
                let bytes = u64::from(kernel.shared_bytes());
                assert!(bytes <= HOPPER.shared_bytes, "{}: {bytes} bytes of shared memory", kernel.name);
            }
        }),
        gpu("fc39_b", fc39_b),
        gpu("fc39_c", fc39_c),
    ]
}

/// Text that the driver's compiler cannot read comes back as its log, with the line.
fn fc36_d(gpu: &Gpu) -> Verdict {
    let schedule = templates::all().swap_remove(0);
    let mut module = kernels::lower(&schedule).expect("a shipped schedule lowers");
    // A constant of the language, which no entry may be called.
    module.kernel.name = "WARP_SZ".into();
    let Ok(verified) = check::verify(module) else {
        return Err(NotRun("the verifier lets nothing pass that the compiler would refuse here".into()));
    };
    let error = Kernel::load(gpu.attention.device(), &verified).expect_err("a module that does not compile");
    assert!(matches!(error, Error::Jit { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains("WARP_SZ") && told.contains("line"), "the compiler's log is told: {told}");
    still_works(gpu);
    Ok(())
}

/// The loads of a handle by kernel.
fn loads(engine: &Tilewright) -> Vec<LoadReport> {
    let mut loads = engine.loads();
    loads.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    loads
}

/// A thousand calls of one configuration load once; so does a second plan.
fn fc37_a(gpu: &Gpu) {
    let engine = gpu.fresh();
    let problem = build(Problem::builder().queries(64).heads(2).head_dim(64).causal(true));
    let host = Tensors::<bf16>::random(&problem, 37);
    let (inputs, mut results) = (Uploaded::new(&gpu.stream, &host), Results::<bf16>::new(&gpu.stream, &problem));
    let plan = engine.plan(&problem).expect("a schedule");
    assert!(engine.loads().is_empty(), "planning loads nothing");
    results.run(&gpu.stream, &plan, inputs.inputs()).expect("the first call");
    let first = loads(&engine);
    assert_eq!(first.len(), 1, "the first call loads one kernel");
    for round in 0..1000 {
        let again = if round % 100 == 0 { Some(engine.plan(&problem).expect("a schedule")) } else { None };
        results.run(&gpu.stream, again.as_ref().unwrap_or(&plan), inputs.inputs()).expect("a later call");
    }
    gpu.wait(&gpu.stream);
    results.download(&gpu.stream, &problem);
    // Reports hold the time of the load to the nanosecond: another load would be another report.
    assert_eq!(loads(&engine), first, "no later call loads");
    println!("[{}] ", first[0]);
}

/// The answer of an engine.
fn by<T: Half>(gpu: &Gpu, engine: &Tilewright, problem: &Problem) -> Answer<T> {
    let plan = engine.plan(problem).expect("a schedule");
    run(gpu, &plan, &Tensors::<T>::random(problem, 38))
}

/// Alternates two problems on one handle; each gives the bits of a handle of its own.
fn alternate<A: Half, B: Half>(gpu: &Gpu, what: &str, a: ProblemBuilder, b: ProblemBuilder) {
    let (a, b) = (build(a), build(b));
    let (right_a, right_b) = (by::<A>(gpu, &gpu.fresh(), &a), by::<B>(gpu, &gpu.fresh(), &b));
    let engine = gpu.fresh();
    for _ in 0..2 {
        same(what, &by::<A>(gpu, &engine, &a), &right_a);
        same(what, &by::<B>(gpu, &engine, &b), &right_b);
    }
}

/// Two configurations that differ in one thing are never mixed up.
fn fc38(gpu: &Gpu) {
    let base = || Problem::builder().queries(300).keys(500).heads(8).kv_heads(2).head_dim(128);
    alternate::<bf16, bf16>(gpu, "scale", base().scale(0.05), base().scale(0.2));
    alternate::<bf16, bf16>(gpu, "causal", base(), base().causal(true));
    alternate::<bf16, f16>(gpu, "element", base(), base().element(Element::F16));
    alternate::<bf16, bf16>(gpu, "group", base(), base().kv_heads(8));
    alternate::<bf16, bf16>(gpu, "head dimension", base(), base().head_dim(64));
    alternate::<bf16, bf16>(gpu, "value head dimension", base().head_dim(192), base().head_dims(192, 128));
}

/// Two threads launch kernels with little and with much shared memory, ten thousand times each.
fn fc39_b(gpu: &Gpu) {
    let of = |dim| build(Problem::builder().queries(1).keys(8).heads(1).head_dim(dim));
    let (engine, problems) = (gpu.fresh(), [of(64), of(256)]);
    let calls = problems.map(|problem| {
        let (plan, stream) = (engine.warm_up(&problem).expect("the kernel loads"), gpu.new_stream());
        let host = Tensors::<bf16>::random(&problem, 39);
        let (inputs, results) = (Uploaded::new(&stream, &host), Results::<bf16>::new(&stream, &problem));
        let at = results.pointers(&stream, &inputs);
        gpu.wait(&stream);
        (plan, stream, host, (inputs, results), at)
    });
    std::thread::scope(|scope| {
        for (plan, stream, _, _, at) in &calls {
            scope.spawn(move || {
                for launch in 0..10_000 {
                    // SAFETY: the stream lives; the buffers are as large as the problem says and live until both threads are done.
                    let launched = unsafe { plan.run_raw(stream.cu_stream(), *at) };
                    launched.unwrap_or_else(|error| panic!("launch {launch}: {error}"));
                }
            });
        }
    });
    for (plan, stream, host, (_, results), _) in &calls {
        gpu.wait(stream);
        same("after 10000 launches", &results.download(stream, plan.problem()), &run(gpu, plan, host));
    }
}

/// The largest head dimension runs under both masks.
fn fc39_c(gpu: &Gpu) {
    for causal in [false, true] {
        let problem = Problem::builder().batch(2).queries(333).keys(500).heads(8).kv_heads(2).head_dim(256);
        let problem = build(problem.causal(causal));
        let (plan, host): (Plan, _) = (plan(gpu, &problem), Tensors::<bf16>::random(&problem, 39));
        let rows: Vec<u64> = (0..333).step_by(3).collect();
        if let Err(what) = against_references(&run(gpu, &plan, &host), &host, &rows) {
            panic!("{problem}: {what}");
        }
    }
}
