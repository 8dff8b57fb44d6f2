//! Tuning on a GPU: enumerates, prunes, compiles, checks and measures schedules for classes of problems, and writes
//! `tuned.toml`.
//!
//! `cargo xtask tune` builds and runs this, or packs it for a machine without Rust. What needs no GPU is
//! `tilewright::policy::tune`.
//!
//! Exit codes: 0 done, 1 wrong arguments or an error, 2 no GPU to run on.

mod arguments;
mod bench;
mod report;
mod search;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use tilewright::half::{bf16, f16};
use tilewright::{Element, Tilewright};

use arguments::Arguments;

/// Whatever can go wrong, in words.
type Fallible<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    // Clap would exit with 2, which says here that there is no GPU.
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(told) => {
            let _ = told.print();
            return ExitCode::from(u8::from(told.use_stderr()));
        }
    };
    let engine = match Tilewright::open(arguments.gpu) {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("not run: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments, &engine) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

fn run(arguments: &Arguments, engine: &Tilewright) -> Fallible {
    let problems = arguments.problems()?;
    println!("{}, {} problems, {:.0} s", engine.device(), problems.len(), arguments.seconds);
    let found = match arguments.element() {
        Element::F16 => search::run::<f16>(engine, &problems, arguments)?,
        _ => search::run::<bf16>(engine, &problems, arguments)?,
    };
    report::write(engine, &found, &arguments.out)
}
