//! Random attention on the GPU, held against the reference on the CPU.
//!
//! `cargo run --release --example attention -- batch=2 queries=1024 keys=1024 heads=16 kv_heads=4 head_dim=128
//! mask=causal`
//!
//! Exit codes: 0 right, 1 wrong numbers or an error, 2 no GPU to run on.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use tilewright::error::{absolute, relative};
use tilewright::half::bf16;
use tilewright::reference::{self, Host, Output, Rows};
use tilewright::{Inputs, Outputs, Problem, Tilewright};

/// Launches that are timed together.
const LAUNCHES: u32 = 20;
/// Query rows that are held against the reference.
const CHECKED: u64 = 256;

fn main() -> ExitCode {
    let engine = match Tilewright::open(0) {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("not run: {error}");
            return ExitCode::from(2);
        }
    };
    match problem().and_then(|problem| run(&engine, &problem)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

/// The problem of the command line.
fn problem() -> Result<Problem, Box<dyn Error>> {
    let mut builder = Problem::builder().batch(2).queries(1024).heads(16).head_dim(128);
    for argument in std::env::args().skip(1) {
        let (name, value) =
            argument.split_once('=').ok_or_else(|| format!("{argument} is not of the form name=value"))?;
        builder = match name {
            "batch" => builder.batch(value.parse()?),
            "queries" => builder.queries(value.parse()?),
            "keys" => builder.keys(value.parse()?),
            "heads" => builder.heads(value.parse()?),
            "kv_heads" => builder.kv_heads(value.parse()?),
            "head_dim" => builder.head_dim(value.parse()?),
            "mask" => builder.causal(value == "causal"),
            _ => return Err(format!("{name} is none of batch, queries, keys, heads, kv_heads, head_dim, mask").into()),
        };
    }
    Ok(builder.build()?)
}

/// Runs, checks and times; whether the numbers were right.
fn run(engine: &Tilewright, problem: &Problem) -> Result<bool, Box<dyn Error>> {
    let stream = engine.device().context().new_stream()?;
    let plan = engine.warm_up(problem)?;
    println!("{}\n\n{}", engine.device(), plan.explain());

    let dim = problem.head_dim();
    let data = |seed, tokens: u64, heads: u64, dim: u32| -> Vec<bf16> {
        let count = problem.batch() * tokens * heads * u64::from(dim);
        reference::normal(seed, count as usize).into_iter().map(bf16::from_f32).collect()
    };
    let q = data(1, problem.queries(), problem.heads(), dim.qk);
    let k = data(2, problem.keys(), problem.kv_heads(), dim.qk);
    let v = data(3, problem.keys(), problem.kv_heads(), dim.v);
    let (q_gpu, k_gpu, v_gpu) = (stream.clone_htod(&q)?, stream.clone_htod(&k)?, stream.clone_htod(&v)?);
    // NaN shows whatever is left unwritten.
    let mut o_gpu = stream.clone_htod(&vec![bf16::NAN; problem.output_elements() as usize])?;
    let mut lse_gpu = stream.clone_htod(&vec![f32::NAN; problem.lse_elements() as usize])?;
    let mut launch = || {
        let inputs = Inputs { q: &q_gpu, k: &k_gpu, v: &v_gpu };
        plan.run(&stream, inputs, Outputs { o: &mut o_gpu, lse: &mut lse_gpu })
    };

    launch()?;
    stream.synchronize()?;
    let start = Instant::now();
    for _ in 0..LAUNCHES {
        launch()?;
    }
    stream.synchronize()?;
    let seconds = start.elapsed().as_secs_f64() / f64::from(LAUNCHES);
    println!("{:.1} us a launch, {:.1} TFLOP/s", seconds * 1e6, problem.flops() / seconds / 1e12);

    let (o, lse) = (stream.clone_dtoh(&o_gpu)?, stream.clone_dtoh(&lse_gpu)?);
    let step = problem.queries().div_ceil(CHECKED).max(1) as usize;
    let rows: Vec<u64> = (0..problem.queries()).step_by(step).collect();
    let (rows, host) = (Rows::These(&rows), Host { q: &q[..], k: &k[..], v: &v[..] });
    let exact = reference::attention(problem, host, rows);
    let bound = 2.0 * relative(&reference::sixteen_bit(problem, host, rows).o, &exact.o);
    let error = relative(&Output::pick_o(problem, rows, &o), &exact.o);
    let lse_error = absolute(&Output::pick_lse(problem, rows, &lse), &exact.lse);
    println!(
        "error of O {error:.2e} (bound {bound:.2e}), of LSE {lse_error:.2e} (bound 1e-3), {} rows",
        rows.count(problem)
    );
    Ok(error <= bound && lse_error <= 1e-3)
}
