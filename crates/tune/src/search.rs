//! The search: for each problem the pruned candidates, then what is around the winner, within the time budget.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use schedule::Schedule;
use tilewright::cudarc::driver::{DeviceRepr, ValidAsZeroBits};
use tilewright::policy::tune::{Candidate, Class, Measured, around, candidates, prune, same};
use tilewright::{Entry, Half, PreparedPlan, Problem, Tilewright};

use crate::arguments::Arguments;
use crate::bench::{Bench, Sample, compare};
use crate::{Fallible, report};

/// Bursts of each kernel at least, and at most.
const ROUNDS: (usize, usize) = (3, 15);
/// A kernel slower than the best by more than this after the least rounds is measured no further.
const HOPELESS: f64 = 1.1;
/// The share of a problem's time that the pruned candidates get; what is around the winner gets the rest.
const FIRST: f64 = 0.6;

/// What was found.
pub struct Found {
    /// Every figure.
    pub figures: Vec<Measured>,
    /// The schedules that figures are of, by name.
    pub schedules: HashMap<String, Schedule>,
}

/// A kernel under measurement.
pub struct Kernel {
    /// What it is of.
    pub candidate: Candidate,
    /// The largest difference from the shipped kernel.
    pub difference: f64,
    /// Seconds of a launch, one a burst.
    pub times: Vec<f64>,
    prepared: PreparedPlan,
}

impl Kernel {
    /// Median seconds of a launch.
    pub fn seconds(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY)
    }
}

/// Searches for all problems.
///
/// # Errors
/// The driver's answer to what is no kernel's fault.
pub fn run<T>(engine: &Tilewright, problems: &[Problem], arguments: &Arguments) -> Fallible<Found>
where
    T: Half + DeviceRepr + ValidAsZeroBits,
{
    let end = Instant::now() + Duration::try_from_secs_f64(arguments.seconds).unwrap_or(Duration::MAX / 4);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(arguments.jobs.max(1)).build()?;
    let mut search = Search {
        engine,
        bench: Bench::<T>::new(engine, problems)?,
        pool,
        entries: HashMap::new(),
        refused: HashSet::new(),
        bar: bar(problems.len()),
    };
    let mut found = Found { figures: Vec::new(), schedules: HashMap::new() };
    for (index, problem) in problems.iter().enumerate() {
        let now = Instant::now();
        if now >= end {
            search.bar.println(format!("out of time: {} problems are left out", problems.len() - index));
            break;
        }
        search.bar.set_message(problem.to_string());
        let share = (end - now) / (problems.len() - index) as u32;
        let kernels = search.problem(problem, arguments.keep, now, share)?;
        search.bar.suspend(|| print!("{}", report::table(problem, &kernels)));
        for kernel in kernels {
            let Candidate { schedule, shipped, .. } = kernel.candidate.clone();
            let tflops = problem.flops() / kernel.seconds() / 1e12;
            found.figures.push(Measured { problem: *problem, schedule: schedule.name.clone(), shipped, tflops });
            found.schedules.insert(schedule.name.clone(), schedule);
        }
        search.bar.inc(1);
    }
    search.bar.finish_and_clear();
    Ok(found)
}

fn bar(length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>8} [{bar:24}] {pos}/{len} {elapsed} {wide_msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ");
    let bar = ProgressBar::new(length as u64).with_style(style).with_prefix("tuning");
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

struct Search<'a, T> {
    engine: &'a Tilewright,
    bench: Bench<T>,
    pool: rayon::ThreadPool,
    /// Every schedule that was tried, so that each is lowered and loaded once.
    entries: HashMap<String, Arc<Entry>>,
    /// Those that make no right kernel, which is told once.
    refused: HashSet<String>,
    bar: ProgressBar,
}

impl<T: Half + DeviceRepr + ValidAsZeroBits> Search<'_, T> {
    /// The kernels that were measured for a problem, the fastest first.
    fn problem(&mut self, problem: &Problem, keep: usize, start: Instant, share: Duration) -> Fallible<Vec<Kernel>> {
        let sms = self.engine.device().sms();
        let all = candidates(Class::of(problem));
        let entries = self.engine.registry().entries();
        let shipped: Vec<&Schedule> = entries.iter().map(|entry| entry.schedule()).collect();
        let plan = self.engine.warm_up(problem)?;
        let prepared = self.bench.prepare(&plan)?;
        let reference = self.bench.sample(problem, &prepared)?;

        let mut kernels = self.load(problem, prune(&shipped, &all, problem, sms, keep), &reference)?;
        self.measure(&mut kernels, start + share.mul_f64(FIRST))?;
        if let Some(best) = kernels.first().filter(|_| keep > 0 && start.elapsed() < share) {
            let near = around(&best.candidate.schedule, &all);
            let known = |new: &Schedule| kernels.iter().any(|old| same(&old.candidate.schedule, new));
            let more = near.into_iter().filter(|new| !known(new));
            let more = more.map(|new| Candidate::new(new, false, problem, sms)).collect();
            let mut second = self.load(problem, more, &reference)?;
            // The best so far are measured again beside the new ones.
            let rest = kernels.split_off(kernels.len().min(2));
            second.append(&mut kernels);
            self.measure(&mut second, start + share)?;
            kernels = second;
            kernels.extend(rest);
        }
        kernels.sort_by(|a, b| a.seconds().total_cmp(&b.seconds()));
        Ok(kernels)
    }

    /// Compiles side by side and checks one after another; what makes no right kernel is told and left out.
    fn load(&mut self, problem: &Problem, mut wanted: Vec<Candidate>, reference: &Sample<T>) -> Fallible<Vec<Kernel>> {
        wanted.retain(|candidate| !self.refused.contains(&candidate.schedule.name));
        for candidate in &wanted {
            let name = &candidate.schedule.name;
            if !self.entries.contains_key(name) {
                let shipped = self.engine.registry().named(name).filter(|_| candidate.shipped).cloned();
                let entry = shipped.unwrap_or_else(|| Arc::new(Entry::new(candidate.schedule.clone())));
                self.entries.insert(name.clone(), entry);
            }
        }
        let (engine, entries) = (self.engine, &self.entries);
        let plans: Vec<_> = self.pool.install(|| {
            let plan = |candidate: &Candidate| {
                let plan = engine.plan_with_entry(problem, &entries[&candidate.schedule.name])?;
                plan.warm_up().map(|_| plan)
            };
            wanted.par_iter().map(plan).collect()
        });
        let mut kernels = Vec::new();
        for (candidate, plan) in wanted.into_iter().zip(plans) {
            let checked = plan.map_err(|error| error.to_string()).and_then(|plan| {
                let prepared = self.bench.prepare(&plan).map_err(|error| error.to_string())?;
                let sample = self.bench.sample(problem, &prepared).map_err(|error| error.to_string())?;
                compare(&sample, reference).map(|difference| (prepared, difference))
            });
            match checked {
                Ok((prepared, difference)) => {
                    kernels.push(Kernel { candidate, difference, times: Vec::new(), prepared })
                }
                Err(why) => {
                    let first = why.lines().next().unwrap_or_default().to_owned();
                    self.bar.println(format!("left out: {}: {first}", candidate.schedule.name));
                    self.refused.insert(candidate.schedule.name);
                }
            }
        }
        Ok(kernels)
    }

    /// Bursts in turn until the deadline, three at least; the fastest first in the end.
    fn measure(&mut self, kernels: &mut [Kernel], deadline: Instant) -> Fallible {
        let (least, most) = ROUNDS;
        for round in 0..most {
            if round >= least && Instant::now() >= deadline {
                break;
            }
            let best = kernels.iter().map(Kernel::seconds).fold(f64::INFINITY, f64::min);
            for kernel in kernels.iter_mut() {
                if round < least || kernel.seconds() <= best * HOPELESS {
                    let guess = kernel.times.last().copied().unwrap_or(kernel.candidate.prediction.seconds);
                    kernel.times.push(self.bench.burst(&kernel.prepared, guess)?);
                }
            }
        }
        kernels.sort_by(|a, b| a.seconds().total_cmp(&b.seconds()));
        Ok(())
    }
}
