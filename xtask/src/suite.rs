//! `test`: everything that needs no GPU, step after step, up to the first that fails.

use crate::cargo::cargo;
use crate::house::{Only, table};
use crate::wheel::{Environment, Profile};
use crate::{assemble, generate};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
#[command(after_help = "\
The steps, in order:
  cargo fmt --check          mend: cargo fmt
  cargo clippy               every warning is an error
  cargo test --workspace     the house rules, snapshots, broken and fixed twins, compile failures
  cargo xtask gen --check    mend: cargo xtask gen
  cargo xtask check          ptxas, fetched from PyPI where there is none
  the Python package         maturin, ruff and pytest, in an environment of their own under target/python/

Tests that need a GPU say that they did not run. On a machine with one: cargo xtask bundle.")]
pub struct Args {}

/// Tests counted in cargo's output.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Tests {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// A step: its title and what it does.
type Step = (&'static str, fn(&mut Tests) -> Result<()>);

const STEPS: [Step; 6] = [
    ("fmt", |_| plain(&["fmt", "--all", "--check"], "cargo fmt")),
    ("clippy", |_| {
        plain(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"], "see the warnings above")
    }),
    ("tests", tests),
    ("gen --check", |_| generate::run(&generate::Args { check: true, only: Only::default() })),
    ("check", |_| assemble::run(&assemble::Args::all())),
    ("python", python),
];

/// Runs the steps; the last line says how many tests passed and failed. A failed step that is no test counts as one failure.
pub fn run(_: &Args) -> Result<()> {
    let mut tests = Tests::default();
    let mut rows = Vec::new();
    let mut failure = None;
    for (title, step) in STEPS {
        let verdict = if failure.is_some() {
            ("not run", Duration::ZERO)
        } else {
            println!("== {title}");
            let start = Instant::now();
            failure = step(&mut tests).err().map(|error| error.context(format!("step {title}")));
            (if failure.is_some() { "failed" } else { "ok" }, start.elapsed())
        };
        rows.push(vec![title.to_owned(), verdict.0.to_owned(), format!("{:.1} s", verdict.1.as_secs_f64())]);
    }
    println!("\n{}", table(&["step", "", "time"], &rows));
    if let Some(error) = &failure {
        println!("error: {error:#}");
        tests.failed = tests.failed.max(1);
    }
    if tests.ignored > 0 {
        println!("{} tests ignored", tests.ignored);
    }
    println!("{} passed, {} failed", tests.passed, tests.failed);
    if failure.is_some() {
        // Not by returning the error: nothing may come after the last line.
        std::process::exit(1);
    }
    Ok(())
}

fn plain(args: &[&str], mend: &str) -> Result<()> {
    let status = cargo(args).status().context("cannot start cargo")?;
    if !status.success() {
        bail!("`cargo {}` fails; mend: {mend}", args.join(" "));
    }
    Ok(())
}

fn tests(counted: &mut Tests) -> Result<()> {
    let mut child = cargo(&["test", "--workspace", "--no-fail-fast"]).stdout(Stdio::piped()).spawn()?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            counted.add(&line);
        }
    }
    if !child.wait()?.success() {
        bail!("`cargo test --workspace` fails: {} tests failed", counted.failed);
    }
    Ok(())
}

/// The Python package, built as the tests are.
fn python(counted: &mut Tests) -> Result<()> {
    let environment = Environment::new()?;
    environment.lint()?;
    let (output, passed) = environment.test(&environment.build(Profile::Dev)?)?;
    print!("{output}");
    output.lines().for_each(|line| counted.add_pytest(line));
    ensure!(passed, "pytest fails in crates/python/tests");
    Ok(())
}

impl Tests {
    /// Adds the counts of pytest's last line, such as `1 failed, 46 passed, 2 skipped in 1.23s`.
    fn add_pytest(&mut self, line: &str) {
        let Some((counts, _)) = line.trim_matches(['=', ' ']).split_once(" in ") else { return };
        for part in counts.split(", ") {
            match part.split_once(' ').and_then(|(count, what)| Some((count.parse::<u64>().ok()?, what))) {
                Some((n, "passed")) => self.passed += n,
                Some((n, "failed" | "error" | "errors")) => self.failed += n,
                Some((n, "skipped")) => self.ignored += n,
                _ => {}
            }
        }
    }

    /// Adds the counts of a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line.trim().strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        for part in counts.split(';') {
            let mut words = part.split_whitespace();
            let (count, what) = (words.next().and_then(|n| n.parse::<u64>().ok()), words.next());
            match (count, what) {
                (Some(n), Some("passed")) => self.passed += n,
                (Some(n), Some("failed")) => self.failed += n,
                (Some(n), Some("ignored")) => self.ignored += n,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tests;

    #[test]
    fn result_lines_are_summed_and_others_are_not() {
        let mut counted = Tests::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 4 filtered out; finished in 1.20s",
            "99 passed, 98 failed",
        ] {
            counted.add(line);
        }
        assert_eq!(counted, Tests { passed: 13, failed: 2, ignored: 1 });
    }

    #[test]
    fn pytests_last_line_is_counted_and_others_are_not() {
        let mut counted = Tests::default();
        for line in [
            "............ [100%]",
            "FAILED tests/test_import.py::test_one - 3 passed in a message",
            "1 failed, 46 passed, 2 skipped in 1.23s",
            "==== 3 passed in 0.10s ====",
        ] {
            counted.add_pytest(line);
        }
        assert_eq!(counted, Tests { passed: 49, failed: 1, ignored: 2 });
    }
}
