//! `tune`: finds the fastest schedules on a GPU. The work is that of the crate `tilewright-tune`; this builds it, and
//! runs it where there is a GPU, or packs it for a machine without Rust.

use crate::cargo::build;
use crate::house::{root, shown};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The program's name.
const NAME: &str = "tune";

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask tune                                                the FlashAttention-3 paper's grid
  cargo xtask tune -- --head-dims 128 --masks causal --seconds 60 a part of it
  cargo xtask tune -- --problem 'batch=4 queries=2048 heads=32 kv_heads=8 head_dim=128 causal=true'
  cargo xtask tune -- --help                                      all options

Writes tuned/tuned.toml and, where winners are not in templates/, tuned/tuned_schedules.rs. Entries go before those of
templates/tuned.toml, schedules into templates/ and its catalog; then: cargo xtask gen.
Without a GPU here, it is packed into target/bundle/ to be copied to a machine that has one.")]
pub struct Args {
    /// Options of the tuner
    #[arg(value_name = "OPTION", last = true)]
    options: Vec<OsString>,
}

/// Builds, and runs or packs.
pub fn run(args: &Args) -> Result<()> {
    let built = build(&["build", "--release", "--package", "tilewright-tune", "--bin", NAME])?;
    let tune = built.into_iter().find(|built| built.name == NAME).context("cargo built no tuner")?.path;
    if !has_gpu() {
        let folder = root().join("target/bundle");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", shown(&folder)))?;
        let to = folder.join(NAME);
        fs::copy(&tune, &to).with_context(|| format!("cannot copy the tuner to {}", shown(&to)))?;
        let stripped = Command::new("strip").arg(&to).status().context("cannot start strip; install binutils")?;
        if !stripped.success() {
            bail!("strip fails on {}", shown(&to));
        }
        let options: String = args.options.iter().map(|option| format!(" '{}'", option.to_string_lossy())).collect();
        println!("no GPU here; copy {} to a machine with one and run: ./{NAME}{options}", shown(&to));
        return Ok(());
    }
    let status = Command::new(&tune).args(&args.options).current_dir(root()).status();
    let status = status.with_context(|| format!("cannot start {}", tune.display()))?;
    if !status.success() {
        bail!("the tuner fails; its messages are above");
    }
    Ok(())
}

/// Whether the NVIDIA driver shows a GPU, without asking it.
fn has_gpu() -> bool {
    ["/dev/nvidia0", "/dev/dxg"].iter().any(|device| Path::new(device).exists())
}
