//! `bundle`: what runs on a GPU, built here and packed for a machine that has a driver and no Rust.

use crate::cargo::{Executable, build};
use crate::house::{root, shown};
use crate::wheel::{Environment, Profile};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

#[derive(clap::Args)]
#[command(after_help = "\
Packs into target/bundle/, stripped, in the release profile:
  - the integration tests of tests/ whose names start with gpu_
  - the binaries and examples of tests/, of the tilewright crate and of the tuner
  - run.sh, which runs them all, each for at most ten minutes, and sums up
  - the Python package as a wheel, its GPU tests in python/, and python.sh, which installs the one and runs the other

Example:
  cargo xtask bundle
  rsync -r target/bundle/ gpu-machine:bundle/ && ssh gpu-machine bundle/run.sh

Both machines must be of one architecture, and the other's C library no older than this one's.")]
pub struct Args {}

/// The most that a bundle may hold.
const LIMIT: u64 = 64 << 20;

const RUN: &str = include_str!("run.sh");
const PYTHON: &str = include_str!("python.sh");

/// Builds and packs.
pub fn run(_: &Args) -> Result<()> {
    let packages = ["tilewright-tests", "tilewright", "tilewright-tune"].map(|package| ["--package", package]).concat();
    let targets = ["--test", "gpu_*", "--bins", "--examples"];
    let mut built = build(&[&["build", "--release"], &packages[..], &targets[..]].concat())?;
    built.sort_by(|a, b| a.name.cmp(&b.name));

    let folder = root().join("target/bundle");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", shown(&folder)))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", shown(&folder)))?;
    let bytes = pack(&built, &folder)? + python(&folder)?;
    println!("{}: {} executables, {:.1} MiB; on the GPU machine: ./run.sh", shown(&folder), built.len(), mib(bytes));
    if bytes > LIMIT {
        bail!("{:.1} MiB are more than the {:.0} MiB that a bundle may hold", mib(bytes), mib(LIMIT));
    }
    Ok(())
}

/// Copies and strips the executables and writes `run.sh`; gives the bytes of the folder.
fn pack(built: &[Executable], folder: &Path) -> Result<u64> {
    let mut names = BTreeSet::new();
    let mut bytes = 0;
    for executable in built {
        let to = folder.join(&executable.name);
        ensure!(names.insert(&executable.name), "two executables are called {}; rename one", executable.name);
        fs::copy(&executable.path, &to).with_context(|| format!("cannot copy {}", executable.path.display()))?;
        let stripped = Command::new("strip").arg(&to).status();
        let stripped = stripped.context("cannot start strip; install binutils")?;
        ensure!(stripped.success(), "strip fails on {}", shown(&to));
        let size = fs::metadata(&to)?.len();
        println!("  {:<40} {:>6.1} MiB", executable.name, mib(size));
        bytes += size;
    }
    // Tuning is no test: it is there to be asked for.
    let list: String = names.iter().filter(|name| **name != "tune").map(|name| format!("{name}\n")).collect();
    fs::write(folder.join("LIST"), list)?;
    let script = folder.join("run.sh");
    fs::write(&script, RUN)?;
    executable(&script)?;
    Ok(bytes)
}

/// Adds the Python package and its GPU tests; gives the wheel's bytes.
fn python(folder: &Path) -> Result<u64> {
    let wheel = Environment::new()?.build(Profile::Release)?;
    let name = wheel.file_name().context("a wheel has a name")?;
    let bytes = fs::copy(&wheel, folder.join(name)).context("cannot copy the wheel")?;
    let (from, to) = (root().join("tests/gpu/python"), folder.join("python"));
    fs::create_dir_all(&to)?;
    for entry in fs::read_dir(&from).with_context(|| format!("cannot read {}", shown(&from)))? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.extension().is_some_and(|extension| extension == "py"), path.file_name()) {
            fs::copy(&path, to.join(name)).with_context(|| format!("cannot copy {}", shown(&path)))?;
        }
    }
    let script = folder.join("python.sh");
    fs::write(&script, PYTHON)?;
    executable(&script)?;
    Ok(bytes)
}

#[cfg(unix)]
fn executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

#[cfg(not(unix))]
fn executable(_: &Path) -> Result<()> {
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
