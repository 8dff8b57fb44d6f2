//! `check`: ptxas judges every file of generated/. Knows nothing of schedules: it reads what is on disk.

mod cubin;
mod find;
mod report;

use crate::house::{Only, bar, generated, root, shown, table};
use anyhow::{Context, Result, bail, ensure};
use rayon::prelude::*;
use report::Report;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask check                            assemble all of generated/
  cargo xtask check --only 'fwd_*_d128*'       these kernels alone
  cargo xtask check --ptxas /opt/cuda/bin/ptxas

A kernel fails if ptxas refuses it, spills a register, uses local memory, serialises wgmma (C75xx), caps it (C76xx) or ignores setmaxnreg.
ptxas is taken from --ptxas, then $TILEWRIGHT_PTXAS, then PATH; where there is none it is fetched once from PyPI into target/ptxas/.")]
pub struct Args {
    #[command(flatten)]
    only: Only,
    /// The assembler to use
    #[arg(long, value_name = "PATH")]
    ptxas: Option<PathBuf>,
    /// Kernels assembled at a time
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
}

impl Args {
    /// All kernels, with the assembler that is found.
    pub fn all() -> Self {
        Self { only: Only::default(), ptxas: None, jobs: 2 }
    }
}

/// What became of one file.
struct Judged {
    name: String,
    report: Report,
    faults: Vec<String>,
    code_bytes: Option<u64>,
}

/// Assembles generated/.
pub fn run(args: &Args) -> Result<()> {
    let names = names(&generated())?;
    ensure!(!names.is_empty(), "generated/ holds no kernel; mend: cargo xtask gen");
    let meant = args.only.among(names.iter().map(String::as_str))?;
    let ptxas = find::ptxas(args.ptxas.as_deref())?;
    println!("{} ({})", ptxas.path.display(), ptxas.version);

    let start = Instant::now();
    let out = root().join("target/cubin");
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let progress = bar(meant.len(), "assembling");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.jobs.max(1)).build()?;
    let judged: Vec<Judged> = pool.install(|| {
        meant
            .par_iter()
            .map(|name| {
                let judged = judge(&ptxas.path, name, &out);
                progress.inc(1);
                judged
            })
            .collect::<Result<_>>()
    })?;
    progress.finish_and_clear();

    print!(
        "{}",
        table(&["kernel", "registers", "spills", "code", "ptxas"], &judged.iter().map(row).collect::<Vec<_>>())
    );
    let failed: Vec<&Judged> = judged.iter().filter(|kernel| !kernel.faults.is_empty()).collect();
    for kernel in &failed {
        println!("\n{}", shown(&generated().join(format!("{}.ptx", kernel.name))));
        for fault in &kernel.faults {
            println!("    {fault}");
        }
    }
    let took = start.elapsed().as_secs_f64();
    if failed.is_empty() {
        println!("{} kernels assemble without a spill or a warning, in {took:.1} s", judged.len());
        return Ok(());
    }
    bail!(
        "{} of {} kernels fail ptxas; change the schedule or its lowering, then: cargo xtask gen && cargo xtask check --only {}",
        failed.len(),
        judged.len(),
        failed[0].name
    );
}

/// The kernels of a folder, by name.
fn names(folder: &Path) -> Result<Vec<String>> {
    let files =
        fs::read_dir(folder).with_context(|| format!("cannot read {}; mend: cargo xtask gen", shown(folder)))?;
    let mut names = Vec::new();
    for file in files {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "ptx")
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn judge(ptxas: &Path, name: &str, out: &Path) -> Result<Judged> {
    let cubin = out.join(format!("{name}.cubin"));
    let output = Command::new(ptxas)
        .arg(format!("-arch={}", ptx::Module::TARGET))
        .arg("-v")
        .arg(generated().join(format!("{name}.ptx")))
        .arg("-o")
        .arg(&cubin)
        .output()
        .with_context(|| format!("cannot start {}", ptxas.display()))?;
    let log = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report = report::parse(&log);
    let faults = report.faults(output.status.code());
    let code_bytes =
        output.status.success().then(|| fs::read(&cubin).ok()).flatten().and_then(|b| cubin::code_bytes(&b));
    Ok(Judged { name: name.to_owned(), report, faults, code_bytes })
}

fn row(kernel: &Judged) -> Vec<String> {
    let or_dash = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
    let report = &kernel.report;
    vec![
        kernel.name.clone(),
        or_dash(report.registers.map(|count| count.to_string())),
        format!("{}", report.spill_stores + report.spill_loads),
        or_dash(kernel.code_bytes.map(|bytes| format!("{:.1} KiB", bytes as f64 / 1024.0))),
        or_dash(report.seconds.map(|seconds| format!("{seconds:.2} s"))),
    ]
}
