//! What 8-bit elements promise beside right numbers: no number stays where it is, and long rows keep their bits where
//! partial sums go to registers.

use crate::attention::Case;
use ptx::Kernel;
use sim::forward::{Forward, Inputs, Outputs, Problem};
use sim::{Options, Sums};

fn kernel(name: &str) -> Kernel {
    kernels::lower(&templates::named(name).expect("it ships")).expect("it ships").kernel
}

/// Kernels that make P by the exponential unit, half without it, and of V by rows.
const CAUSAL: [&str; 3] = ["fwd_e4m3_d64_causal", "fwd_linear_e4m3_d64_causal", "fwd_rows_e4m3_d128_causal"];

/// The run of inputs in which one element is no number, and without it.
fn spoiled(kernel: &Kernel, problem: &Problem, spoil: impl Fn(&mut Inputs)) -> [Outputs; 2] {
    let clean = Inputs::noise(Forward::of(kernel).expect("a forward kernel"), problem, 1);
    let mut with = clean.clone();
    spoil(&mut with);
    [clean, with]
        .map(|inputs| Case::of(kernel, problem, &inputs).run(kernel, &Options::default()).expect("it is clean"))
}

/// Sets an element to what is no number; it must not be the largest, whose magnitude the scale is made of.
fn no_number(values: &mut [f32], at: usize) {
    assert!(values[at].abs() < 0.9, "another element would do");
    values[at] = f32::NAN;
}

#[test]
fn a_query_that_is_no_number_spoils_its_own_row() {
    let problem = Problem { causal: true, kv_heads: 1, ..Problem::new(2, 70, 200) };
    for name in CAUSAL {
        let kernel = kernel(name);
        let forward = Forward::of(&kernel).expect("a forward kernel");
        let (dim, dim_v) = (forward.dim as usize, forward.dim_v as usize);
        let (head, row) = (1, 5);
        let [clean, with] = spoiled(&kernel, &problem, |inputs| no_number(&mut inputs.q, (row * 2 + head) * dim + 3));
        for (index, (a, b)) in clean.o.chunks(dim_v).zip(with.o.chunks(dim_v)).enumerate() {
            match index == row * 2 + head {
                true => assert!(b.iter().all(|x| x.is_nan()), "{name}"),
                false => assert_eq!(a, b, "{name}: row {index}"),
            }
        }
        for (index, (a, b)) in clean.lse.iter().zip(&with.lse).enumerate() {
            assert!(if index == head * 70 + row { b.is_nan() } else { a == b }, "{name}: {index}");
        }
    }
}

#[test]
fn a_key_that_is_no_number_spoils_the_rows_that_see_it() {
    let problem = Problem { causal: true, kv_heads: 2, ..Problem::new(2, 200, 200) };
    for name in CAUSAL {
        let kernel = kernel(name);
        let forward = Forward::of(&kernel).expect("a forward kernel");
        let (dim, dim_v) = (forward.dim as usize, forward.dim_v as usize);
        for key in [10, 150] {
            let [clean, with] = spoiled(&kernel, &problem, |inputs| no_number(&mut inputs.k, (key * 2 + 1) * dim + 3));
            for (index, (a, b)) in clean.o.chunks(dim_v).zip(with.o.chunks(dim_v)).enumerate() {
                match index % 2 == 1 && index / 2 >= key {
                    true => assert!(b.iter().all(|x| x.is_nan()), "{name}: row {index} of key {key}"),
                    false => assert_eq!(a, b, "{name}: row {index} of key {key}"),
                }
            }
        }
    }
}

#[test]
fn maxima_that_grow_are_found() {
    let kernels = ["fwd_linear_e4m3_d64", "fwd_linear_e4m3_d64_causal", "fwd_linear_e4m3_d128", "fwd_e4m3_d128"];
    for name in kernels {
        let kernel = kernel(name);
        let forward = Forward::of(&kernel).expect("a forward kernel");
        let causal = name.ends_with("causal");
        // Logits from flat to so steep that a row is one key, and its maximum grows by hundreds of exponents at once.
        for scale in [0.5, 4.0, 40.0, 400.0] {
            let problem = Problem { causal, scale: Some(scale), kv_heads: 1, ..Problem::new(2, 200, 700) };
            let mut inputs = Inputs::noise(forward, &problem, 1);
            // Keys are processed from the last to the first: the earlier, the larger.
            let dim = forward.dim as usize;
            inputs.k.iter_mut().enumerate().for_each(|(at, k)| *k *= 1.5 - at as f32 / (700 * dim) as f32);
            let case = Case::of(&kernel, &problem, &inputs);
            let outputs = case.run(&kernel, &Options::default()).expect("it is clean");
            // Few keys count here, so that errors of single ones show: a sixteenth of rounding, and as much of linear P.
            let o = forward.difference(&problem, &outputs, case.right()).o;
            let lse = outputs.lse.iter().zip(&case.right().lse).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
            let lse = lse.fold(0.0, f32::max);
            let bound = if name.contains("linear") { 0.09 } else { 0.065 };
            println!("{name} at scale {scale}: O {o}, log-sum-exp {lse}");
            assert!(o < 0.09 && lse < bound, "{name} at scale {scale}: O {o}, log-sum-exp {lse}");
        }
    }
}

#[test]
fn partial_sums_keep_the_bits_of_long_rows() {
    let problem = Problem::new(1, 64, 6144);
    let error = |name: &str| {
        let kernel = kernel(name);
        let mut inputs = Inputs::noise(Forward::of(&kernel).expect("a forward kernel"), &problem, 1);
        // Values of one sign, whose sums grow as the row does.
        inputs.v.iter_mut().for_each(|v| *v = 0.5 + v.abs() / 2.0);
        let case = Case::of(&kernel, &problem, &inputs);
        let options = Options { sums: Sums::Truncated, ..Options::default() };
        let outputs = case.run(&kernel, &options).expect("it is clean");
        let off = outputs.o.iter().zip(&case.right().o).map(|(a, b)| f64::from(a / b - 1.0).powi(2));
        (off.sum::<f64>() / outputs.o.len() as f64).sqrt()
    };
    let (one, apart) = (error("fwd_e4m3_d64"), error("fwd_long_e4m3_d64"));
    assert!(apart < one / 4.0, "{apart} with partial sums, {one} without");
}
