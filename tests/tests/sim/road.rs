//! The facade's road in 8 bits on the machine: tensors as a problem lays them out, arguments as a plan would pass them,
//! and what comes out against double precision.

use std::sync::Arc;

use sim::{Options, Policy, Sums};
use tilewright::policy::{USUAL_SMS, choose};
use tilewright::reference::{Output, Rows};
use tilewright::{
    Accumulation, Element, Entry, Exponentials, Fp8, Granularities, Granularity, Problem, ProblemBuilder, Quantize,
    Registry, Rotation, ScaleBy, ScaleLayout, ScaleStrides, Values,
};
use tilewright_tests::gpu::data;
use tilewright_tests::gpu::eight::{Coded, Off, machine, measure, whole};

use crate::quantized;

/// O and LSE of the attention over what is coded, by the schedule that the facade chooses.
fn run(coded: &Coded) -> (Vec<f64>, Vec<f32>) {
    machine::run(coded, &chosen(coded), &Options::seeded(1))
}

fn chosen(coded: &Coded) -> Arc<Entry> {
    choose(Registry::shipped(), &coded.problem, USUAL_SMS).expect("supported")
}

fn hold(coded: &Coded) -> Off {
    hold_against(coded, &coded.exact(Rows::All))
}

fn hold_against(coded: &Coded, right: &Output) -> Off {
    let (problem, (o, lse)) = (&coded.problem, run(coded));
    let (o, lse) = whole(problem, &o, &lse);
    let rows: Vec<u64> = (0..problem.queries()).collect();
    measure(chosen(coded).schedule(), problem, &rows, &o, &lse, right).unwrap_or_else(|why| panic!("{problem}: {why}"))
}

fn base(fp8: Fp8) -> ProblemBuilder {
    Problem::builder().element(Element::E4m3).batch(2).queries(70).keys(149).heads(4).kv_heads(2).head_dim(64).fp8(fp8)
}

fn build(builder: ProblemBuilder) -> Problem {
    builder.build().expect("the problem is right")
}

fn strided(by: ScaleBy, [batch, head, block]: [u64; 3]) -> ScaleLayout {
    ScaleLayout { by, strides: Some(ScaleStrides { batch, head, block }) }
}

#[test]
fn caches_and_quantized_tensors_are_read_as_the_problem_says() {
    let rows = Fp8::default();
    let f16 = Fp8 { output: tilewright::Output::F16, ..Fp8::quantized(128) };
    for problem in [
        base(rows),
        base(rows).causal(true).head_dim(128).heads(7).kv_heads(1),
        base(rows).head_dim(256).batch(1).keys(70),
        base(f16).causal(true),
        base(Fp8 { output: tilewright::Output::F16, ..rows }).head_dim(96).batch(1),
        base(Fp8::quantized(96)).head_dim(128),
        base(Fp8::quantized(128)).head_dim(256).causal(true).batch(1),
        base(Fp8 { accumulation: Accumulation::Accurate, ..rows }),
        base(Fp8 { accumulation: Accumulation::Accurate, ..Fp8::quantized(128) }).head_dim(96).causal(true).keys(333),
        base(Fp8::quantized(96).exponentials(Exponentials::Linear)).head_dim(128).causal(true).keys(333),
        base(Fp8::quantized(128).exponentials(Exponentials::Linear)),
        base(f16.exponentials(Exponentials::Linear)),
        base(rows).element(Element::E5m2),
        base(Fp8 { values: Values::Transposed, ..rows }).element(Element::E5m2).head_dim(128).causal(true),
    ] {
        hold(&Coded::random(&build(problem), 5));
    }
}

#[test]
fn scales_are_found_by_their_layout() {
    let of = |q: ScaleLayout, k: ScaleLayout, v: ScaleLayout| build(base(Fp8 { q, k, v, ..Fp8::default() }));
    let [one, tensor, kv, head] =
        [ScaleBy::One, ScaleBy::Tensor, ScaleBy::KvHead, ScaleBy::Head].map(ScaleLayout::from);
    for problem in [
        of(one, one, one),
        of(tensor, tensor, tensor),
        of(head, head, tensor),
        of(kv, one, head),
        // With gaps, and expanded from one for each head or batch.
        of(strided(ScaleBy::Head, [32, 5, 0]), strided(ScaleBy::KvHead, [9, 3, 0]), strided(ScaleBy::Head, [1, 6, 0])),
        of(strided(ScaleBy::KvHead, [0, 1, 0]), strided(ScaleBy::Head, [1, 0, 0]), strided(ScaleBy::Head, [0; 3])),
        of(strided(ScaleBy::Block(64), [64, 12, 5]), strided(ScaleBy::Block(128), [40, 9, 2]), kv),
    ] {
        hold(&Coded::random(&problem, 6));
    }
}

#[test]
fn expanded_scales_are_those_that_were_copied() {
    let bits = |fp8: Fp8| {
        let problem = build(base(fp8));
        let coded = Coded::with_scales(
            &problem,
            |t, [b, s, h, c]| ((t as u64 + b + 3 * s + h + c) % 7) as f32 - 3.0,
            |_, _| 0.25,
        );
        run(&coded)
    };
    let zero = strided(ScaleBy::KvHead, [0; 3]);
    let materialized = bits(Fp8::default());
    assert_eq!(bits(Fp8 { q: zero, k: zero, v: zero, ..Fp8::default() }), materialized);
    let one = ScaleLayout::from(ScaleBy::Tensor);
    assert_eq!(bits(Fp8 { q: one, k: one, v: one, ..Fp8::default() }), materialized);
}

#[test]
fn views_of_8_bits_are_read_where_they_lie() {
    let turned = base(Fp8::default()).k_strides([2 * 149 * 64, 64, 149 * 64]).q_strides([70 * 512, 512, 64]);
    hold(&Coded::random(&build(turned.o_strides([70 * 512, 512, 64])), 7));
    // Transposed V with room for more keys.
    let room = base(Fp8::quantized(128)).v_strides([2 * 64 * 192, 192, 64 * 192]);
    hold(&Coded::random(&build(room), 8));
}

#[test]
fn rows_without_keys_are_empty_whatever_scales_there_are() {
    for fp8 in [Fp8::default(), Fp8::quantized(128)] {
        let (o, lse) = run(&Coded::random(&build(base(fp8).keys(0)), 9));
        assert!(o.iter().all(|&o| o == 0.0) && lse.iter().all(|&lse| lse == f32::NEG_INFINITY));
        hold(&Coded::random(&build(base(fp8).keys(33).causal(true)), 9));
    }
}

/// Rounds Q, K and V on the machine and multiplies what was written.
fn joined(builder: ProblemBuilder, rotation: Rotation, scales: Granularities, accumulation: Accumulation) -> f64 {
    let problem = build(builder);
    let schedule = Quantize::for_hopper(problem.element(), problem.head_dim(), rotation, scales);
    let options = tilewright::QuantizeOptions { seed: 77, ..Default::default() };
    let case = quantized::Case::new(&schedule, &problem, &options);
    // Warps wait for scales in global memory: see the quantizer's tests.
    let waits = Options { policy: Policy::Early, ..Options::seeded(2) };
    let written = case.run(&waits).unwrap_or_else(|why| panic!("{problem}: {why}"));
    let by = |granularity| match granularity {
        Granularity::Block(rows) => ScaleBy::Block(rows),
        Granularity::Head => ScaleBy::Head,
        _ => ScaleBy::Tensor,
    };
    let output = if problem.element() == Element::F16 { tilewright::Output::F16 } else { tilewright::Output::Bf16 };
    let [q, k, v] = [scales.q, scales.k, scales.v].map(|granularity| by(granularity).into());
    let fp8 = Fp8 { output, values: Values::Transposed, q, k, v, accumulation, ..Fp8::default() };
    let dims = problem.head_dim();
    let eight = Problem::builder().element(Element::E4m3).batch(problem.batch()).queries(problem.queries());
    let eight = eight.keys(problem.keys()).heads(problem.heads()).kv_heads(problem.kv_heads());
    let eight = build(eight.head_dims(dims.qk, dims.v).causal(problem.causal()).fp8(fp8));
    let coded = Coded { problem: eight, codes: written.codes, scales: written.scales };
    hold(&coded);
    // And of the numbers that were rounded.
    let [q, k, v] = case.inputs();
    let exact = tilewright::reference::attention(&problem, tilewright::reference::Host { q, k, v }, Rows::All);
    let (o, lse) = run(&coded);
    let (o, _) = whole(&coded.problem, &o, &lse);
    tilewright::error::relative(&o, &exact.o)
}

#[test]
fn what_the_quantizer_writes_is_what_the_attention_reads() {
    let sixteen = || Problem::builder().batch(2).queries(70).keys(149).heads(4).kv_heads(2);
    let blocks = |k| Granularities { q: Granularity::Block(64), k: Granularity::Block(k), v: Granularity::Head };
    let heads = Granularities { q: Granularity::Head, k: Granularity::Head, v: Granularity::Head };
    let all = Granularities { q: Granularity::Tensor, k: Granularity::Tensor, v: Granularity::Tensor };
    let (fast, accurate) = (Accumulation::Fast, Accumulation::Accurate);
    let (on, off) = (Rotation::Hadamard, Rotation::Off);
    for (problem, rotation, scales, accumulation) in [
        (sixteen().head_dim(64), on, blocks(128), fast),
        (sixteen().head_dim(64).causal(true), on, blocks(128), accurate),
        (sixteen().head_dim(128).heads(7).kv_heads(1).element(Element::F16), on, blocks(96), fast),
        (sixteen().head_dim(256).batch(1).causal(true), on, blocks(128), fast),
        (sixteen().head_dim(64), off, heads, fast),
        (sixteen().head_dim(128).batch(1), off, all, fast),
    ] {
        let off = joined(problem, rotation, scales, accumulation);
        assert!(off < 0.1, "{off}");
    }
}

#[test]
fn q_alone_is_rounded_over_a_cache() {
    for (rotation, causal) in [(Rotation::Off, false), (Rotation::Hadamard, true)] {
        let fp8 = Fp8 { q: ScaleBy::Block(64).into(), ..Fp8::default() };
        let cache = build(base(fp8).causal(causal));
        let alone = build(Problem::builder().batch(2).queries(70).keys(0).heads(4).kv_heads(2).head_dim(64));
        let scales = Granularities { q: Granularity::Block(64), k: Granularity::Block(64), v: Granularity::Head };
        let schedule = Quantize::for_hopper(Element::Bf16, alone.head_dim(), rotation, scales);
        let case = quantized::Case::new(&schedule, &alone, &Default::default());
        let waits = Options { policy: Policy::Early, ..Options::seeded(3) };
        let written = case.run(&waits).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(case.differences(&written), Vec::<String>::new());
        let mut coded = Coded::random(&cache, 10);
        let [q, _, _] = written.codes;
        let [q_scales, _, _] = written.scales;
        (coded.codes[0], coded.scales[0]) = (q, q_scales);
        hold(&coded);
    }
}

#[test]
fn a_scale_that_is_no_number_spoils_what_it_is_a_factor_of() {
    let problem = build(base(Fp8::quantized(128)).keys(300).causal(true));
    let clean = Coded::random(&problem, 11);
    let (o, lse) = run(&clean);
    let spoiled = |tensor: usize, at: usize| {
        let mut coded = clean.clone();
        coded.scales[tensor][at] = f32::NAN;
        run(&coded)
    };
    let dim = 64;
    let row = |b: usize, i: usize, h: usize| (b * 70 + i) * 4 + h;
    // Batch 0, head 1: rows 64 to 69.
    let (bad, bad_lse) = spoiled(0, 3);
    for (b, i, h) in (0..2).flat_map(|b| (0..70).flat_map(move |i| (0..4).map(move |h| (b, i, h)))) {
        let (at, is) = (row(b, i, h), b == 0 && h == 1 && i >= 64);
        let (now, was) = (&bad[at * dim..][..dim], &o[at * dim..][..dim]);
        assert!(if is { now.iter().all(|x| x.is_nan()) } else { now == was }, "{b} {i} {h}");
        let at = (b * 4 + h) * 70 + i;
        assert!(if is { bad_lse[at].is_nan() } else { bad_lse[at] == lse[at] }, "{b} {i} {h}");
    }
    // Batch 1, KV head 0, of V: O of its query heads, and not LSE.
    let (bad, bad_lse) = spoiled(2, 2);
    for (b, i, h) in (0..2).flat_map(|b| (0..70).flat_map(move |i| (0..4).map(move |h| (b, i, h)))) {
        let (at, is) = (row(b, i, h), b == 1 && h < 2);
        let (now, was) = (&bad[at * dim..][..dim], &o[at * dim..][..dim]);
        assert!(if is { now.iter().all(|x| x.is_nan()) } else { now == was }, "{b} {i} {h}");
    }
    assert_eq!(bad_lse, lse);
    // Batch 0, KV head 1, keys from 256 on: every row of the tile that reads them, those that see none too.
    let (bad, _) = spoiled(1, 3 + 2);
    for (b, i, h) in (0..2).flat_map(|b| (0..70).flat_map(move |i| (0..4).map(move |h| (b, i, h)))) {
        let (now, was) = (&bad[row(b, i, h) * dim..][..dim], &o[row(b, i, h) * dim..][..dim]);
        let is = b == 0 && h >= 2;
        assert!(if is { now.iter().all(|x| x.is_nan()) } else { now == was }, "{b} {i} {h}");
    }
}

/// Products added up as the chip adds them: what long rows lose is within what the suites for it allow.
#[test]
fn what_the_chip_drops_is_within_bounds() {
    for dim in [64, 128] {
        let problem = build(base(Fp8::default()).batch(1).queries(64).keys(2049).heads(1).kv_heads(1).head_dim(dim));
        let coded = Coded::random(&problem, 12);
        let entry = choose(Registry::shipped(), &problem, USUAL_SMS).expect("supported");
        let (o, lse) = machine::run(&coded, &entry, &Options { sums: Sums::Truncated, ..Options::seeded(1) });
        let (o, lse) = whole(&problem, &o, &lse);
        let rows: Vec<u64> = (0..64).collect();
        let off = measure(entry.schedule(), &problem, &rows, &o, &lse, &coded.exact(Rows::All))
            .unwrap_or_else(|why| panic!("{why}"));
        assert!(off.whole < off.row);
    }
}

/// Values of one sign: what the documentation of `Accumulation` says of 8,192 keys.
#[test]
fn long_rows_keep_their_sums_where_asked_to() {
    let off = |accumulation| {
        let problem = base(Fp8 { accumulation, ..Fp8::default() }).batch(1).queries(64).keys(8192);
        let problem = build(problem.heads(1).kv_heads(1));
        let coded = Coded::of(&problem, |t, [_, s, _, c]| {
            let x = data::normal(50 + t as u64, s * 64 + c);
            if t == 2 { 0.5 + x.abs().min(3.0) / 4.0 } else { x }
        });
        let entry = choose(Registry::shipped(), &problem, USUAL_SMS).expect("supported");
        let (o, lse) = machine::run(&coded, &entry, &Options { sums: Sums::Truncated, ..Options::seeded(1) });
        let ((o, lse), right) = (whole(&problem, &o, &lse), coded.exact(Rows::All));
        (tilewright::error::relative(&o, &right.o), tilewright::error::absolute(&lse, &right.lse))
    };
    let (fast, lse) = off(Accumulation::Fast);
    assert!((0.02..0.03).contains(&fast) && (0.12..0.18).contains(&lse), "{fast} {lse}");
    for kept in [Accumulation::Accurate, Accumulation::Auto] {
        let (accurate, lse) = off(kept);
        assert!(accurate < 0.004 && lse < 0.004, "{accurate} {lse}");
    }
}

/// FC-18 of one query row over two keys: scales by (batch, KV head).
#[test]
fn scales_are_honoured_by_batch_and_key_head() {
    let by = |f: fn(usize) -> f32| f;
    let [q, k, v] = [
        by(|at| 1.0 + (at / 2) as f32),
        by(|at| 0.5 + 0.5 * (at % 2) as f32),
        by(|at| 2.0 + (at / 2) as f32 + 4.0 * (at % 2) as f32),
    ];
    let problem = Problem::builder().element(Element::E4m3).batch(2).queries(1).keys(2).heads(4).kv_heads(2);
    let problem = build(problem.head_dim(64).scale(1.0));
    let mut coded = Coded::with_scales(&problem, |_, _| 0.0, |t, at| [q, k, v][t](at));
    // Codes of 1, 1 and -1, and 1 and 0.
    let one = |at: usize| if at.is_multiple_of(64) { 0x38 } else { 0 };
    coded.codes[0] = (0..2 * 4 * 64).map(one).collect();
    coded.codes[1] = (0..2 * 2 * 2 * 64)
        .map(|at: usize| if at.is_multiple_of(64) { [0x38, 0xb8][at / 128 % 2] } else { 0 })
        .collect();
    coded.codes[2] = (0..2 * 2 * 2 * 64).map(|at| [0x38, 0][at / 128 % 2]).collect();
    let right = coded.exact(Rows::All);
    let told = [(0, 1.462117), (1, 5.284782), (2, 2.642391), (3, 6.874097)];
    let exact: Vec<f64> = told.iter().map(|(pair, _)| right.o[(pair / 2 * 4 + pair % 2 * 2) * 64]).collect();
    assert!(exact.iter().zip(told).all(|(a, (_, b))| (a - b).abs() < 1e-5), "{exact:?}");
    let (o, lse) = run(&coded);
    for (found, right) in o.iter().zip(&right.o) {
        assert!((found - right).abs() <= 0.01 * right.abs() + 1e-9, "{found} {right}");
    }
    // Two weights, each rounded to e4m3.
    let apart = lse.iter().zip(&right.lse).map(|(a, b)| (f64::from(*a) - b).abs());
    assert!(apart.fold(0.0, f64::max) < 0.03);
}
