//! Tuning on a GPU: enumerates, prunes, compiles, checks and measures schedules for classes of problems, and writes
//! `tuned.toml`.
//!
//! `cargo xtask tune` builds and runs the program `tune`, or packs it for a machine without Rust; `python -m tilewright.tune`
//! is the same from Python. What needs no GPU is `tilewright::policy::tune`.

mod arguments;
mod bench;
mod report;
mod search;

use std::error::Error;
use std::ffi::OsString;

use clap::Parser;
use tilewright::half::{bf16, f16};
use tilewright::{Element, Tilewright};

use arguments::Arguments;

/// Whatever can go wrong, in words.
type Fallible<T = ()> = Result<T, Box<dyn Error>>;

/// Done.
pub const DONE: u8 = 0;
/// Wrong arguments, or an error that was told.
pub const FAILED: u8 = 1;
/// There is no GPU to run on.
pub const NOT_RUN: u8 = 2;

/// Does what a command line asks, without the program's name, and gives its exit code: [`DONE`], [`FAILED`] or [`NOT_RUN`].
pub fn run(words: impl IntoIterator<Item = OsString>) -> u8 {
    // Clap would exit with 2, which says here that there is no GPU.
    let words = std::iter::once(OsString::from("tune")).chain(words);
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(told) => {
            let _ = told.print();
            return if told.use_stderr() { FAILED } else { DONE };
        }
    };
    let engine = match Tilewright::open(arguments.gpu) {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("not run: {error}");
            return NOT_RUN;
        }
    };
    match tune(&arguments, &engine) {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("error: {error}");
            FAILED
        }
    }
}

fn tune(arguments: &Arguments, engine: &Tilewright) -> Fallible {
    let problems = arguments.problems()?;
    println!("{}, {} problems, {:.0} s", engine.device(), problems.len(), arguments.seconds);
    let found = match arguments.element() {
        Element::F16 => search::run::<f16>(engine, &problems, arguments)?,
        _ => search::run::<bf16>(engine, &problems, arguments)?,
    };
    report::write(engine, &found, &arguments.out)
}
