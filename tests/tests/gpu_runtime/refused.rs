//! Calls that are refused, by kind of error; after each one the context still computes. And strides that are taken.

use half::{bf16, f16};
use schedule::RowSum;
use tilewright::{Error, Half, Outputs, Plan, Problem, ProblemBuilder, Strides};
use tilewright_tests::gpu::call::{Results, Uploaded, build, plan, run, still_works};
use tilewright_tests::gpu::compare::against_references;
use tilewright_tests::gpu::data::Tensors;
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::suite::{Case, gpu};

pub fn cases() -> Vec<Case> {
    vec![
        gpu("refused_buffers", buffers),
        gpu("refused_problems", problems),
        gpu("refused_schedules", schedules),
        gpu("refused_raw_addresses", raw_addresses),
        gpu("strides_bf16", strides::<bf16>),
        gpu("strides_f16", strides::<f16>),
        gpu("explained", explained),
    ]
}

fn small() -> ProblemBuilder {
    Problem::builder().batch(2).queries(70).keys(90).heads(4).kv_heads(2).head_dim(64)
}

/// Holds a refusal against its kind and what it must name, and the context against a right call.
fn refused<T>(gpu: &Gpu, outcome: tilewright::Result<T>, kind: impl Fn(&Error) -> bool, names: &[&str]) {
    let Err(error) = outcome else { panic!("not refused; the message should name {names:?}") };
    assert!(kind(&error), "another kind of error: {error:?}");
    let told = error.to_string();
    assert!(names.iter().all(|name| told.contains(name)), "{told}: names not all of {names:?}");
    still_works(gpu);
}

/// Buffers that are short or of another type.
fn buffers(gpu: &Gpu) {
    let problem = build(small());
    let plan = plan(gpu, &problem);
    let inputs = Uploaded::new(&gpu.stream, &Tensors::<bf16>::random(&problem, 1));
    let mut results = Results::<bf16>::new(&gpu.stream, &problem);
    for tensor in ["q", "k", "v"] {
        let short = |all: &cudarc::driver::CudaSlice<bf16>| all.len() - 1;
        let (q, k, v) = (
            inputs.q.slice(..short(&inputs.q)),
            inputs.k.slice(..short(&inputs.k)),
            inputs.v.slice(..short(&inputs.v)),
        );
        let mut given = inputs.inputs();
        match tensor {
            "q" => given.q = &q,
            "k" => given.k = &k,
            _ => given.v = &v,
        }
        let outcome = results.run(&gpu.stream, &plan, given);
        refused(gpu, outcome, |error| matches!(error, Error::Buffer { .. }), &[&format!("tensor {tensor}")]);
    }
    for tensor in ["o", "lse"] {
        let (mut o, mut lse) = (results.o.view_mut(), results.lse.view_mut());
        let (whole_o, whole_lse) = (problem.output_elements() as usize, problem.lse_elements() as usize);
        let mut short_o = o.slice_mut(..whole_o - usize::from(tensor == "o"));
        let mut short_lse = lse.slice_mut(..whole_lse - usize::from(tensor == "lse"));
        let outputs = Outputs { o: &mut short_o, lse: &mut short_lse };
        let outcome = plan.run(&gpu.stream, inputs.inputs(), outputs);
        refused(gpu, outcome, |error| matches!(error, Error::Buffer { .. }), &[&format!("tensor {tensor}")]);
    }
    let other = Uploaded::new(&gpu.stream, &Tensors::<f16>::random(&problem, 1));
    let mut other_results = Results::<f16>::new(&gpu.stream, &problem);
    let outcome = other_results.run(&gpu.stream, &plan, other.inputs());
    refused(gpu, outcome, |error| matches!(error, Error::Element { .. }), &["f16", "bf16"]);
    // Nothing was written by any of them.
    gpu.wait(&gpu.stream);
    assert!(results.download(&gpu.stream, &problem).o.iter().all(|x| x.is_nan()));
    assert!(other_results.download(&gpu.stream, &problem).o.iter().all(|x| x.is_nan()));
}

/// Problems that are wrong, and one that no schedule computes.
fn problems(gpu: &Gpu) {
    let shape = |error: &Error| matches!(error, Error::Shape(_));
    refused(gpu, small().kv_heads(3).build(), shape, &["kv_heads = 3"]);
    refused(gpu, small().keys(1 << 31).build(), shape, &["keys"]);
    refused(gpu, small().scale(f64::NAN).build(), |error| matches!(error, Error::Scale(_)), &["scale"]);
    let odd = small().k_strides([0, 100, 100]).build();
    refused(gpu, odd, |error| matches!(error, Error::Stride { .. }), &["tensor k", "200 bytes"]);
    let wide = gpu.attention.plan(&build(small().head_dim(80)));
    refused(gpu, wide, |error| matches!(error, Error::HeadDim { .. }), &["80", "64, 96, 128"]);
}

/// Schedules that do not compute the problem, cannot be held or are not lowered.
fn schedules(gpu: &Gpu) {
    let named = |name: &str| templates::named(name).expect("a shipped schedule");
    let problem = build(Problem::builder().queries(70).heads(2).head_dim(128));
    let with = |schedule: &schedule::Schedule| Plan::with_schedule(&gpu.attention, &problem, schedule);
    let kind = |error: &Error| matches!(error, Error::Refused { .. });
    refused(gpu, with(&named("fwd_bf16_d64")), kind, &["fwd_bf16_d64", "head dimension"]);
    refused(gpu, with(&named("fwd_bf16_d128_causal")), kind, &["fwd_bf16_d128_causal", "mask"]);
    let mut deep = named("fwd_bf16_d128");
    deep.stages.kv = 4;
    refused(gpu, with(&deep), kind, &["stages kv"]);
    let mut summed = named("fwd_bf16_d128");
    summed.row_sum = RowSum::TensorCore;
    refused(gpu, with(&summed), kind, &["row_sum"]);
}

/// The unchecked door still looks at what the copy engine would trip over.
fn raw_addresses(gpu: &Gpu) {
    let problem = build(small());
    let plan = plan(gpu, &problem);
    let inputs = Uploaded::new(&gpu.stream, &Tensors::<bf16>::random(&problem, 1));
    let results = Results::<bf16>::new(&gpu.stream, &problem);
    let at = results.pointers(&gpu.stream, &inputs);
    let mut odd = [at; 5];
    odd[0].q += 2;
    odd[1].k += 8;
    odd[2].v += 2;
    odd[3].o += 8;
    odd[4].lse += 2;
    for (at, tensor) in odd.into_iter().zip(["q", "k", "v", "o", "lse"]) {
        // SAFETY: the addresses are refused before anything is launched; the memory around them is there anyway.
        let outcome = unsafe { plan.run_raw(gpu.stream.cu_stream(), at) };
        refused(gpu, outcome, |error| matches!(error, Error::Misaligned { .. }), &[&format!("tensor {tensor}")]);
    }
}

/// Heads first, every second token, packed heads and batches far apart, all with NaN between the rows.
fn strides<T: Half>(gpu: &Gpu) {
    for (dim, causal) in [(64, true), (96, false), (128, true), (192, false), (256, true)] {
        let base = Problem::builder().element(T::ELEMENT).batch(2).queries(200).keys(333).heads(4).kv_heads(2);
        let base = base.head_dim(dim).causal(causal);
        let d = u64::from(dim);
        let views = [
            base.clone()
                .q_strides(Strides::heads_first(200, 4, d))
                .k_strides(Strides::heads_first(333, 2, d))
                .v_strides(Strides::heads_first(333, 2, d))
                .o_strides(Strides::heads_first(200, 4, d)),
            base.clone().q_strides([2 * 200 * 4 * d, 2 * 4 * d, d]).k_strides([2 * 333 * 2 * d, 2 * 2 * d, d]),
            base.clone().v_strides([1 << 20, 3 * 2 * d, d]).o_strides([1 << 20, 4 * (d + 8), d + 8]),
            base.clone().k_strides([0, 2 * d, d]).v_strides([333 * 2 * d, 2 * d, d]),
        ];
        for view in views {
            let problem = build(view);
            let host = Tensors::<T>::random(&problem, 5);
            let answer = run(gpu, &plan(gpu, &problem), &host);
            let rows: Vec<u64> = (0..200).step_by(2).chain([127, 199]).collect();
            if let Err(what) = against_references(&answer, &host, &rows) {
                panic!("{problem} with strides {:?}: {what}", problem.strides());
            }
            let written = answer.o.iter().filter(|x| !x.widen().is_nan()).count() as u64;
            assert_eq!(written, problem.output_elements(), "{problem}: elements of O that were written");
        }
    }
}

/// A plan says what it chose, before and after it is loaded.
fn explained(gpu: &Gpu) {
    let problem = build(small().causal(true));
    let plan = gpu.fresh().plan(&problem).expect("a schedule");
    let before = plan.explain().to_string();
    assert!(before.contains(&plan.schedule().name) && before.contains("not loaded yet"), "{before}");
    plan.warm_up().expect("the kernel loads");
    let after = plan.explain().to_string();
    assert!(after.contains("loaded in") && after.contains("not fwd_"), "{after}");
    println!("\n{after}");
}
