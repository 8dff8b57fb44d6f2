//! `bench`: the results of `python -m tilewright.bench` as a table and a chart. Measures nothing itself.

mod chart;
mod data;
mod fp8;
mod table;

use crate::house::{root, shown};
use anyhow::{Context, Result, ensure};
use data::Results;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "\
The results are written on a GPU machine, from the wheel that `cargo xtask bundle` packs:
  python -m tilewright.bench --full --revision $(git rev-parse --short HEAD) --json h200.json
Then here:
  cargo xtask bench h200.json     prints the table; writes h200.json, .md and .svg to tests/bench/results/")]
pub struct Args {
    /// Results of a run, as its --json wrote them
    file: PathBuf,
    /// Where the table and the chart go
    #[arg(long, value_name = "FOLDER", default_value = "tests/bench/results")]
    out: PathBuf,
}

/// Reads, prints and draws.
pub fn run(args: &Args) -> Result<()> {
    let text = fs::read_to_string(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    let results: Results =
        serde_json::from_str(&text).with_context(|| format!("{} holds no results", args.file.display()))?;
    ensure!(!results.forward.is_empty(), "{} has no cell of the forward pass to draw", args.file.display());
    let stem = args.file.file_stem().and_then(|stem| stem.to_str()).context("the file has no name")?;
    let folder = root().join(&args.out);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", shown(&folder)))?;

    let table = table::markdown(&results);
    print!("{table}");
    write(&folder.join(format!("{stem}.json")), &text)?;
    write(&folder.join(format!("{stem}.md")), &table)?;
    write(&folder.join(format!("{stem}.svg")), &chart::svg(&results)?)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", shown(path)))?;
    println!("wrote {}", shown(path));
    Ok(())
}
