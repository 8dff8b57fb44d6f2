//! What is printed and written.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use schedule::Schedule;
use tilewright::policy::tune::{decide, source};
use tilewright::{Problem, Tilewright};

use crate::Fallible;
use crate::search::{Found, Kernel};

/// The most rows of a problem's table.
const ROWS: usize = 12;

/// A problem's kernels, the fastest first, with what was predicted of each.
pub fn table(problem: &Problem, kernels: &[Kernel]) -> String {
    let mut out = format!("\n{problem}\n");
    let width = kernels.iter().take(ROWS).map(|kernel| kernel.candidate.schedule.name.len()).max().unwrap_or(8);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "  {:<width$}  TFLOP/s  predicted  error  binds        max diff", "schedule");
    for kernel in kernels.iter().take(ROWS) {
        let (schedule, prediction) = (&kernel.candidate.schedule, &kernel.candidate.prediction);
        let tflops = problem.flops() / kernel.seconds() / 1e12;
        let predicted = prediction.tflops();
        let _ = writeln!(
            out,
            "  {:<width$}  {tflops:>7.1}  {predicted:>9.1}  {:>+4.0}%  {:<11}  {:.1e}{}",
            schedule.name,
            100.0 * (predicted / tflops - 1.0),
            prediction.binds,
            kernel.difference,
            if kernel.candidate.shipped { "" } else { "  new" }
        );
    }
    if kernels.len() > ROWS {
        let _ = writeln!(out, "  and {} slower", kernels.len() - ROWS);
    }
    out
}

/// Writes `tuned.toml`, and the winners that are not shipped as a file for templates/.
///
/// # Errors
/// A file that cannot be written.
pub fn write(engine: &Tilewright, found: &Found, out: &Path) -> Fallible {
    let device = engine.device();
    let tuning = decide(&found.figures, device.name(), device.sms());
    let winners: BTreeSet<&str> = tuning.preferences().iter().map(|preference| preference.schedule.as_str()).collect();
    let new: Vec<&Schedule> = winners
        .iter()
        .filter(|name| engine.registry().named(name).is_none())
        .filter_map(|name| found.schedules.get(*name))
        .collect();
    let write = |name: &str, text: String| {
        let path = out.join(name);
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        println!("wrote {}", path.display());
        Fallible::Ok(())
    };
    fs::create_dir_all(out).map_err(|error| format!("cannot make {}: {error}", out.display()))?;
    println!();
    write("tuned.toml", tuning.to_string())?;
    println!("\n{tuning}");
    if !new.is_empty() {
        write("tuned_schedules.rs", source(&new))?;
        println!(
            "{} of the winners are not in templates/: put tuned_schedules.rs there and into its catalog",
            new.len()
        );
    }
    Ok(())
}
