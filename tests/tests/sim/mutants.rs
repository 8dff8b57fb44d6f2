//! A fixed sample of mutants: nearly all are rejected, by the verifier or by the machine, and what is told to be
//! equivalent is. `cargo xtask mutate` tries the others.

use rayon::prelude::*;
use schedule::Variant;
use sim::mutate::{Mutant, mutants};
use sim::trial::{Trials, Verdict};

/// Kernels with every so many-th of their mutants.
const SAMPLE: [(&str, usize); 6] = [
    ("fwd_bf16_d64_causal", 3),
    ("fwd_bf16_d128", 5),
    ("fwd_across_bf16_d64_causal", 11),
    ("fwd_bf16_d64_shared_probabilities", 7),
    ("fwd_rows_e4m3_d64_causal", 13),
    ("fwd_linear_e4m3_d128", 11),
];

/// Seeds for every shape.
const SEEDS: u64 = 3;

fn trials(kernel: &str) -> (ptx::Module, Trials) {
    let schedule = templates::named(kernel).expect("it ships");
    let module = kernels::lower(&schedule).expect("it ships");
    let trials = Trials::of(&module, schedule.variant != Variant::Full).expect("a forward kernel");
    (module, trials)
}

fn told(kernel: &str, mutant: &Mutant) -> String {
    format!("{kernel}: line {}, {}: {:.80}", mutant.line, mutant.operator, mutant.was)
}

#[test]
fn mutants_do_not_survive() {
    let (mut tried, mut survivors) = (0, Vec::new());
    for (kernel, every) in SAMPLE {
        let (module, trials) = trials(kernel);
        assert_eq!(trials.false_alarm(SEEDS), None, "{kernel}: whatever is done to it would count as found");
        let sample: Vec<Mutant> = mutants(&module.kernel).into_iter().step_by(every).collect();
        let verdicts: Vec<Verdict> = sample.par_iter().map(|mutant| trials.judge(mutant, SEEDS)).collect();
        tried += verdicts.iter().filter(|v| !matches!(v, Verdict::Equivalent(_))).count();
        let alive = sample.iter().zip(&verdicts).filter(|(_, v)| **v == Verdict::Survives);
        survivors.extend(alive.map(|(mutant, _)| told(kernel, mutant)));
    }
    assert!(tried > 200 && survivors.len() * 20 <= tried, "{} of {tried}:\n{}", survivors.len(), survivors.join("\n"));
    println!("{} of {tried} mutants survive:\n{}", survivors.len(), survivors.join("\n"));
}

#[test]
fn the_machine_has_nothing_against_what_is_equivalent() {
    let (module, trials) = trials("fwd_bf16_d64_causal");
    let equal: Vec<Mutant> = mutants(&module.kernel).into_iter().filter(|m| m.equivalent.is_some()).collect();
    let faults: Vec<String> =
        equal.par_iter().filter_map(|m| Some(format!("{}: {}", told("", m), trials.machine(m, 2)?))).collect();
    assert!(equal.len() > 10 && faults.is_empty(), "of {}:\n{}", equal.len(), faults.join("\n"));
}
