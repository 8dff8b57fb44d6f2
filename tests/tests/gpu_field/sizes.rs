//! Sizes above 2^31 elements and above 65535 units: FC-28, FC-29.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use half::bf16;
use tilewright::{Inputs, Plan, Problem};
use tilewright_tests::gpu::call::{Answer, Results, Uploaded, build, plan, run, solve};
use tilewright_tests::gpu::compare::{Bounds, LSE, Row, all_are, every, every_within, same};
use tilewright_tests::gpu::data::{Tensors, extents, noise, tensor};
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::suite::{Case, NotRun, Verdict, gpu, gpu_if};

pub fn cases() -> Vec<Case> {
    vec![
        gpu_if("fc28_a", fc28_a),
        gpu_if("fc28_b", fc28_b),
        gpu("fc29_a", |gpu| {
            let problem = build(Problem::builder().batch(65_537).queries(1).keys(1).heads(1).head_dim(64));
            let answer = solve::<bf16>(gpu, &problem, &Tensors::count(&problem, |[b, ..]| (b % 256) as f32));
            every_within(&answer, EXACT, |[b, ..]| Row { o: (b % 256) as f64, lse: 0.0 });
        }),
        gpu("fc29_b", |gpu| {
            let problem = build(Problem::builder().queries(10).heads(65_536).head_dim(64));
            let answer = solve::<bf16>(gpu, &problem, &Tensors::count(&problem, |[_, _, h, _]| (h % 256) as f32));
            every_within(&answer, EXACT, |[_, _, h]| Row { o: (h % 256) as f64, lse: 10_f64.ln() });
        }),
        gpu("fc29_c", fc29_c),
    ]
}

const EXACT: Bounds = Bounds { o: 0.0, lse: LSE };

/// Fails the trial as not run unless that much device memory is free.
fn room(gpu: &Gpu, bytes: usize) -> Verdict {
    let (free, _) = gpu.context.mem_get_info().expect("the driver tells free memory");
    let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
    if free >= bytes {
        return Ok(());
    }
    Err(NotRun(format!("needs {:.1} GiB of device memory, {:.1} are free", gib(bytes), gib(free))))
}

/// Uninitialised device memory; what is read of it is written first.
fn bare(stream: &Arc<CudaStream>, len: usize) -> CudaSlice<bf16> {
    // SAFETY: the callers write every element that a kernel or a copy reads.
    unsafe { stream.alloc(len) }.expect("device memory")
}

const BATCHES: u64 = 15_000;
/// Batches that have the same data over and over; the number divides the batches.
const BLOCK: u64 = 100;
/// The batches looked at, with data of their own.
const WATCHED: [u64; 3] = [0, 7499, 14_999];

/// 2.4 thousand million elements a tensor: the first, a middle and the last batch are as if they were alone.
fn fc28_a(gpu: &Gpu) -> Verdict {
    let shape = || Problem::builder().queries(80).heads(16).head_dim(128).causal(true);
    let (all, one) = (build(shape().batch(BATCHES)), build(shape()));
    let per_batch = one.output_elements() as usize;
    room(gpu, 9 * BATCHES as usize * per_batch)?;

    let watched = WATCHED.map(|batch| Tensors::<bf16>::random(&one, 2800 + batch));
    let block = Tensors::<bf16>::random(&build(shape().batch(BLOCK)), 28);
    let fill = |block: &[bf16], own: [&[bf16]; 3]| {
        let (mut tensor, block) = (bare(&gpu.stream, BATCHES as usize * per_batch), upload(gpu, block));
        for at in 0..(BATCHES / BLOCK) as usize {
            let mut part = tensor.slice_mut(at * block.len()..(at + 1) * block.len());
            gpu.stream.memcpy_dtod(&block, &mut part).expect("a block is copied");
        }
        for (batch, own) in WATCHED.iter().zip(own) {
            let at = *batch as usize * per_batch;
            let mut part = tensor.slice_mut(at..at + per_batch);
            gpu.stream.memcpy_htod(own, &mut part).expect("a batch is replaced");
        }
        tensor
    };
    let [a, b, c] = &watched;
    let q = fill(&block.q, [&a.q, &b.q, &c.q]);
    let k = fill(&block.k, [&a.k, &b.k, &c.k]);
    let v = fill(&block.v, [&a.v, &b.v, &c.v]);

    let whole = plan(gpu, &all);
    let mut results = Results::<bf16>::new(&gpu.stream, &all);
    results.run(&gpu.stream, &whole, Inputs { q: &q, k: &k, v: &v }).expect("2^31 elements and more run");
    gpu.wait(&gpu.stream);
    results.o.check(&gpu.stream);
    let alone = Plan::with_schedule(&gpu.attention, &one, whole.schedule()).expect("the same schedule for one batch");
    let lse = results.lse.download(&gpu.stream);
    for (batch, host) in WATCHED.iter().zip(&watched) {
        let at = *batch as usize;
        let o = results.o.view().slice(at * per_batch..(at + 1) * per_batch);
        let o = gpu.stream.clone_dtoh(&o).expect("a batch comes back");
        gpu.wait(&gpu.stream);
        let rows = one.lse_elements() as usize;
        let found = Answer { problem: one, o, lse: lse[at * rows..(at + 1) * rows].to_vec() };
        same(&format!("batch {batch} of {BATCHES}"), &found, &run(gpu, &alone, host));
    }
    Ok(())
}

fn upload(gpu: &Gpu, host: &[bf16]) -> CudaSlice<bf16> {
    gpu.stream.clone_htod(host).expect("device memory")
}

/// A cache whose batches lie 2^30 elements apart, with K and V in it; the rest of it is never written.
fn fc28_b(gpu: &Gpu) -> Verdict {
    const APART: u64 = 1 << 30;
    let cache = [APART, 128, 128];
    let problem = Problem::builder().batch(5).queries(3).keys(16).heads(1).head_dim(128);
    let problem = build(problem.k_strides(cache).v_strides(cache));
    let rows = 16 * 128;
    room(gpu, 2 * (4 * APART as usize + 2 * rows) + (1 << 28))?;

    let mut all = bare(&gpu.stream, 4 * APART as usize + 2 * rows);
    let plain = tilewright::Strides::contiguous(16, 1, 128);
    let keys = tensor::<bf16>(extents(&problem)[1], plain, noise(28, extents(&problem)[1]));
    for b in 0..5 {
        let at = b * APART as usize;
        let values = vec![bf16::from_f32(b as f32 + 1.0); rows];
        for (from, at) in [(&keys[b * rows..(b + 1) * rows], at), (&values[..], at + rows)] {
            let mut part = all.slice_mut(at..at + rows);
            gpu.stream.memcpy_htod(from, &mut part).expect("tokens are written");
        }
    }
    let q = upload(gpu, &vec![bf16::ZERO; problem.output_elements() as usize]);
    let (k, v) = (all.slice(..), all.slice(rows..));
    let mut results = Results::<bf16>::new(&gpu.stream, &problem);
    results.run(&gpu.stream, &plan(gpu, &problem), Inputs { q: &q, k: &k, v: &v }).expect("a far stride runs");
    gpu.wait(&gpu.stream);
    let answer = results.download(&gpu.stream, &problem);
    every(&answer, |[b, _, _]| Row { o: b as f64 + 1.0, lse: 16_f64.ln() });
    Ok(())
}

/// More query tiles than a grid's second dimension could have.
fn fc29_c(gpu: &Gpu) {
    let problem = build(Problem::builder().queries(64 * 65_535 + 1).keys(8).heads(1).head_dim(64));
    let q = gpu.stream.alloc_zeros::<bf16>(problem.output_elements() as usize).expect("device memory");
    let small = build(Problem::builder().queries(1).keys(8).heads(1).head_dim(64));
    let Uploaded { k, v, .. } = Uploaded::new(&gpu.stream, &Tensors::<bf16>::count(&small, |_| 1.0));
    let mut results = Results::<bf16>::new(&gpu.stream, &problem);
    results.run(&gpu.stream, &plan(gpu, &problem), Inputs { q: &q, k: &k, v: &v }).expect("65536 tiles run");
    gpu.wait(&gpu.stream);
    let (o, lse) = (results.o.download(&gpu.stream), results.lse.download(&gpu.stream));
    assert!(all_are(&o, 1.0), "O is not 1 everywhere");
    let right = 8_f64.ln();
    assert!(lse.iter().all(|&lse| (f64::from(lse) - right).abs() <= LSE), "LSE is not ln 8 everywhere");
}
