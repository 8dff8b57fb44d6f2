//! Field cases in 8 bits: FC-01 and FC-02 (masks), FC-05 (zero sizes), FC-13 (groups), FC-18 (scales), FC-19 (NaN); and
//! what is refused.

use half::bf16;
use tilewright::reference::Rows;
use tilewright::{Element, Error, Fp8, Output, Problem, ProblemBuilder, ScaleBy, ScaleLayout, ScaleStrides, Values};
use tilewright_tests::gpu::call::{Answer, build, every_row, plan};
use tilewright_tests::gpu::compare::{Bounds, EMPTY, Row, every_within, same};
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::eight::{Coded, call};
use tilewright_tests::gpu::suite::{Case, cpu, gpu};

/// The house tolerance of 8 bits.
const BOUNDS: Bounds = Bounds { o: 0.01, lse: 1e-3 };

pub fn cases() -> Vec<Case> {
    let mut all = vec![
        gpu("fc18", fc18),
        gpu("fc18_expanded", fc18_expanded),
        gpu("fc18_absent", fc18_absent),
        cpu("fc18_wrong_shapes_have_no_problem", wrong_shapes),
        gpu("fc18_wrong_buffers_are_refused", wrong_buffers),
        gpu("fc19_c", fc19_c),
        gpu("fc19_d", fc19_d),
        gpu("a_scale_that_is_no_number_stays_where_it_belongs", no_scale),
        gpu("a_prepared_plan_gives_the_same", prepared),
    ];
    for values in [Values::Rows, Values::Transposed] {
        all.push(gpu(format!("fc01_{values}"), move |gpu| fc01(gpu, values)));
        all.push(gpu(format!("fc02_{values}"), move |gpu| fc02(gpu, values)));
        all.push(gpu(format!("fc05_{values}"), move |gpu| fc05(gpu, values)));
        all.push(gpu(format!("fc13_{values}"), move |gpu| fc13(gpu, values)));
    }
    all
}

fn base(values: Values) -> ProblemBuilder {
    Problem::builder().element(Element::E4m3).fp8(Fp8 { values, ..Fp8::default() })
}

fn solve(gpu: &Gpu, coded: &Coded) -> Answer<bf16> {
    call::run(gpu, &plan(gpu, &coded.problem), coded)
}

/// Q = 0, so that every key that a row sees has the same weight; scales of one.
fn count(problem: &Problem, v: impl Fn([u64; 4]) -> f32 + Sync) -> Coded {
    let number = |t: usize, at: [u64; 4]| match t {
        0 => 0.0,
        1 => (at[1] % 5) as f32 - 2.0,
        _ => v(at),
    };
    Coded::with_scales(problem, number, |_, _| 1.0)
}

/// Causal is aligned at the bottom right.
fn fc01(gpu: &Gpu, values: Values) {
    let problem = build(base(values).queries(100).keys(300).heads(1).head_dim(64).causal(true));
    let coded = count(&problem, |[_, j, _, _]| if j >= 200 { 1.0 } else { 0.0 });
    every_within(&solve(gpu, &coded), BOUNDS, |[_, i, _]| {
        let i = i as f64;
        Row { o: (i + 1.0) / (i + 201.0), lse: (i + 201.0).ln() }
    });
    let problem = build(base(values).queries(1).keys(5).heads(1).head_dim(64).causal(true));
    let coded = count(&problem, |[_, j, _, _]| j as f32);
    every_within(&solve(gpu, &coded), BOUNDS, |_| Row { o: 2.0, lse: 1.609438 });
}

/// Rows that see no key are empty, whole tiles among them.
fn fc02(gpu: &Gpu, values: Values) {
    let problem = build(base(values).queries(300).keys(1).heads(2).head_dim(128).causal(true));
    let coded = count(&problem, |_| 3.0);
    every_within(&solve(gpu, &coded), BOUNDS, |[_, i, _]| if i < 299 { EMPTY } else { Row { o: 3.0, lse: 0.0 } });
}

fn fc05(gpu: &Gpu, values: Values) {
    for dim in [64, 128, 256] {
        for (batch, queries, keys) in [(2, 3, 0), (2, 0, 5), (0, 3, 5)] {
            let problem = build(base(values).batch(batch).queries(queries).keys(keys).heads(2).head_dim(dim));
            every_within(&solve(gpu, &Coded::random(&problem, 5)), BOUNDS, |_| EMPTY);
        }
    }
}

/// Query heads share key heads in groups of any size.
fn fc13(gpu: &Gpu, values: Values) {
    for (heads, kv_heads) in [(5, 1), (12, 2), (14, 2), (71, 1)] {
        for queries in [1, 70] {
            let problem = base(values).queries(queries).keys(333).heads(heads).kv_heads(kv_heads).head_dim(128);
            let problem = build(problem);
            let coded = Coded::of(&problem, |t, [_, i, h, c]| match t {
                2 => h as f32 + 1.0,
                _ => ((i * 31 + h * 17 + c * 7) % 13) as f32 / 6.0 - 1.0,
            });
            let [_, _, v] = coded.numbers();
            let group = heads / kv_heads;
            let answer = solve(gpu, &coded);
            for [b, i, h] in every_row(&problem) {
                let right = v[(h / group) as usize * 128];
                let row = answer.o(b, i, h);
                assert!(
                    row.iter().all(|o| (o.to_f32() - right).abs() <= 0.01 * right),
                    "{problem}: {} {right}",
                    row[0]
                );
            }
        }
    }
}

/// FC-18's codes with scales of another layout: `values` gives them by tensor, batch and key head.
fn fc18_coded(fp8: Fp8, scale: impl Fn(usize, u64, u64) -> f32 + Sync) -> Coded {
    let problem = Problem::builder().element(Element::E4m3).batch(2).queries(1).keys(2).heads(4).kv_heads(2);
    let problem = build(problem.head_dim(64).scale(1.0).fp8(fp8));
    let at = |by: usize| (by as u64 / 2, by as u64 % 2);
    let of = |t: usize, index: usize| scale(t, at(index).0, at(index).1);
    // What is coded is 1, 1 and -1, 1 and 0.
    let code = |t: usize, [_, j, _, c]: [u64; 4]| match t {
        2 => (1 - j) as f32,
        _ if c > 0 => 0.0,
        1 if j == 1 => -1.0,
        _ => 1.0,
    };
    let by = |t: usize, [b, j, h, c]: [u64; 4]| {
        let head = if t == 0 { h / 2 } else { h };
        code(t, [b, j, h, c]) * if fp8.q.by == ScaleBy::One { 1.0 } else { scale(t, b, head) }
    };
    Coded::with_scales(&problem, by, of)
}

fn fc18(gpu: &Gpu) {
    let scale = |t: usize, b: u64, h: u64| match t {
        0 => 1.0 + b as f32,
        1 => 0.5 + 0.5 * h as f32,
        _ => 2.0 + b as f32 + 4.0 * h as f32,
    };
    for values in [Values::Rows, Values::Transposed] {
        let answer = solve(gpu, &fc18_coded(Fp8 { values, ..Fp8::default() }, scale));
        let right = [[(1.462117, 0.813262), (5.284782, 1.126928)], [(2.642391, 1.126928), (6.874097, 2.018150)]];
        for [b, i, h] in every_row(&answer.problem) {
            let (o, lse) = right[b as usize][h as usize / 2];
            let found = answer.o(b, i, h);
            assert!(found.iter().all(|x| (f64::from(x.to_f32()) - o).abs() <= 0.01 * o), "{b} {h}: {} {o}", found[0]);
            // Two weights, each rounded to e4m3.
            let off = (f64::from(answer.lse(b, i, h)) - lse).abs();
            assert!(off <= 0.03, "{b} {h}: LSE is off by {off}");
        }
    }
}

/// One scale each, expanded with strides of 0, gives the bits of the same scale written out.
fn fc18_expanded(gpu: &Gpu) {
    let scale = |t: usize, _: u64, _: u64| [1.5, 0.75, 3.0][t];
    let zero = ScaleLayout { by: ScaleBy::KvHead, strides: Some(ScaleStrides { batch: 0, head: 0, block: 0 }) };
    let expanded = solve(gpu, &fc18_coded(Fp8 { q: zero, k: zero, v: zero, ..Fp8::default() }, scale));
    let one = ScaleLayout::from(ScaleBy::Tensor);
    let tensor = solve(gpu, &fc18_coded(Fp8 { q: one, k: one, v: one, ..Fp8::default() }, scale));
    let written = solve(gpu, &fc18_coded(Fp8::default(), scale));
    for [b, i, h] in every_row(&written.problem) {
        assert!(expanded.same_row(&written, [b, i, h]) && tensor.same_row(&written, [b, i, h]), "{b} {i} {h}");
    }
}

/// Tensors without scales are what their codes are.
fn fc18_absent(gpu: &Gpu) {
    let none = ScaleLayout::from(ScaleBy::One);
    let absent = solve(gpu, &fc18_coded(Fp8 { q: none, k: none, v: none, ..Fp8::default() }, |_, _, _| 1.0));
    let ones = solve(gpu, &fc18_coded(Fp8::default(), |_, _, _| 1.0));
    for row in every_row(&ones.problem) {
        assert!(absent.same_row(&ones, row), "{row:?}");
    }
}

fn wrong_shapes() {
    let of =
        |fp8| Problem::builder().element(Element::E4m3).queries(1).keys(2).heads(4).kv_heads(2).head_dim(64).fp8(fp8);
    let told = of(Fp8 { v: ScaleBy::Block(64).into(), ..Fp8::default() }).build().expect_err("V by blocks").to_string();
    assert!(told.contains("v scales"), "{told}");
    let told = of(Fp8 { q: ScaleBy::Block(128).into(), ..Fp8::default() }).build().expect_err("Q by 128").to_string();
    assert!(told.contains("q scales"), "{told}");
}

fn wrong_buffers(gpu: &Gpu) {
    let problem = build(base(Values::Rows).batch(2).queries(3).keys(5).heads(4).kv_heads(2).head_dim(64));
    let coded = Coded::random(&problem, 3);
    let plan = plan(gpu, &problem);
    let told = |t: usize, length: usize| {
        let mut wrong = coded.clone();
        wrong.scales[t].resize(length, 1.0);
        call::try_run::<bf16>(gpu, &plan, &wrong).err().expect("refused")
    };
    // [B + 1, Hk], and one too few.
    for (t, name) in ["q scales", "k scales", "v scales"].into_iter().enumerate() {
        assert!(matches!(told(t, 6), Error::Shape(why) if why.contains(name)));
        assert!(matches!(told(t, 3), Error::Buffer { tensor, needed: 4, found: 3 } if tensor == name));
    }
    assert!(matches!(call::try_run::<half::f16>(gpu, &plan, &coded), Err(Error::Element { .. })));
    // And a right call works.
    call::run::<bf16>(gpu, &plan, &coded);
}

fn clean(causal: bool) -> Coded {
    let problem = base(Values::Rows).batch(2).queries(64).heads(4).kv_heads(2).head_dim(64).causal(causal);
    Coded::random(&build(problem), 19)
}

/// NaN in one row of Q makes that row NaN and changes no bit elsewhere.
fn fc19_c(gpu: &Gpu) {
    let mut coded = clean(false);
    let right = solve(gpu, &coded);
    coded.codes[0][coded.problem.strides()[0].row(0, 5, 1) as usize + 7] = 0x7f;
    let answer = solve(gpu, &coded);
    for [b, i, h] in every_row(&coded.problem) {
        if [b, i, h] == [0, 5, 1] {
            assert!(answer.o(b, i, h).iter().all(|x| x.is_nan()) && answer.lse(b, i, h).is_nan());
        } else {
            assert!(answer.same_row(&right, [b, i, h]), "batch {b} row {i} head {h} changed");
        }
    }
}

/// NaN in key 10 of one key head reaches exactly the rows that see it.
fn fc19_d(gpu: &Gpu) {
    let mut coded = clean(true);
    let right = solve(gpu, &coded);
    coded.codes[1][coded.problem.strides()[1].row(0, 10, 1) as usize + 7] = 0xff;
    let answer = solve(gpu, &coded);
    for [b, i, h] in every_row(&coded.problem) {
        if b == 0 && h / 2 == 1 && i >= 10 {
            assert!(answer.o(b, i, h).iter().all(|x| x.is_nan()) && answer.lse(b, i, h).is_nan(), "row {i} head {h}");
        } else {
            assert!(answer.same_row(&right, [b, i, h]), "batch {b} row {i} head {h} changed");
        }
    }
}

/// A scale of V that is no number: O of its heads and nothing else.
fn no_scale(gpu: &Gpu) {
    let mut coded = clean(true);
    let right = solve(gpu, &coded);
    coded.scales[2][1] = f32::NAN;
    let answer = solve(gpu, &coded);
    for [b, i, h] in every_row(&coded.problem) {
        if b == 0 && h / 2 == 1 {
            assert!(answer.o(b, i, h).iter().all(|x| x.is_nan()), "row {i} head {h}");
            assert_eq!(answer.lse(b, i, h), right.lse(b, i, h));
        } else {
            assert!(answer.same_row(&right, [b, i, h]), "batch {b} row {i} head {h} changed");
        }
    }
}

fn prepared(gpu: &Gpu) {
    let f16 = Fp8 { output: Output::F16, ..Fp8::default() };
    let problem = Problem::builder().element(Element::E4m3).fp8(f16).queries(700).heads(8).kv_heads(2).head_dim(128);
    let problem = build(problem.causal(true));
    let coded = Coded::random(&problem, 4);
    let plan = plan(gpu, &problem);
    let right = call::run::<half::f16>(gpu, &plan, &coded);
    let inputs = call::Uploaded::new(&gpu.stream, &coded);
    let results = tilewright_tests::gpu::call::Results::<half::f16>::new(&gpu.stream, &problem);
    let at = inputs.pointers(&gpu.stream, &results);
    // SAFETY: the addresses are those of buffers that live until the stream has been waited for.
    let prepared = unsafe { plan.prepare_scaled_raw(at, inputs.scale_pointers(&gpu.stream)) }.expect("prepares");
    for _ in 0..3 {
        results.o.poison(&gpu.stream);
        results.lse.poison(&gpu.stream);
        // SAFETY: as above; one launch at a time.
        unsafe { prepared.launch(gpu.stream.cu_stream()) }.expect("launches");
        gpu.wait(&gpu.stream);
        same("prepared", &results.download(&gpu.stream, &problem), &right);
    }
    assert!(coded.exact(Rows::These(&[0])).lse[0].is_finite());
}
