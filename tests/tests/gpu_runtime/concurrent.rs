//! Threads and streams at once, with kernels that take their tiles from a counter: every launch must have one of its own.

use half::bf16;
use schedule::Scheduler;
use tilewright::{Plan, Problem};
use tilewright_tests::gpu::call::{Results, Uploaded, build, run};
use tilewright_tests::gpu::compare::same;
use tilewright_tests::gpu::data::Tensors;
use tilewright_tests::gpu::device::{Gpu, pause};
use tilewright_tests::gpu::suite::{Case, gpu};

pub fn cases() -> Vec<Case> {
    vec![
        gpu("eight_threads_each_with_a_stream", eight_threads),
        gpu("sixteen_streams_of_one_thread", sixteen_streams),
        gpu("threads_that_load_together_load_once", load_once),
        gpu("handles_dropped_while_their_work_waits", handles_dropped),
        gpu("inputs_dropped_while_another_stream_reads", inputs_dropped),
    ]
}

/// A causal problem whose schedule is dynamic, and its plan. More tiles than SMs.
fn dynamic(gpu: &Gpu, keys: u64) -> Plan {
    let problem = Problem::builder().batch(2).queries(1500).keys(keys).heads(12).kv_heads(3).head_dim(128).causal(true);
    let schedule = templates::named("fwd_bf16_d128_causal").expect("a shipped schedule");
    assert_eq!(schedule.grid.scheduler, Scheduler::Dynamic);
    Plan::with_schedule(&gpu.attention, &build(problem), &schedule).expect("a shipped schedule runs")
}

/// One plan is shared by eight threads, and each thread has another of its own.
fn eight_threads(gpu: &Gpu) {
    let shared = dynamic(gpu, 1500);
    let threads: Vec<_> = (0..8_u64)
        .map(|at| {
            let own = dynamic(gpu, 700 + 100 * at);
            let hosts = [&shared, &own].map(|plan| Tensors::<bf16>::random(plan.problem(), 80 + 10 * at));
            let right = [run(gpu, &shared, &hosts[0]), run(gpu, &own, &hosts[1])];
            (own, hosts, right)
        })
        .collect();
    std::thread::scope(|scope| {
        for (at, (own, hosts, right)) in threads.iter().enumerate() {
            let shared = &shared;
            scope.spawn(move || {
                let stream = gpu.new_stream();
                let inputs = hosts.each_ref().map(|host| Uploaded::new(&stream, host));
                for round in 0..10 {
                    let mut results = [shared, own].map(|plan| Results::<bf16>::new(&stream, plan.problem()));
                    for ((results, plan), inputs) in results.iter_mut().zip([shared, own]).zip(&inputs) {
                        results.run(&stream, plan, inputs.inputs()).expect("a thread's call");
                    }
                    gpu.wait(&stream);
                    for ((results, plan), right) in results.iter().zip([shared, own]).zip(right) {
                        let what = format!("thread {at} round {round}");
                        same(&what, &results.download(&stream, plan.problem()), right);
                    }
                }
            });
        }
    });
}

/// Sixteen launches of one plan in flight.
fn sixteen_streams(gpu: &Gpu) {
    let plan = dynamic(gpu, 1500);
    let problem = *plan.problem();
    let calls: Vec<_> = (0..16)
        .map(|at| {
            let (stream, host) = (gpu.new_stream(), Tensors::<bf16>::random(&problem, 160 + 3 * at));
            let right = run(gpu, &plan, &host);
            let (inputs, results) = (Uploaded::new(&stream, &host), Results::<bf16>::new(&stream, &problem));
            let at = results.pointers(&stream, &inputs);
            gpu.wait(&stream);
            (stream, right, (inputs, results), at)
        })
        .collect();
    for round in 0..5 {
        for (stream, _, (_, results), _) in &calls {
            results.o.poison(stream);
            results.lse.poison(stream);
        }
        for (stream, .., at) in &calls {
            // SAFETY: the stream lives; the buffers are as large as the problem says and live to the end of the trial.
            unsafe { plan.run_raw(stream.cu_stream(), *at) }.expect("a launch among many");
        }
        for (at, (stream, right, (_, results), _)) in calls.iter().enumerate() {
            gpu.wait(stream);
            same(&format!("stream {at} round {round}"), &results.download(stream, &problem), right);
        }
    }
}

/// Eight threads that ask a fresh handle for one kernel get one load.
fn load_once(gpu: &Gpu) {
    let engine = gpu.fresh();
    let problem = build(Problem::builder().queries(300).heads(4).head_dim(64).causal(true));
    let reports: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let engine = engine.clone();
                scope.spawn(move || engine.plan(&problem).expect("a schedule").warm_up().expect("the kernel loads"))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("the thread ends")).collect()
    });
    // Reports hold the time of the load to the nanosecond: another load would be another report.
    assert!(reports.iter().all(|report| *report == reports[0]), "one load is shared");
    assert_eq!(engine.loads().len(), 1);
}

/// A plan and its handle may go before the work that they enqueued has begun.
fn handles_dropped(gpu: &Gpu) {
    let problem = build(Problem::builder().queries(1000).heads(8).head_dim(64).causal(true));
    let host = Tensors::<bf16>::random(&problem, 90);
    let right = run(gpu, &gpu.attention.plan(&problem).expect("a schedule"), &host);
    let stream = gpu.new_stream();
    for round in 0..5 {
        let (inputs, mut results) = (Uploaded::new(&stream, &host), Results::new(&stream, &problem));
        let engine = gpu.fresh();
        let plan = engine.warm_up(&problem).expect("the kernel loads");
        pause(&stream, 20);
        results.run(&stream, &plan, inputs.inputs()).expect("attention is enqueued");
        drop((plan, engine));
        gpu.wait(&stream);
        same(&format!("round {round}"), &results.download(&stream, &problem), &right);
    }
}

/// Inputs that are dropped at once stay whole until the stream that reads them is done, whatever their own stream allocates next.
fn inputs_dropped(gpu: &Gpu) {
    let problem = build(Problem::builder().queries(1000).heads(8).head_dim(64).causal(true));
    let plan = gpu.attention.plan(&problem).expect("a schedule");
    let host = Tensors::<bf16>::random(&problem, 91);
    let right = run(gpu, &plan, &host);
    let (home, reader) = (gpu.new_stream(), gpu.new_stream());
    for round in 0..5 {
        let (inputs, mut results) = (Uploaded::new(&home, &host), Results::new(&reader, &problem));
        pause(&reader, 20);
        results.run(&reader, &plan, inputs.inputs()).expect("attention is enqueued");
        drop(inputs);
        // NaN in the same places, as soon as the home stream has them back.
        let _reused = Results::<bf16>::new(&home, &problem);
        let _again = Uploaded::<bf16>::new(&home, &Tensors::of(&problem, |_| f32::NAN, |_| f32::NAN, |_| f32::NAN));
        gpu.wait(&reader);
        gpu.wait(&home);
        same(&format!("round {round}"), &results.download(&reader, &problem), &right);
    }
}
