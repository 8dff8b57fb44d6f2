//! How long generating and loading take. Loading is measured in child processes, since the driver keeps what it compiled.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use tilewright::{Entry, Plan, Problem, Tilewright};
use tilewright_tests::gpu::eight::problem_of;
use tilewright_tests::gpu::suite::{Case, cpu, gpu};

pub fn cases() -> Vec<Case> {
    vec![cpu("time_of_generating", generating), gpu("time_of_loading", |_| loading())]
}

/// Says that this process is to load every kernel and tell the times.
const CHILD: &str = "TILEWRIGHT_LOAD_TIMES";
/// Starts each line of a child's table.
const MARK: &str = "loaded";

/// Whether this process is a child.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// The shipped schedules, each of which a problem can ask for.
fn launched() -> Vec<schedule::Schedule> {
    templates::all()
}

/// Lowers, proves and prints every one of them.
fn generating() {
    let start = Instant::now();
    let mut bytes = 0;
    let schedules = launched();
    for schedule in &schedules {
        let entry = Entry::new(schedule.clone());
        bytes += entry.lowered().expect("every shipped schedule lowers").text().len();
    }
    let (took, count) = (start.elapsed(), schedules.len());
    print!("[{count} kernels, {:.1} MiB, {took:.2?} on one thread] ", bytes as f64 / f64::from(1 << 20));
}

/// Loads every shipped schedule and prints its name, nanoseconds, registers and what the compiler noted.
pub fn child() -> ExitCode {
    let engine = match Tilewright::open(0) {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut code = ExitCode::SUCCESS;
    for schedule in launched() {
        let (dims, causal) = (schedule.head_dim, schedule.variant == schedule::Variant::Causal);
        let problem = match schedule.fp8 {
            Some(_) => problem_of(&schedule),
            None => Problem::builder().element(schedule.element).head_dims(dims.qk, dims.v).causal(causal),
        };
        let problem = problem.queries(256).heads(1).build().expect("a plain problem");
        let plan = Plan::with_schedule(&engine, &problem, &schedule).expect("a shipped schedule lowers");
        match plan.warm_up() {
            Ok(report) => println!("{MARK} {} {} {}", report.kernel, report.duration.as_nanos(), report.registers),
            Err(error) => {
                eprintln!("{error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

/// Each kernel's load in a new process with that compute cache: time and registers.
fn loads(cache: &Path) -> BTreeMap<String, (Duration, u32)> {
    let this = std::env::current_exe().expect("this executable has a path");
    let output = Command::new(this)
        .env(CHILD, "1")
        .env("CUDA_CACHE_PATH", cache)
        .env("CUDA_CACHE_DISABLE", "0")
        .env("CUDA_CACHE_MAXSIZE", (1_u64 << 30).to_string())
        .output()
        .expect("this executable starts again");
    assert!(output.status.success(), "loading fails: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix(MARK)?.split_whitespace();
        let (name, nanos, registers) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some((name.to_owned(), (Duration::from_nanos(nanos), registers)))
    });
    rows.collect()
}

/// Cold with an empty cache, then from it.
fn loading() {
    let cache = std::env::temp_dir().join(format!("tilewright-cache-{}", std::process::id()));
    std::fs::create_dir_all(&cache).expect("a folder for the compute cache");
    let (cold, cached) = (loads(&cache), loads(&cache));
    // A leftover folder harms nobody.
    let _ = std::fs::remove_dir_all(&cache);
    println!("\n  {:<40} {:>9} {:>9} {:>9}", "kernel", "cold ms", "cached ms", "registers");
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    for schedule in launched() {
        let name = &schedule.name;
        let (Some((first, registers)), Some((second, _))) = (cold.get(name), cached.get(name)) else {
            panic!("{name} was not measured");
        };
        println!("  {name:<40} {:>9.1} {:>9.2} {registers:>9}", ms(*first), ms(*second));
    }
    let most = |loads: &BTreeMap<String, (Duration, u32)>| loads.values().map(|(time, _)| *time).max();
    print!(
        "  longest: cold {:.1?}, cached {:.2?} ",
        most(&cold).unwrap_or_default(),
        most(&cached).unwrap_or_default()
    );
}
