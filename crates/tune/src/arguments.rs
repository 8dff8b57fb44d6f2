//! The command line.

use std::path::PathBuf;

use clap::Parser;
use tilewright::policy::tune::{described, grid};
use tilewright::{Element, Problem};

use crate::Fallible;

/// Find the fastest schedules for classes of problems on this machine's GPU.
#[derive(Parser)]
#[command(
    name = "tune",
    after_help = "\
Examples:
  tune                                            the FlashAttention-3 paper's grid: every head dimension, mask and length
  tune --head-dims 128 --masks causal             a part of it
  tune --head-dims 64 --lengths 512,2048 --seconds 60
  tune --keep 0 --seconds 90                      which of the shipped schedules is best where
  tune --problem 'batch=4 queries=2048 heads=32 kv_heads=8 head_dim=128 causal=true'

`python -m tilewright.tune` takes the same.

Writes OUT/tuned.toml, and OUT/tuned_schedules.rs with the winners that templates/ does not have: put the one's entries before
those of templates/tuned.toml (or give the file to Tilewright::with_tuning) and the other into templates/. From Python,
tilewright.use_tuning(\"OUT\") takes both as they are.
Exit codes: 0 done, 1 an error, 2 no GPU to run on."
)]
pub struct Arguments {
    /// A problem of your own instead of the grid; may be repeated
    #[arg(long = "problem", value_name = "WORDS")]
    problem: Vec<String>,
    /// Head dimensions of the grid
    #[arg(long, value_delimiter = ',', default_value = "64,128,256")]
    head_dims: Vec<u32>,
    /// Masks of the grid: full, causal
    #[arg(long, value_delimiter = ',', default_value = "full,causal", value_parser = ["full", "causal"])]
    masks: Vec<String>,
    /// Lengths of the grid
    #[arg(long, value_delimiter = ',', default_value = "512,1024,2048,4096,8192,16384")]
    lengths: Vec<u64>,
    /// Tokens of all batch entries of the grid
    #[arg(long, default_value_t = 16384)]
    tokens: u64,
    /// Heads times head dimension of the grid
    #[arg(long, default_value_t = 2048)]
    hidden: u64,
    /// Element type: bf16 or f16
    #[arg(long, default_value = "bf16", value_parser = ["bf16", "f16"])]
    element: String,
    /// Time budget in seconds, compiling included
    #[arg(long, default_value_t = 240.0)]
    pub seconds: f64,
    /// Schedules beside the shipped ones that are measured for each problem; 0 for the shipped ones alone
    #[arg(long, default_value_t = 12)]
    pub keep: usize,
    /// Threads that compile
    #[arg(long, default_value_t = 16)]
    pub jobs: usize,
    /// The number of the GPU
    #[arg(long, default_value_t = 0)]
    pub gpu: usize,
    /// The folder that is written to
    #[arg(long, default_value = "tuned")]
    pub out: PathBuf,
}

impl Arguments {
    /// The element type of all problems.
    pub fn element(&self) -> Element {
        if self.element == "f16" { Element::F16 } else { Element::Bf16 }
    }

    /// The problems that are meant.
    ///
    /// # Errors
    /// A problem that does not read, that has nothing to compute, or of another element type than `--element`.
    pub fn problems(&self) -> Fallible<Vec<Problem>> {
        let problems = if self.problem.is_empty() {
            let masks: Vec<bool> = self.masks.iter().map(|mask| mask == "causal").collect();
            grid(self.element(), &self.head_dims, &masks, &self.lengths, (self.tokens, self.hidden))?
        } else {
            self.problem.iter().map(|words| described(words)).collect::<Result<_, _>>()?
        };
        for problem in &problems {
            if problem.element() != self.element() {
                return Err(format!("{problem}: add --element {}", problem.element()).into());
            }
            if problem.is_empty() || problem.keys() == 0 {
                return Err(format!("{problem}: there is nothing to compute").into());
            }
        }
        Ok(problems)
    }
}
