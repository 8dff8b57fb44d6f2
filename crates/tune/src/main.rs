//! The tuner as a program.

use std::process::ExitCode;

fn main() -> ExitCode {
    tune::run(std::env::args_os().skip(1)).into()
}
