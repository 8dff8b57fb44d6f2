//! `sim`: runs a forward kernel on the machine in software, compares its numbers with double precision, and draws a
//! timeline. Reads schedules, writes nothing but the timeline.

use crate::house::table;
use crate::new::named;
use anyhow::{Context, Result, bail, ensure};
use ptx::Proven;
use schedule::Variant;
use sim::forward::{Forward, Inputs, Problem};
use sim::{Machine, Options, Policy};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask sim fwd_bf16_d128                                  two heads of 256 x 256, one seed
  cargo xtask sim fwd_bf16_d128 --shape 1x8/2x130x300 --seeds 20 batch, heads/KV heads, queries, keys
  cargo xtask sim fwd_bf16_d128 --policy late --seed 7           copies and products end as late as they can
  cargo xtask sim fwd_bf16_d128 --trace out.json                 a timeline for https://ui.perfetto.dev")]
pub struct Args {
    /// A schedule's name
    #[arg(value_name = "KERNEL")]
    kernel: String,
    /// Batch x heads[/KV heads] x queries x keys
    #[arg(long, default_value = "1x2x256x256")]
    shape: Shape,
    /// CTAs of the launch
    #[arg(long, default_value_t = 3)]
    ctas: u32,
    /// Shares of each query tile's keys, for a kernel that splits them
    #[arg(long, default_value_t = 1)]
    shares: u32,
    /// The first seed; everything that the memory model leaves open follows from it
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds, one after the other
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// How operations are timed and warps interleaved
    #[arg(long, value_enum, default_value_t = Timing::Random)]
    policy: Timing,
    /// Where to write a timeline of the first seed
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Timing {
    /// Warps in turn, everything complete when issued
    Orderly,
    /// Everything complete when issued, warps at random
    Early,
    /// Everything complete as late as possible, warps at random
    Late,
    /// Everything at random
    Random,
}

/// A shape on the command line.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shape {
    batch: u32,
    heads: u32,
    kv_heads: u32,
    queries: u32,
    keys: u32,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Shape, String> {
        let number = |word: &str| word.parse::<u32>().map_err(|_| format!("`{word}` is no number"));
        let [batch, heads, queries, keys] = text.split('x').collect::<Vec<_>>()[..] else {
            return Err("say batch x heads x queries x keys, such as 1x8/2x130x300".to_owned());
        };
        let (heads, kv_heads) = heads.split_once('/').unwrap_or((heads, heads));
        let (batch, heads, kv_heads) = (number(batch)?, number(heads)?, number(kv_heads)?);
        Ok(Shape { batch, heads, kv_heads, queries: number(queries)?, keys: number(keys)? })
    }
}

/// Runs the kernel and says how it went.
pub fn run(args: &Args) -> Result<()> {
    let all = templates::all();
    let schedule = named(&all, &args.kernel)?;
    let module = kernels::lower(schedule)?;
    let verified = check::verify(module).map_err(|findings| {
        let lines: Vec<String> = findings.iter().map(|finding| format!("\n{finding}")).collect();
        anyhow::anyhow!("the verifier refuses it:{}", lines.concat())
    })?;
    let kernel = &verified.module().kernel;
    let forward = Forward::of(kernel)?;
    let Shape { batch, heads, kv_heads, queries, keys } = args.shape;
    let causal = schedule.variant != Variant::Full;
    let problem =
        Problem { batch, heads, kv_heads, queries, keys, causal, scale: None, ctas: args.ctas, shares: args.shares };
    let inputs = Inputs::noise(forward, &problem, 1);
    let launch = forward.launch(kernel, &problem, &inputs)?;
    let right = forward.reference(&problem, &inputs);
    let policy = match args.policy {
        Timing::Orderly => Policy::Orderly,
        Timing::Early => Policy::Early,
        Timing::Late => Policy::Late,
        Timing::Random => Policy::Random,
    };
    let (mut rows, mut off) = (Vec::new(), false);
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        let trace = args.trace.as_ref().filter(|_| seed == args.seed);
        let options = Options { policy, trace: trace.is_some(), ..Options::seeded(seed) };
        let start = Instant::now();
        let report = match Machine::run(&verified, &launch, &options) {
            Ok(report) => report,
            Err(failure) => bail!("{failure}"),
        };
        let time = start.elapsed();
        if let Some(path) = trace {
            std::fs::write(path, report.trace.to_json()).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let outputs = forward.outputs(&report).context("the kernel has no output")?;
        let (found, bound) = (forward.difference(&problem, &outputs, &right), forward.tolerance());
        let wrong = found.o > bound.o || found.lse > bound.lse;
        off |= wrong;
        rows.push(vec![
            seed.to_string(),
            if wrong { "wrong" } else { "right" }.to_owned(),
            format!("{:.1e}", found.o),
            format!("{:.1e}", found.lse),
            report.instructions.to_string(),
            format!("{:.2} s", time.as_secs_f64()),
        ]);
    }
    print!("{}", table(&["seed", "numbers", "O off by", "LSE off by", "warp instructions", "time"], &rows));
    if let Some(path) = &args.trace {
        println!("timeline: {}, for https://ui.perfetto.dev", path.display());
    }
    ensure!(!off, "{} gives wrong numbers", args.kernel);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn shapes_are_read() {
        let shape = Shape { batch: 1, heads: 8, kv_heads: 2, queries: 130, keys: 300 };
        assert_eq!("1x8/2x130x300".parse(), Ok(shape));
        assert_eq!("1x8x130x300".parse(), Ok(Shape { kv_heads: 8, ..shape }));
        assert!("8x130x300".parse::<Shape>().is_err() && "1xax3x4".parse::<Shape>().is_err());
    }
}
