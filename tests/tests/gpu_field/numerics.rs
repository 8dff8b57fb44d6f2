//! Range, NaN and the log-sum-exp: FC-15, FC-16, FC-19, FC-20. FC-18 and FC-19 in 8 bits are in `gpu_fp8`.

use half::{bf16, f16};
use tilewright::{Element, Half, Problem};
use tilewright_tests::gpu::call::{build, every_row, solve};
use tilewright_tests::gpu::compare::{Bounds, LSE, Row, every, every_within};
use tilewright_tests::gpu::data::{Tensors, extents, noise};
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::suite::{Case, gpu};

pub fn cases() -> Vec<Case> {
    vec![
        gpu("fc15_a", |gpu| {
            let problem = build(Problem::builder().queries(1).heads(1).head_dim(64));
            let all = |_: [u64; 4]| 133_120.0;
            let answer = solve(gpu, &problem, &Tensors::<bf16>::of(&problem, all, all, all));
            let lse = 133_120_f64.powi(2) * 8.0;
            every_within(&answer, Bounds { o: 0.0, lse: 1e-3 * lse }, |_| Row { o: 133_120.0, lse });
        }),
        gpu("fc15_b", |gpu| {
            let problem = Problem::builder().element(Element::F16).queries(1).keys(4096).heads(1).head_dim(128);
            let problem = build(problem);
            let host = Tensors::<f16>::of(&problem, |_| 60.0, |_| 60.0, |_| 60_000.0);
            let answer = solve(gpu, &problem, &host);
            let bounds = Bounds { o: 2_f64.powi(-10), lse: 0.05 };
            every_within(&answer, bounds, |_| Row { o: 60_000.0, lse: 40_737.668 });
        }),
        gpu("fc15_c", fc15_c),
        gpu("fc16_a", |gpu| {
            let bounds = Bounds { o: 2_f64.powi(-7), lse: 0.02 };
            let answer = far_below(gpu, 1, false, |_| -544.0);
            every_within(&answer, bounds, |_| Row { o: 31.5, lse: -21_537.142 });
        }),
        gpu("fc16_b", |gpu| {
            let bounds = Bounds { o: 0.0, lse: 0.02 };
            let answer = far_below(gpu, 1, false, one_nearer);
            every_within(&answer, bounds, |_| Row { o: 3.0, lse: -20_274.166 });
        }),
        gpu("fc16_d", |gpu| {
            let answer = far_below(gpu, 64, true, one_nearer);
            for [b, i, h] in every_row(&answer.problem) {
                let right = if i < 3 { i as f32 / 2.0 } else { 3.0 };
                let row = answer.o(b, i, h);
                assert!(row.iter().all(|x| (x.to_f32() - right).abs() <= 0.0078), "row {i} is {} not {right}", row[0]);
                let score = if i < 3 { -448.0 * 544.0 / 128_f64.sqrt() + (i as f64 + 1.0).ln() } else { -20_274.166 };
                assert!((f64::from(answer.lse(b, i, h)) - score).abs() <= 0.02, "LSE of row {i}");
            }
        }),
        gpu("overflow_far_from_the_end", overflow_far_from_the_end),
        gpu("fc19_c_bf16", fc19_c::<bf16>),
        gpu("fc19_c_f16", fc19_c::<f16>),
        gpu("fc19_d_bf16", fc19_d::<bf16>),
        gpu("fc19_d_f16", fc19_d::<f16>),
        gpu("fc20_a_bf16", fc20_a::<bf16>),
        gpu("fc20_a_f16", fc20_a::<f16>),
    ]
}

/// A dot product that overflows single precision spoils its own row and no other. Row 2 itself is infinity minus infinity: NaN or anything.
fn fc15_c(gpu: &Gpu) {
    let problem = build(Problem::builder().queries(4).keys(5).heads(1).head_dim(128));
    let q = |[_, i, _, _]: [u64; 4]| if i == 2 { 1e19 } else { 0.0 };
    let answer = solve(gpu, &problem, &Tensors::<bf16>::of(&problem, q, |_| 1e19, |_| 1.0));
    for i in [0, 1, 3] {
        assert!(answer.o(0, i, 0).iter().all(|x| x.to_f32() == 1.0), "row {i} is {}", answer.o(0, i, 0)[0]);
        assert!((f64::from(answer.lse(0, i, 0)) - 1.609438).abs() <= LSE, "LSE of row {i}");
    }
}

/// Key 3 is a little nearer than all others.
fn one_nearer(j: u64) -> f32 {
    if j == 3 { -512.0 } else { -544.0 }
}

/// q = (448, 0, ...) in every row, k = (key, 0, ...), values are the tokens' numbers; 64 keys.
fn far_below(
    gpu: &Gpu,
    queries: u64,
    causal: bool,
    key: impl Fn(u64) -> f32 + Sync,
) -> tilewright_tests::gpu::call::Answer<bf16> {
    let problem = Problem::builder().queries(queries).keys(64).heads(1).head_dim(128).causal(causal);
    let problem = build(problem);
    let first = |c: u64, value: f32| if c == 0 { value } else { 0.0 };
    let host =
        Tensors::of(&problem, |[_, _, _, c]| first(c, 448.0), |[_, j, _, c]| first(c, key(j)), |[_, j, _, _]| j as f32);
    solve(gpu, &problem, &host)
}

/// The first key outweighs all that come after it by more than an exponential in single precision holds: kernels that
/// walk from the end meet it last. Every head dimension and mask, against values that only that key has.
fn overflow_far_from_the_end(gpu: &Gpu) {
    for (dim, causal) in [64, 96, 128, 192, 256].into_iter().flat_map(|dim| [(dim, false), (dim, true)]) {
        let problem = build(Problem::builder().queries(1000).keys(1500).heads(3).head_dim(dim).causal(causal));
        let first = |c: u64, value: f32| if c == 0 { value } else { 0.0 };
        let key = |[_, j, _, c]: [u64; 4]| first(c, if j == 0 { 64.0 } else { -64.0 });
        let host = Tensors::<bf16>::of(
            &problem,
            |[_, _, _, c]| first(c, 64.0),
            key,
            |[_, j, h, _]| {
                if j == 0 { 3.0 + h as f32 } else { 100.0 }
            },
        );
        let answer = solve(gpu, &problem, &host);
        let lse = 64.0 * 64.0 / (dim as f64).sqrt();
        for [b, i, h] in every_row(&problem) {
            assert!(answer.o(b, i, h).iter().all(|x| x.to_f32() == 3.0 + h as f32), "O of row {i} head {h}, d {dim}");
            assert!((f64::from(answer.lse(b, i, h)) - lse).abs() <= 1e-3, "LSE of row {i} head {h}, d {dim}");
        }
    }
}

/// The clean inputs of FC-19.
fn clean<T: Half>(causal: bool) -> (Problem, Tensors<T>) {
    let problem = Problem::builder().element(T::ELEMENT).batch(2).queries(64).heads(4).kv_heads(2).head_dim(64);
    let problem = build(problem.causal(causal));
    let host = Tensors::random(&problem, 19);
    (problem, host)
}

/// NaN in one row of Q makes that row NaN and changes no bit elsewhere.
fn fc19_c<T: Half>(gpu: &Gpu) {
    let (problem, mut host) = clean::<T>(false);
    let right = solve(gpu, &problem, &host);
    let at = problem.strides()[0].row(0, 5, 1) as usize;
    host.q[at + 7] = T::round(f32::NAN);
    let answer = solve(gpu, &problem, &host);
    for [b, i, h] in every_row(&problem) {
        if [b, i, h] == [0, 5, 1] {
            assert!(answer.o(b, i, h).iter().all(|x| x.widen().is_nan()), "O of the row with a NaN in q");
            assert!(answer.lse(b, i, h).is_nan(), "LSE of the row with a NaN in q is {}", answer.lse(b, i, h));
        } else {
            assert!(answer.same_row(&right, [b, i, h]), "batch {b} row {i} head {h} changed");
        }
    }
}

/// NaN in key 10 of one key head reaches exactly the rows that see it.
fn fc19_d<T: Half>(gpu: &Gpu) {
    let (problem, mut host) = clean::<T>(true);
    let right = solve(gpu, &problem, &host);
    let at = problem.strides()[1].row(0, 10, 1) as usize;
    host.k[at + 7] = T::round(f32::NAN);
    let answer = solve(gpu, &problem, &host);
    for [b, i, h] in every_row(&problem) {
        if b == 0 && h / 2 == 1 && i >= 10 {
            assert!(answer.o(b, i, h).iter().all(|x| x.widen().is_nan()), "O of row {i} head {h}, which sees a NaN");
            assert!(answer.lse(b, i, h).is_nan(), "LSE of row {i} head {h}, which sees a NaN");
        } else {
            assert!(answer.same_row(&right, [b, i, h]), "batch {b} row {i} head {h} changed");
        }
    }
}

/// LSE is the natural logarithm.
fn fc20_a<T: Half>(gpu: &Gpu) {
    for dim in [64, 128] {
        let problem = Problem::builder().element(T::ELEMENT).queries(70).keys(256).heads(2).head_dim(dim);
        let problem = build(problem);
        let [_, _, v, _] = extents(&problem);
        let host = Tensors::<T>::count(&problem, |[_, _, h, _]| h as f32 + 1.0);
        every(&solve(gpu, &problem, &host), |[_, _, h]| Row { o: h as f64 + 1.0, lse: 5.545177 });
        // Values do not enter LSE.
        let host = Tensors::<T>::count(&problem, noise(8, v));
        let answer = solve(gpu, &problem, &host);
        assert!(answer.lse.iter().all(|&lse| (f64::from(lse) - 5.545177).abs() <= LSE));
    }
}
