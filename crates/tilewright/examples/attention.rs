//! Random attention, held against the reference: on the GPU if there is one, otherwise on the machine in software.
//!
//! `cargo run --release --example attention -- batch=2 queries=1024 keys=1024 heads=16 kv_heads=4 head_dim=128
//! mask=causal`
//!
//! Exit codes: 0 right, 1 wrong numbers or an error, 2 no GPU although `TILEWRIGHT_ON=gpu` asks for one.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use sim::{Machine, Options, forward};
use tilewright::error::{absolute, relative};
use tilewright::half::bf16;
use tilewright::policy::split::shares;
use tilewright::policy::{USUAL_SMS, choose};
use tilewright::reference::{self, Host, Output, Rows};
use tilewright::{Inputs, Outputs, Problem, Registry, Tilewright};

/// Launches that are timed together.
const LAUNCHES: u32 = 20;
/// Query rows that are held against the reference.
const CHECKED: u64 = 256;
/// CTAs of a launch on the machine: fewer than tiles, so that each computes several.
const CTAS: u32 = 3;

/// Q, K and V in row-major order.
struct Data {
    q: Vec<bf16>,
    k: Vec<bf16>,
    v: Vec<bf16>,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let engine = Tilewright::open(0);
    if let (Err(error), Ok("gpu")) = (&engine, std::env::var("TILEWRIGHT_ON").as_deref()) {
        println!("not run: {error}");
        return ExitCode::from(2);
    }
    match attention(engine) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("error: wrong numbers");
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

/// Whether the numbers were right.
fn attention(engine: tilewright::Result<Tilewright>) -> Result<bool> {
    let problem = problem(engine.is_ok())?;
    let data = |seed, tokens: u64, heads: u64, dim: u32| -> Vec<bf16> {
        let count = problem.batch() * tokens * heads * u64::from(dim);
        reference::normal(seed, count as usize).into_iter().map(bf16::from_f32).collect()
    };
    let dim = problem.head_dim();
    let data = Data {
        q: data(1, problem.queries(), problem.heads(), dim.qk),
        k: data(2, problem.keys(), problem.kv_heads(), dim.qk),
        v: data(3, problem.keys(), problem.kv_heads(), dim.v),
    };
    let (o, lse) = match engine {
        Ok(engine) => on_the_gpu(&engine, &problem, &data)?,
        Err(error) => {
            println!("no GPU ({error}): on the machine in software");
            on_the_machine(&problem, &data)?
        }
    };
    Ok(right(&problem, &data, &o, &lse))
}

/// The problem of the command line. What it does not say is large on a GPU and small on the machine.
fn problem(gpu: bool) -> Result<Problem> {
    let (batch, queries, heads) = if gpu { (2, 1024, 16) } else { (1, 256, 2) };
    let mut builder = Problem::builder().batch(batch).queries(queries).heads(heads).head_dim(128);
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

/// Runs and times; O and the log-sum-exp.
fn on_the_gpu(engine: &Tilewright, problem: &Problem, data: &Data) -> Result<(Vec<bf16>, Vec<f32>)> {
    let stream = engine.device().context().new_stream()?;
    let plan = engine.warm_up(problem)?;
    println!("on the GPU: {}\n\n{}", engine.device(), plan.explain());

    let (q, k, v) = (stream.clone_htod(&data.q)?, stream.clone_htod(&data.k)?, stream.clone_htod(&data.v)?);
    // NaN shows whatever is left unwritten.
    let mut o = stream.clone_htod(&vec![bf16::NAN; problem.output_elements() as usize])?;
    let mut lse = stream.clone_htod(&vec![f32::NAN; problem.lse_elements() as usize])?;
    let mut launch = || plan.run(&stream, Inputs { q: &q, k: &k, v: &v }, Outputs { o: &mut o, lse: &mut lse });

    launch()?;
    stream.synchronize()?;
    let start = Instant::now();
    for _ in 0..LAUNCHES {
        launch()?;
    }
    stream.synchronize()?;
    let seconds = start.elapsed().as_secs_f64() / f64::from(LAUNCHES);
    println!("{:.1} us a launch, {:.1} TFLOP/s", seconds * 1e6, problem.flops() / seconds / 1e12);
    Ok((stream.clone_dtoh(&o)?, stream.clone_dtoh(&lse)?))
}

/// Runs with everything at random that the memory model leaves open; O and the log-sum-exp.
fn on_the_machine(problem: &Problem, data: &Data) -> Result<(Vec<bf16>, Vec<f32>)> {
    let entry = choose(Registry::shipped(), problem, USUAL_SMS)?;
    let lowered = entry.lowered()?;
    let forward = forward::Forward::of(lowered.kernel())?;
    let small = forward::Problem {
        batch: problem.batch().try_into()?,
        heads: problem.heads().try_into()?,
        kv_heads: problem.kv_heads().try_into()?,
        queries: problem.queries().try_into()?,
        keys: problem.keys().try_into()?,
        causal: problem.causal(),
        scale: Some(problem.scale() as f32),
        ctas: CTAS,
        shares: shares(entry.schedule(), problem, USUAL_SMS),
    };
    let singles = |values: &[bf16]| values.iter().map(|v| v.to_f32()).collect();
    let inputs = forward::Inputs { q: singles(&data.q), k: singles(&data.k), v: singles(&data.v) };
    let launch = forward.launch(lowered.kernel(), &small, &inputs)?;
    let start = Instant::now();
    let report = Machine::run(lowered.verified(), &launch, &Options::default())?;
    let (seconds, count) = (start.elapsed().as_secs_f64(), report.instructions);
    println!("{}: no finding, {count} warp instructions, {seconds:.2} s", entry.schedule().name);
    let outputs = forward.outputs(&report).ok_or("the kernel has no output")?;
    Ok((outputs.o.into_iter().map(bf16::from_f32).collect(), outputs.lse))
}

/// Whether these are the numbers of the reference, to rounding.
fn right(problem: &Problem, data: &Data, o: &[bf16], lse: &[f32]) -> bool {
    let step = problem.queries().div_ceil(CHECKED).max(1) as usize;
    let rows: Vec<u64> = (0..problem.queries()).step_by(step).collect();
    let (rows, host) = (Rows::These(&rows), Host { q: &data.q[..], k: &data.k[..], v: &data.v[..] });
    let exact = reference::attention(problem, host, rows);
    let bound = 2.0 * relative(&reference::sixteen_bit(problem, host, rows).o, &exact.o);
    let error = relative(&Output::pick_o(problem, rows, o), &exact.o);
    let lse_error = absolute(&Output::pick_lse(problem, rows, lse), &exact.lse);
    println!(
        "error of O {error:.2e} (bound {bound:.2e}), of LSE {lse_error:.2e} (bound 1e-3), {} rows",
        rows.count(problem)
    );
    error <= bound && lse_error <= 1e-3
}
