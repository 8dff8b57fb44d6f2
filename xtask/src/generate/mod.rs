//! `gen`: every kernel of templates/ becomes `generated/<name>.ptx`, and the manifest says what each holds. Of schedules
//! that share a kernel and are launched otherwise, the first stands for all.

mod kernel;
mod manifest;
mod tree;

use crate::house::{Only, generated};
use anyhow::{Result, bail};
use rayon::prelude::*;
use schedule::Schedule;
use std::time::Instant;

use kernel::{Generated, Source};
use tree::Wanted;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask gen                        write all of generated/, remove what no schedule stands for
  cargo xtask gen --only 'fwd_*_d128*'   write these kernels alone, leave the rest and its manifest entries
  cargo xtask gen --check                write nothing; fail if generated/ is not what the schedules say

A schedule that the lowering refuses or whose kernel breaks a rule of the verifier is reported whole, and nothing is written.
`cargo xtask explain CODE` says what a rule means.")]
pub struct Args {
    /// Compare instead of writing; name each file that differs, with its first differing line
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub only: Only,
}

/// So many differing files are shown with the line; of the rest only the name.
const DETAILED: usize = 8;

/// Writes or compares generated/.
pub fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    let kernels = generate(&args.only)?;
    let took = start.elapsed();

    let bytes: usize = kernels.iter().map(|kernel| kernel.text.len()).sum();
    let wanted = Wanted::new(&generated(), &args.only, &kernels)?;
    let changes = wanted.changes()?;
    let made = format!(
        "{} kernels, {:.1} KiB, generated in {:.2} s",
        kernels.len(),
        bytes as f64 / 1024.0,
        took.as_secs_f64()
    );
    if !args.check {
        let counts = wanted.apply(&changes)?;
        println!("{made}: {counts}");
        return Ok(());
    }
    if changes.is_empty() {
        println!("{made}: generated/ is what the schedules say");
        return Ok(());
    }
    for change in changes.iter().take(DETAILED) {
        println!("{change}");
    }
    for change in changes.iter().skip(DETAILED) {
        println!("{}", change.brief());
    }
    let mend = args.only.only.as_ref().map_or(String::new(), |pattern| format!(" --only '{pattern}'"));
    bail!("{} files of generated/ are not what the schedules say; mend: cargo xtask gen{mend}", changes.len());
}

/// The kernels that are meant, by name.
fn generate(only: &Only) -> Result<Vec<Generated>> {
    let quantizers = templates::quantizers().into_iter().map(Source::Quantizer);
    let attention = templates::all();
    let repeated = repeated(&attention);
    let mut schedules: Vec<Source> = attention.into_iter().map(Source::Attention).chain(quantizers).collect();
    schedules.sort_by(|a, b| a.name().cmp(b.name()));
    if let Some(pair) = schedules.windows(2).find(|pair| pair[0].name() == pair[1].name()) {
        bail!("two schedules of templates/ are called {}; rename one", pair[0].name());
    }
    only.among(schedules.iter().map(Source::name))?;
    schedules.retain(|schedule| only.means(schedule.name()));
    for (name, first) in repeated.iter().filter(|(name, _)| only.means(name)) {
        println!("{name} has no file: its kernel is that of {first}");
    }
    schedules.retain(|schedule| repeated.iter().all(|(name, _)| name != schedule.name()));

    let outcomes: Vec<_> = schedules.par_iter().map(Source::generate).collect();
    let (mut kernels, mut failures) = (Vec::new(), 0);
    for outcome in outcomes {
        match outcome {
            Ok(kernel) => kernels.push(kernel),
            Err(failure) => {
                failures += 1;
                eprintln!("{failure}");
            }
        }
    }
    if failures > 0 {
        bail!("{failures} of {} schedules became no kernel; nothing was written", schedules.len());
    }
    Ok(kernels)
}

/// Schedules whose kernel is that of one before them, each with that one's name.
fn repeated(schedules: &[Schedule]) -> Vec<(String, String)> {
    let first = |i: usize| schedules[..i].iter().find(|earlier| schedules[i].is_kernel_of(earlier));
    (0..schedules.len()).filter_map(|i| Some((schedules[i].name.clone(), first(i)?.name.clone()))).collect()
}
