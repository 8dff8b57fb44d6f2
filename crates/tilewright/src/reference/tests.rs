//! The references against closed forms.

use super::*;
use crate::error::{absolute, relative};
use crate::{Element, ProblemBuilder, Strides};
use half::{bf16, f16};

fn one_head(queries: u64, keys: u64) -> ProblemBuilder {
    Problem::builder().queries(queries).keys(keys).heads(1).head_dim(64)
}

/// Zero queries, so that every score is 0, and the value of token j in all its channels.
fn count(builder: ProblemBuilder, value: impl Fn(u64) -> f64) -> Output {
    let problem = builder.build().expect("fine");
    let (q, k) = (vec![0.0; problem.queries() as usize * 64], normal(3, problem.keys() as usize * 64));
    let k: Vec<f64> = k.into_iter().map(f64::from).collect();
    let v: Vec<f64> = (0..problem.keys()).flat_map(|j| vec![value(j); 64]).collect();
    attention(&problem, Host { q: &q, k: &k, v: &v }, Rows::All)
}

/// The first channel of each row of a single head.
fn first(output: &Output) -> Vec<f64> {
    output.o.chunks(64).map(|row| row[0]).collect()
}

fn close(found: &[f64], wanted: &[f64]) {
    assert!(absolute(found, wanted) < 1e-6, "{found:?} is not {wanted:?}");
}

#[test]
fn causal_sees_the_newest_keys_when_there_are_more_keys() {
    let found = count(one_head(2, 5).causal(true), |j| j as f64);
    close(&first(&found), &[1.5, 2.0]);
    close(&found.lse, &[4_f64.ln(), 5_f64.ln()]);
    let decode = count(one_head(1, 5).causal(true), |j| j as f64);
    close(&first(&decode), &[2.0]);
    let late = count(one_head(100, 300).causal(true), |j| if j >= 200 { 1.0 } else { 0.0 });
    let (o, lse): (Vec<f64>, Vec<f64>) =
        (0..100).map(f64::from).map(|i| ((i + 1.0) / (i + 201.0), (i + 201.0).ln())).unzip();
    close(&first(&late), &o);
    close(&late.lse, &lse);
}

#[test]
fn rows_that_see_no_key_are_zero_and_minus_infinity() {
    let found = count(one_head(5, 2).causal(true), |j| j as f64 + 1.0);
    close(&first(&found), &[0.0, 0.0, 0.0, 1.0, 1.5]);
    let none = f64::NEG_INFINITY;
    close(&found.lse, &[none, none, none, 0.0, 2_f64.ln()]);
}

#[test]
fn zero_sizes_are_neutral() {
    let keyless = count(one_head(3, 0), |_| 1.0);
    assert!(keyless.o.iter().all(|&x| x == 0.0) && keyless.lse.iter().all(|&x| x == f64::NEG_INFINITY));
    let rowless = count(one_head(0, 5), |_| 1.0);
    assert_eq!((rowless.o.len(), rowless.lse.len()), (0, 0));
}

#[test]
fn query_heads_share_key_heads_in_groups() {
    for (heads, kv_heads) in [(5, 1), (12, 2), (14, 2), (6, 3)] {
        let builder = Problem::builder().queries(3).keys(4).heads(heads).kv_heads(kv_heads).head_dim(8);
        let problem = builder.build().expect("fine");
        let q: Vec<f64> = normal(1, 3 * heads as usize * 8).into_iter().map(f64::from).collect();
        let k: Vec<f64> = normal(2, 4 * kv_heads as usize * 8).into_iter().map(f64::from).collect();
        let v: Vec<f64> = (0..4 * kv_heads).flat_map(|at| vec![(at % kv_heads + 1) as f64; 8]).collect();
        let found = attention(&problem, Host { q: &q, k: &k, v: &v }, Rows::All);
        for (at, row) in found.o.chunks(8).enumerate() {
            let wanted = (at as u64 % heads / (heads / kv_heads) + 1) as f64;
            close(row, &[wanted; 8]);
        }
    }
}

#[test]
fn lse_is_the_natural_logarithm() {
    close(&count(one_head(1, 256), |_| 1.0).lse, &[5.545_177_444]);
    let problem = one_head(1, 2).build().expect("fine");
    let axis = |x: f64| -> Vec<f64> { [vec![x], vec![0.0; 63]].concat() };
    let (q, k) = (axis(2.0), [axis(4.0), axis(-4.0)].concat());
    let v = [vec![1.0; 64], vec![0.0; 64]].concat();
    let found = attention(&problem, Host { q: &q, k: &k, v: &v }, Rows::All);
    close(&found.o[..1], &[0.880_797_078]);
    close(&found.lse, &[1.0 + (1.0 + (-2_f64).exp()).ln()]);
}

#[test]
fn huge_scores_weigh_by_their_difference() {
    let problem = one_head(1, 64).head_dim(128).build().expect("fine");
    let axis = |x: f64| -> Vec<f64> { [vec![x], vec![0.0; 127]].concat() };
    let v: Vec<f64> = (0..64).flat_map(|j| vec![f64::from(j); 128]).collect();
    let even = attention(&problem, Host { q: &axis(448.0), k: &axis(-544.0).repeat(64), v: &v }, Rows::All);
    assert!((even.o[0] - 31.5).abs() < 1e-9 && (even.lse[0] + 21_537.142).abs() < 1e-3, "{}", even.lse[0]);
    let mut k = axis(-544.0).repeat(64);
    k[3 * 128] = -512.0;
    let one = attention(&problem, Host { q: &axis(448.0), k: &k, v: &v }, Rows::All);
    assert!((one.o[0] - 3.0).abs() < 1e-9 && (one.lse[0] + 20_274.166).abs() < 1e-3, "{}", one.lse[0]);
}

#[test]
fn a_nan_stays_in_the_rows_that_see_it() {
    let problem = one_head(64, 64).causal(true).build().expect("fine");
    let data = |seed| -> Vec<f64> { normal(seed, 64 * 64).into_iter().map(f64::from).collect() };
    let (q, mut k, v) = (data(1), data(2), data(3));
    let clean = attention(&problem, Host { q: &q, k: &k, v: &v }, Rows::All);
    k[10 * 64 + 5] = f64::NAN;
    let found = attention(&problem, Host { q: &q, k: &k, v: &v }, Rows::All);
    assert_eq!(found.o[..10 * 64], clean.o[..10 * 64]);
    assert!(found.o[10 * 64..].iter().all(|x| x.is_nan()) && found.lse[10..].iter().all(|x| x.is_nan()));
}

#[test]
fn strides_and_row_selections_pick_the_same_numbers() {
    let builder = || Problem::builder().batch(2).queries(9).keys(11).heads(4).kv_heads(2).head_dims(16, 8).causal(true);
    let plain = builder().build().expect("fine");
    let (q, k, v) = (normal(1, 2 * 9 * 4 * 16), normal(2, 2 * 11 * 2 * 16), normal(3, 2 * 11 * 2 * 8));
    let all = attention(&plain, Host { q: &q, k: &k, v: &v }, Rows::All);

    // The same tensors with heads before tokens, and K in a buffer with gaps.
    let heads_first = Strides::heads_first(9, 4, 16);
    let gaps = Strides::new(2 * 11 * 64, 2 * 64, 24);
    let strided = builder().q_strides(heads_first).k_strides(gaps).build().expect("fine");
    let (mut q2, mut k2) = (vec![f32::NAN; q.len()], vec![f32::NAN; 2 * 2 * 11 * 64]);
    for b in 0..2 {
        for (s, h) in (0..11).flat_map(|s| (0..4).map(move |h| (s, h))) {
            let copy = |from: &[f32], into: &mut [f32], a: Strides, z: Strides| {
                let (a, z) = (a.row(b, s, h) as usize, z.row(b, s, h) as usize);
                into[z..z + 16].copy_from_slice(&from[a..a + 16]);
            };
            if s < 9 {
                copy(&q, &mut q2, plain.q, heads_first);
            }
            if h < 2 {
                copy(&k, &mut k2, plain.k, gaps);
            }
        }
    }
    assert_eq!(attention(&strided, Host { q: &q2, k: &k2, v: &v }, Rows::All), all);

    let rows = Rows::These(&[8, 0, 3]);
    let some = attention(&plain, Host { q: &q, k: &k, v: &v }, rows);
    assert_eq!(some.o, Output::pick_o(&plain, rows, &all.o));
    let lse: Vec<f32> = all.lse.iter().map(|&x| x as f32).collect();
    let picked = Output::pick_lse(&plain, rows, &lse);
    assert!(absolute(&picked, &some.lse) < 1e-6);
}

#[test]
fn sixteen_bits_are_near_and_their_error_is_the_elements() {
    fn error<T: Half>() -> f64 {
        let problem = Problem::builder().queries(33).keys(129).heads(2).head_dim(64).element(T::ELEMENT).build();
        let problem = problem.expect("fine");
        let data = |seed, rows: usize| -> Vec<T> { normal(seed, rows * 2 * 64).into_iter().map(T::round).collect() };
        let (q, k, v) = (data(1, 33), data(2, 129), data(3, 129));
        let at = Host { q: &q[..], k: &k[..], v: &v[..] };
        let (exact, rounded) = (attention(&problem, at, Rows::All), sixteen_bit(&problem, at, Rows::All));
        assert!(absolute(&rounded.lse, &exact.lse) < 1e-5);
        relative(&rounded.o, &exact.o)
    }
    use crate::Half;
    let (b, f) = (error::<bf16>(), error::<f16>());
    assert!((5e-4..5e-3).contains(&b), "{b}");
    assert!((5e-5..6e-4).contains(&f), "{f}");
    assert_eq!((bf16::ELEMENT, f16::ELEMENT), (Element::Bf16, Element::F16));
}

#[test]
fn sample_numbers_are_normal_and_the_same_every_time() {
    let sample = normal(7, 20_000);
    assert_eq!(sample, normal(7, 20_000));
    assert_ne!(sample[..8], normal(8, 8));
    let mean = sample.iter().map(|&x| f64::from(x)).sum::<f64>() / 20_000.0;
    let variance = sample.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 20_000.0;
    assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
}
