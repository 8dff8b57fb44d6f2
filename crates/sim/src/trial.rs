//! The trial of a mutant: the verifier first, then the machine on small shapes, whose numbers must be those of double
//! precision. Shapes and seeds are fixed, so that a trial has one outcome.

use ptx::{Inst, Kernel, Line, Module, Operand};

use crate::adversary::Policy;
use crate::forward::{Forward, Inputs, Outputs, Problem};
use crate::launch::{Launch, Unrunnable};
use crate::machine::{Machine, Options};
use crate::mutate::{Mutant, Operator};

/// Instructions, each of a warp, after which a CTA of a mutant is taken to have no end.
const LIMIT: u64 = 2_000_000;

/// How a trial ends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The verifier refuses the mutant, by this rule first.
    Check(&'static str),
    /// The machine finds something, or wrong numbers.
    Machine(String),
    /// Neither does, and it computes the same for a reason that can be told.
    Equivalent(&'static str),
    /// Neither does.
    Survives,
}

/// A problem with its launch and its right answer.
#[derive(Debug, Clone)]
struct Case {
    problem: Problem,
    launch: Launch,
    right: Outputs,
}

/// The problems on which the mutants of one kernel are tried.
#[derive(Debug, Clone)]
pub struct Trials {
    module: Module,
    forward: Forward,
    causal: bool,
    cases: Vec<Case>,
}

impl Trials {
    /// Of a kernel that the verifier passes; whether it masks what lies above the diagonal.
    ///
    /// # Errors
    /// What of the contract of a forward kernel it lacks.
    pub fn of(module: &Module, causal: bool) -> Result<Trials, Unrunnable> {
        let forward = Forward::of(&module.kernel)?;
        let mut trials = Trials { module: module.clone(), forward, causal, cases: Vec::new() };
        let shares = if module.kernel.param("shares").is_some() { 2 } else { 1 };
        let base = Problem { causal, kv_heads: 2, ctas: 1, shares, ..Problem::new(4, 155, 300) };
        let problems = [
            // Rings that go round, in one CTA; the last row of a tile is in the upper half of a fragment.
            base,
            // Under a causal mask tiles that see nothing; the last row is in the lower half.
            Problem { queries: 400, keys: 60, ..base },
            // A diagonal through every column.
            Problem { heads: 2, queries: 256, keys: 256, ..base },
            // The same for the upper half of every fragment.
            Problem { heads: 2, queries: 248, keys: 256, ..base },
            // Under a causal mask some rows of a tile see all of its last but one block, some nothing of it.
            Problem { heads: 2, queries: forward.rows, keys: 2 * forward.columns + 17, ..base },
            // Two CTAs with several tiles each, and batch entries.
            Problem { batch: 2, heads: 2, kv_heads: 1, queries: 70, keys: 333, ctas: 2, ..base },
            // No keys at all.
            Problem { heads: 2, queries: 65, keys: 0, ..base },
        ];
        trials.cases = problems.iter().map(|p| trials.case(&module.kernel, p)).collect::<Result<_, _>>()?;
        if !forward.bounds_hold_of_few_keys() {
            return Ok(trials);
        }
        // Exponentials that overflow in the last of several blocks.
        let (rows, columns) = (forward.rows, forward.columns);
        let overflowing = Problem { heads: 3, kv_heads: 1, queries: rows + 5, keys: rows + 3 * columns, ..base };
        let wild = Inputs::wild(forward, &overflowing, 1);
        trials.cases.push(trials.case_of(&module.kernel, &overflowing, &wild)?);
        Ok(trials)
    }

    fn case(&self, kernel: &Kernel, problem: &Problem) -> Result<Case, Unrunnable> {
        self.case_of(kernel, problem, &Inputs::noise(self.forward, problem, 1))
    }

    fn case_of(&self, kernel: &Kernel, problem: &Problem, inputs: &Inputs) -> Result<Case, Unrunnable> {
        let launch = self.forward.launch(kernel, problem, inputs)?;
        Ok(Case { problem: *problem, launch, right: self.forward.reference(problem, inputs) })
    }

    /// What the machine finds, with the shape and the seed.
    fn found(&self, kernel: &Kernel, case: &Case, seed: u64) -> Option<String> {
        let policy = [Policy::Random, Policy::Late, Policy::Early][seed as usize % 3];
        let options = Options { policy, shrink: 0, limit: LIMIT, ..Options::seeded(seed) };
        let what = match Machine::run_kernel(kernel, &case.launch, &options) {
            Ok(report) => {
                let outputs = self.forward.outputs(&report)?;
                let (off, bound) =
                    (self.forward.difference(&case.problem, &outputs, &case.right), self.forward.tolerance());
                let wrong = (off.o > bound.o || off.lse > bound.lse).then(|| format!("wrong numbers: {off:?}"));
                wrong.or_else(|| Forward::left_counting(&report))
            }
            Err(failure) => Some(failure.to_string()),
        };
        what.map(|what| format!("{:?} seed {seed}: {what}", case.problem))
    }

    /// Shapes whose keys end at the column that a comparison names, in one block, two and three; the last row in
    /// either half of a fragment.
    fn at_the_edge(&self, mutant: &Mutant) -> Vec<Problem> {
        let Some(Line::Inst(Inst { args, .. })) = mutant.kernel.body.get(mutant.line) else { return Vec::new() };
        let column = args.iter().find_map(|arg| match arg {
            Operand::Int(n) => u32::try_from(*n).ok().filter(|&n| n <= self.forward.columns),
            _ => None,
        });
        let base = Problem { causal: self.causal, ctas: 1, ..Problem::new(2, 1, 1) };
        let ends = column.into_iter().flat_map(|column| (0..3).map(move |block| column + block * self.forward.columns));
        let cut =
            ends.filter(|&keys| keys > 0).flat_map(|keys| [24, 32].map(|queries| Problem { queries, keys, ..base }));
        // One row, and one more or less than a tile.
        let rows = self.forward.rows;
        let odd = [(1, 7), (rows - 1, 63), (rows + 1, 65), (rows, 129), (2 * rows + 9, 1)];
        cut.chain(odd.map(|(queries, keys)| Problem { queries, keys, ..base })).collect()
    }

    /// What the machine has against a mutant.
    pub fn machine(&self, mutant: &Mutant, seeds: u64) -> Option<String> {
        let kernel = &mutant.kernel;
        if mutant.operator == Operator::Edge {
            let cases = self.at_the_edge(mutant).into_iter().filter_map(|p| self.case(kernel, &p).ok());
            if let Some(found) = cases.into_iter().find_map(|case| self.found(kernel, &case, 0)) {
                return Some(found);
            }
        }
        // Numbers do not hang on the timing; what does is not found by luck alone, so that few seeds do.
        let seeds = if mutant.operator == Operator::Edge { 1 } else { seeds };
        (0..seeds).find_map(|seed| self.cases.iter().find_map(|case| self.found(kernel, case, seed)))
    }

    /// Tries a mutant with so many seeds for every shape.
    pub fn judge(&self, mutant: &Mutant, seeds: u64) -> Verdict {
        let judged = Module { kernel: mutant.kernel.clone(), ..self.module.clone() };
        if let Err(findings) = check::verify(judged) {
            return Verdict::Check(findings.first().map_or("", |f| f.rule));
        }
        match (self.machine(mutant, seeds), mutant.equivalent) {
            (Some(found), _) => Verdict::Machine(found),
            (None, Some(why)) => Verdict::Equivalent(why),
            (None, None) => Verdict::Survives,
        }
    }

    /// What the machine has against the kernel itself: a false alarm.
    pub fn false_alarm(&self, seeds: u64) -> Option<String> {
        let kernel = &self.module.kernel;
        (0..seeds).find_map(|seed| self.cases.iter().find_map(|case| self.found(kernel, case, seed)))
    }
}
