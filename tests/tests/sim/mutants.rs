//! A fixed sample of mutants of one kernel: nearly all are rejected, by the verifier or by the machine.
//!
//! `TILEWRIGHT_MUTANTS=1` tries every mutant, 2 every second one.

use crate::attention::Case;
use rayon::prelude::*;
use sim::forward::Problem;
use sim::mutate::{Mutant, Operator, mutants};
use sim::{Options, Policy};

const KERNEL: &str = "fwd_bf16_d64_causal";

/// Whether the machine finds something, or wrong numbers.
fn rejected(mutant: &Mutant, problems: &[Problem]) -> bool {
    let cases: Vec<Case> = problems.iter().map(|problem| Case::new(&mutant.kernel, problem)).collect();
    (0..6).any(|seed| {
        let policy = if seed % 2 == 0 { Policy::Random } else { Policy::Late };
        let options = Options { policy, shrink: 0, limit: 2_000_000, ..Options::seeded(seed) };
        cases.iter().any(|case| match case.run(&mutant.kernel, &options) {
            Ok(outputs) => case.wrong(&outputs).is_some(),
            Err(_) => true,
        })
    })
}

#[test]
fn mutants_do_not_survive() {
    let schedule = templates::named(KERNEL).expect("it ships");
    let module = kernels::lower(&schedule).expect("it ships");
    let base = Problem { causal: true, kv_heads: 2, ctas: 1, ..Problem::new(4, 155, 300) };
    // Rings that go round; tiles that see nothing; a diagonal through every column.
    let square = Problem { heads: 2, queries: 256, keys: 256, ..base };
    let problems = [base, Problem { queries: 400, keys: 60, ..base }, square];
    let all = mutants(&module.kernel);
    let step: usize = std::env::var("TILEWRIGHT_MUTANTS").ok().and_then(|n| n.parse().ok()).unwrap_or(11);
    let sample: Vec<&Mutant> = all.iter().step_by(step.max(1)).collect();
    let survivors: Vec<&&Mutant> = sample
        .par_iter()
        .filter(|mutant| {
            let judged = ptx::Module { kernel: mutant.kernel.clone(), ..module.clone() };
            check::verify(judged).is_ok() && !rejected(mutant, &problems)
        })
        .collect();
    let lines: Vec<String> = survivors.iter().map(|m| format!("{}: {} `{:.80}`", m.operator, m.line, m.was)).collect();
    // What moves an edge without consequence, or comes before an instruction that it need not follow, is no fault.
    let told = |m: &&&&Mutant| !matches!(m.operator, Operator::Edge | Operator::Earlier);
    let faults = survivors.iter().filter(told).count();
    assert!(faults * 20 <= sample.len(), "{faults} of {} mutants survive:\n{}", sample.len(), lines.join("\n"));
    println!("{} of {} mutants survive:\n{}", survivors.len(), sample.len(), lines.join("\n"));
}
