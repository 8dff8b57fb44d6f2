//! Lengths below and around tiles, head dimensions, groups: FC-09, FC-11, FC-12, FC-13.

use half::{bf16, f16};
use tilewright::policy::{USUAL_SMS, choose};
use tilewright::reference::{self, Output, Rows};
use tilewright::{Element, Error, Half, Problem, Registry, error};
use tilewright_tests::gpu::call::{Uploaded, build, plan, run, solve};
use tilewright_tests::gpu::compare::{LSE, Row, every, same, tolerance};
use tilewright_tests::gpu::data::{Tensors, extents, noise};
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::suite::{Case, cpu, gpu};

pub fn cases() -> Vec<Case> {
    vec![
        gpu("fc09_bf16", fc09::<bf16>),
        gpu("fc09_f16", fc09::<f16>),
        gpu("fc11_d96", fc11),
        cpu("fc11_others_are_refused", || {
            for dim in [40, 72, 80, 120] {
                let problem = Problem::builder().element(Element::F16).queries(512).heads(16).head_dim(dim);
                refused_with_list(&build(problem), &dim.to_string());
            }
        }),
        gpu("fc12_192_128", fc12),
        cpu("fc12_others_are_refused", || {
            for (qk, v) in [(128, 96), (64, 128)] {
                let problem = Problem::builder().queries(130).heads(4).kv_heads(2).head_dims(qk, v);
                refused_with_list(&build(problem), &format!("({qk}, {v})"));
            }
        }),
        gpu("fc13_any_ratio", fc13),
        cpu("fc13_bad_ratios_are_refused", || {
            for (heads, kv_heads) in [(33, 2), (3, 2), (4, 0)] {
                let problem = Problem::builder().queries(70).keys(333).heads(heads).kv_heads(kv_heads).head_dim(128);
                let told = problem.build().expect_err("heads that do not divide").to_string();
                assert!(told.contains(&format!("kv_heads = {kv_heads}")), "{told}");
            }
        }),
    ]
}

/// Nothing is planned for the problem, and the message has what would be.
fn refused_with_list(problem: &Problem, asked: &str) {
    let error = choose(Registry::shipped(), problem, USUAL_SMS).expect_err("a head dimension without a schedule");
    assert!(matches!(error, Error::HeadDim { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains(asked) && ["64", "96", "128", "192", "256"].iter().all(|dim| told.contains(dim)), "{told}");
}

/// Everything 1: O = 1 and LSE = 8 + ln Sk at every pair of lengths.
fn fc09<T: Half>(gpu: &Gpu) {
    const LENGTHS: [u64; 22] =
        [1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 80, 96, 127, 128, 129, 191, 192, 193, 255, 257];
    // Everything is 1, so that the longest problem's tensors serve the shorter ones.
    let with = |queries, keys| {
        build(Problem::builder().element(T::ELEMENT).queries(queries).keys(keys).heads(4).kv_heads(2).head_dim(64))
    };
    let inputs = Uploaded::new(&gpu.stream, &Tensors::<T>::of(&with(257, 257), |_| 1.0, |_| 1.0, |_| 1.0));
    for (queries, keys) in LENGTHS.into_iter().flat_map(|queries| LENGTHS.map(|keys| (queries, keys))) {
        let problem = with(queries, keys);
        let mut results = tilewright_tests::gpu::call::Results::<T>::new(&gpu.stream, &problem);
        results.run(&gpu.stream, &plan(gpu, &problem), inputs.inputs()).expect("every length runs");
        gpu.wait(&gpu.stream);
        let answer = results.download(&gpu.stream, &problem);
        every(&answer, |_| Row { o: 1.0, lse: 8.0 + (keys as f64).ln() });
    }
}

/// The last channel alone carries the score, and key 5 alone the value.
fn fc11(gpu: &Gpu) {
    let problem = build(Problem::builder().element(Element::F16).queries(512).heads(16).head_dim(96));
    let last = |[_, i, _, c]: [u64; 4], only: Option<u64>| match only {
        Some(token) if token != i => 0.0,
        _ if c == 95 => 8.0,
        _ => 0.0,
    };
    let host = Tensors::<f16>::of(
        &problem,
        |at| last(at, None),
        |at| last(at, Some(5)),
        |[_, j, _, _]| if j == 5 { 1.0 } else { 0.0 },
    );
    let first = solve(gpu, &problem, &host);
    every(&first, |_| Row { o: 0.573367, lse: 7.088201 });
    for _ in 0..3 {
        same("repeated", &solve(gpu, &problem, &host), &first);
    }
}

/// Values in the channels alone that a shorter extent would cut off.
fn fc12(gpu: &Gpu) {
    for causal in [false, true] {
        let problem = Problem::builder().queries(130).heads(4).kv_heads(2).head_dims(192, 128).causal(causal);
        let problem = build(problem);
        let [q, k, v, _] = extents(&problem);
        let value = noise(3, v);
        // Of 192 and 128, what the second half of V is cut off by is 64; all of Q and K counts.
        let value = |at: [u64; 4]| if at[3] >= 64 { value(at) } else { 0.0 };
        let host = Tensors::<bf16>::of(&problem, noise(1, q), noise(2, k), value);
        let answer = run(gpu, &plan(gpu, &problem), &host);
        let exact = reference::attention(&problem, host.host(), Rows::All);
        let off = error::relative(&Output::pick_o(&problem, Rows::All, &answer.o), &exact.o);
        assert!(off < 0.01, "O is off by {off:.2e} in norm, causal: {causal}");
        let off = error::absolute(&Output::pick_lse(&problem, Rows::All, &answer.lse), &exact.lse);
        assert!(off <= LSE, "LSE is off by {off:.2e}, causal: {causal}");
    }
}

/// The values of a key head are its number, so that O tells which one a query head read.
fn fc13(gpu: &Gpu) {
    for (heads, kv_heads) in [(5, 1), (12, 2), (14, 2), (96, 8), (71, 1)] {
        for (queries, causal) in [(1, false), (70, false), (70, true)] {
            let problem = Problem::builder().queries(queries).keys(333).heads(heads).kv_heads(kv_heads);
            let problem = build(problem.head_dim(128).causal(causal));
            let [q, k, _, _] = extents(&problem);
            let host = Tensors::<bf16>::of(&problem, noise(5, q), noise(6, k), |[_, _, h, _]| h as f32 + 1.0);
            let answer = solve(gpu, &problem, &host);
            for [b, i, g] in tilewright_tests::gpu::call::every_row(&problem) {
                let right = (g / (heads / kv_heads) + 1) as f64;
                let bound = tolerance(Element::Bf16) * right;
                let off = answer.o(b, i, g).iter().position(|x| (x.to_f64() - right).abs() > bound || x.is_nan());
                assert_eq!(off, None, "{problem}: row {i} head {g} is not {right} in that channel");
                assert!(answer.lse(b, i, g).is_finite(), "{problem}: LSE of row {i} head {g}");
            }
        }
    }
}
