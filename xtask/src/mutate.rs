//! `mutate`: spoils shipped kernels one instruction at a time, and counts what the verifier rejects, what the machine
//! does, and what neither does. Reads schedules, writes nothing.

use crate::house::{bar, table};
use crate::new::named;
use anyhow::{Result, ensure};
use rayon::prelude::*;
use schedule::{Schedule, Variant};
use sim::mutate::{Mutant, Operator, mutants};
use sim::trial::{Trials, Verdict};
use std::collections::BTreeMap;
use std::time::Instant;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo run --release -p xtask -- mutate                                 a sample of every kernel's, a minute or two
  cargo run --release -p xtask -- mutate fwd_bf16_d64_causal --every 1   all mutants of one kernel
  cargo run --release -p xtask -- mutate --every 1                       all mutants of all kernels

A mutant is rejected if the verifier refuses it or the machine finds something or wrong numbers on a small shape.
Equivalent ones compute the same, for the reason that is listed, and are no part of the share.")]
pub struct Args {
    /// A schedule's name; all that ship without it
    #[arg(value_name = "KERNEL")]
    kernel: Option<String>,
    /// Try every so many-th mutant
    #[arg(long, value_name = "N", default_value_t = 11)]
    every: usize,
    /// Seeds for every shape
    #[arg(long, value_name = "N", default_value_t = 3)]
    seeds: u64,
    /// List every mutant with what rejects it, not the survivors alone
    #[arg(long)]
    list: bool,
}

/// What is kept of a mutant.
struct Trial {
    kernel: String,
    operator: Operator,
    line: usize,
    was: String,
    verdict: Verdict,
}

/// Numbers of mutants by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counts {
    check: usize,
    machine: usize,
    equivalent: usize,
    neither: usize,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Check(_) => self.check += 1,
            Verdict::Machine(_) => self.machine += 1,
            Verdict::Equivalent(_) => self.equivalent += 1,
            _ => self.neither += 1,
        }
    }

    fn made(self) -> usize {
        self.check + self.machine + self.equivalent + self.neither
    }

    /// The share of those that are not equivalent; all of none.
    fn share(self) -> f64 {
        let rejected = self.check + self.machine;
        100.0 * rejected as f64 / (rejected + self.neither).max(1) as f64
    }

    fn row(self, name: String) -> Vec<String> {
        let numbers = [self.made(), self.check, self.machine, self.equivalent, self.neither];
        let share = format!("{:.1} %", self.share());
        std::iter::once(name).chain(numbers.map(|n| n.to_string())).chain([share]).collect()
    }
}

/// Makes mutants, tries them, and says how it went.
pub fn run(args: &Args) -> Result<()> {
    ensure!(args.every > 0 && args.seeds > 0, "--every and --seeds are at least 1");
    let all = templates::all();
    let chosen: Vec<&Schedule> = match &args.kernel {
        Some(name) => vec![named(&all, name)?],
        None => all.iter().collect(),
    };
    let start = Instant::now();
    let progress = bar(chosen.len(), "kernels");
    let (mut trials, mut alarms, mut seen) = (Vec::new(), Vec::new(), 0);
    for schedule in chosen {
        let module = kernels::lower(schedule)?;
        let trial = Trials::of(&module, schedule.variant != Variant::Full)?;
        // The count goes on from kernel to kernel, so that a sample has other lines of each.
        let made = mutants(&module.kernel).into_iter().filter(|_| {
            seen += 1;
            seen % args.every == 0
        });
        let sample: Vec<Mutant> = made.collect();
        progress.set_message(schedule.name.clone());
        progress.inc_length(sample.len() as u64);
        let (alarm, judged): (Option<String>, Vec<Trial>) = rayon::join(
            || trial.false_alarm(args.seeds),
            || {
                let judge = |mutant: Mutant| {
                    let verdict = trial.judge(&mutant, args.seeds);
                    progress.inc(1);
                    let Mutant { operator, line, was, .. } = mutant;
                    Trial { kernel: schedule.name.clone(), operator, line, was, verdict }
                };
                sample.into_par_iter().map(judge).collect()
            },
        );
        alarms.extend(alarm.map(|alarm| format!("{}: {alarm}", schedule.name)));
        trials.extend(judged);
        progress.inc(1);
    }
    progress.finish_and_clear();
    report(&trials, args.list);
    println!("{} false alarms, {:.0} s", alarms.len(), start.elapsed().as_secs_f64());
    ensure!(alarms.is_empty(), "the machine is against shipped kernels:\n{}", alarms.join("\n"));
    Ok(())
}

fn report(trials: &[Trial], list: bool) {
    let mut operators: BTreeMap<Operator, Counts> = BTreeMap::new();
    let (mut sum, mut reasons) = (Counts::default(), BTreeMap::<&str, usize>::new());
    for trial in trials {
        operators.entry(trial.operator).or_default().add(&trial.verdict);
        sum.add(&trial.verdict);
        let said = match &trial.verdict {
            Verdict::Check(rule) => format!("by rule {rule}"),
            Verdict::Machine(found) => found.lines().next().unwrap_or_default().to_owned(),
            Verdict::Equivalent(why) => {
                *reasons.entry(why).or_default() += 1;
                format!("equivalent: {why}")
            }
            _ => "survives".to_owned(),
        };
        if list || trial.verdict == Verdict::Survives {
            println!("{}: line {}, {}: `{:.80}`: {said}", trial.kernel, trial.line, trial.operator, trial.was);
        }
    }
    let mut rows: Vec<Vec<String>> = operators.into_iter().map(|(o, counts)| counts.row(o.to_string())).collect();
    rows.push(sum.row("all".to_owned()));
    print!("{}", table(&["operator", "made", "by check", "by sim", "equivalent", "survive", "rejected"], &rows));
    let reasons: Vec<Vec<String>> = reasons.into_iter().map(|(why, n)| vec![n.to_string(), why.to_owned()]).collect();
    if !reasons.is_empty() {
        print!("\n{}", table(&["equivalent", "because"], &reasons));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_mutants_are_no_part_of_the_share() {
        let mut counts = Counts::default();
        for verdict in
            [Verdict::Check("B01"), Verdict::Machine(String::new()), Verdict::Equivalent(""), Verdict::Survives]
        {
            counts.add(&verdict);
        }
        assert_eq!((counts.made(), counts.share().round()), (4, 67.0));
    }
}
