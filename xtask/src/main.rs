//! Tasks of the house: `cargo xtask <task>`. Each task is one module; this file reads the command line and nothing else.

mod assemble;
mod bench;
mod bundle;
mod cargo;
mod explain;
mod generate;
mod house;
mod mutate;
mod new;
mod sim;
mod suite;
mod tune;
mod wheel;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Tasks of the house. The first two to know: `gen` writes the kernels, `test` judges everything that needs no GPU.",
    after_help = "\
A schedule's way to a GPU:
  cargo xtask new my_fwd --from fwd_bf16_d128   start templates/my_fwd.rs from a shipped schedule
  cargo xtask explain my_fwd                    what it needs, what it costs, what is impossible about it
  cargo xtask gen --only my_fwd                 write generated/my_fwd.ptx and its line of the manifest
  cargo xtask check --only my_fwd               let ptxas judge it: registers, spills, serialised wgmma
  cargo xtask bundle                            pack the GPU tests and examples for a machine without Rust"
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write generated/: every schedule of templates/ lowered, verified and printed
    Gen(generate::Args),
    /// Assemble generated/ with ptxas: no spill, no warning about wgmma or setmaxnreg
    Check(assemble::Args),
    /// Start a schedule of your own from a shipped one
    New(new::Args),
    /// Say what a schedule needs and costs, or what a rule of the verifier means
    Explain(explain::Args),
    /// Run a kernel on the machine in software: findings, numbers, a timeline
    Sim(sim::Args),
    /// Spoil kernels one instruction at a time: what the verifier and the machine reject, and what neither does
    Mutate(mutate::Args),
    /// Draw the results of `python -m tilewright.bench`: a table and a chart
    Bench(bench::Args),
    /// Find the fastest schedules on a GPU, or pack the tuner for a machine with one
    Tune(tune::Args),
    /// Pack the GPU tests, the examples and the Python package into target/bundle/ for a machine without Rust
    Bundle(bundle::Args),
    /// Run everything that needs no GPU: formatting, clippy, tests, gen --check, check, the Python package
    Test(suite::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Gen(args) => generate::run(&args),
        Task::Check(args) => assemble::run(&args),
        Task::New(args) => new::run(&args),
        Task::Explain(args) => explain::run(&args),
        Task::Sim(args) => sim::run(&args),
        Task::Mutate(args) => mutate::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Tune(args) => tune::run(&args),
        Task::Bundle(args) => bundle::run(&args),
        Task::Test(args) => suite::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
