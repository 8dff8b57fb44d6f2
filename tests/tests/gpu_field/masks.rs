//! Masks, alignment and empty problems: FC-01, FC-02, FC-03, FC-05.
//!
//! Windows are not offered: no problem can ask for one, so that the window parts of FC-03 have nothing to refuse.

use std::f64::consts::LN_2;

use half::bf16;
use tilewright::{Problem, ProblemBuilder};
use tilewright_tests::gpu::call::{Answer, build, plan, run, solve};
use tilewright_tests::gpu::compare::{EMPTY, Row, against_references, every};
use tilewright_tests::gpu::data::Tensors;
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::suite::{Case, gpu};

pub fn cases() -> Vec<Case> {
    vec![
        gpu("fc01_a", |gpu| {
            let answer = count(gpu, causal(2, 5), |j| j);
            every(&answer, |[_, i, _]| [Row { o: 1.5, lse: 1.386294 }, Row { o: 2.0, lse: 1.609438 }][i as usize]);
        }),
        gpu("fc01_b", |gpu| every(&count(gpu, causal(1, 5), |j| j), |_| Row { o: 2.0, lse: 1.609438 })),
        gpu("fc01_c", |gpu| {
            let answer = count(gpu, causal(100, 300), |j| if j >= 200.0 { 1.0 } else { 0.0 });
            every(&answer, |[_, i, _]| {
                let i = i as f64;
                Row { o: (i + 1.0) / (i + 201.0), lse: (i + 201.0).ln() }
            });
        }),
        gpu("fc02_a", |gpu| {
            let answer = count(gpu, causal(5, 2), |j| j + 1.0);
            let seen = [Row { o: 1.0, lse: 0.0 }, Row { o: 1.5, lse: LN_2 }];
            every(&answer, |[_, i, _]| if i < 3 { EMPTY } else { seen[i as usize - 3] });
        }),
        gpu("fc02_b", |gpu| {
            let answer = count(gpu, causal(300, 1), |_| 3.0);
            every(&answer, |[_, i, _]| if i < 299 { EMPTY } else { Row { o: 3.0, lse: 0.0 } });
        }),
        gpu("fc02_c", fc02_c),
        gpu("fc03_c", |gpu| every(&count(gpu, causal(6, 6), |j| j), triangle)),
        gpu("fc03_e", |gpu| {
            let answer = count(gpu, causal(6, 6).causal(false), |j| j);
            every(&answer, |_| Row { o: 2.5, lse: 6_f64.ln() });
        }),
        gpu("fc03_g", |gpu| every(&count(gpu, causal(10, 10), |j| j), triangle)),
        gpu("fc05_a", |gpu| {
            for causal in [false, true] {
                let problem = Problem::builder().batch(2).queries(3).keys(0).heads(2).head_dim(64).causal(causal);
                every(&count(gpu, problem, |j| j), |_| EMPTY);
            }
        }),
        gpu("fc05_b", |gpu| {
            let answer = count(gpu, Problem::builder().batch(2).queries(0).keys(5).heads(2).head_dim(64), |j| j);
            assert!(answer.o.is_empty() && answer.lse.is_empty());
        }),
        gpu("fc05_c", |gpu| {
            let problem = Problem::builder().batch(0).queries(3952).keys(16).heads(10).head_dim(64);
            let answer = count(gpu, problem, |j| j);
            assert!(answer.o.is_empty() && answer.lse.is_empty());
        }),
    ]
}

/// One causal head of 64 channels.
fn causal(queries: u64, keys: u64) -> ProblemBuilder {
    Problem::builder().queries(queries).keys(keys).heads(1).head_dim(64).causal(true)
}

/// The count pattern in bf16, values by token.
fn count(gpu: &Gpu, builder: ProblemBuilder, value: impl Fn(f32) -> f32 + Sync) -> Answer<bf16> {
    let problem = build(builder);
    solve(gpu, &problem, &Tensors::count(&problem, |[_, j, _, _]| value(j as f32)))
}

/// Row i sees the keys 0 ..= i, whose values are their numbers.
fn triangle([_, i, _]: [u64; 3]) -> Row {
    Row { o: i as f64 / 2.0, lse: (i as f64 + 1.0).ln() }
}

/// The first half of the rows sees nothing, the rest random data.
fn fc02_c(gpu: &Gpu) {
    let problem = build(causal(2048, 1024));
    let host = Tensors::<bf16>::random(&problem, 21);
    let answer = run(gpu, &plan(gpu, &problem), &host);
    for i in 0..1024 {
        assert!(answer.o(0, i, 0).iter().all(|x| x.to_f32() == 0.0), "O of row {i}, which sees no key");
        assert_eq!(answer.lse(0, i, 0), f32::NEG_INFINITY, "LSE of row {i}, which sees no key");
    }
    let seeing: Vec<u64> = (1024..2048).collect();
    if let Err(what) = against_references(&answer, &host, &seeing) {
        panic!("{what}");
    }
}
