//! Attention on the machine: inputs, a run, and whether its numbers are those of double precision.

use ptx::Kernel;
use sim::forward::{Forward, Inputs, Outputs, Problem};
use sim::{Failure, Launch, Machine, Options, Report};

/// A problem with its launch and its right answer.
pub struct Case {
    forward: Forward,
    problem: Problem,
    launch: Launch,
    right: Outputs,
}

impl Case {
    pub fn new(kernel: &Kernel, problem: &Problem) -> Case {
        Case::with(kernel, problem, Inputs::noise)
    }

    /// With inputs of another making.
    pub fn with(kernel: &Kernel, problem: &Problem, inputs: fn(Forward, &Problem, u32) -> Inputs) -> Case {
        let forward = Forward::of(kernel).expect("a forward kernel");
        Case::of(kernel, problem, &inputs(forward, problem, 1))
    }

    pub fn of(kernel: &Kernel, problem: &Problem, inputs: &Inputs) -> Case {
        let forward = Forward::of(kernel).expect("a forward kernel");
        let launch = forward.launch(kernel, problem, inputs).expect("the problem fits");
        Case { forward, problem: *problem, launch, right: forward.reference(problem, inputs) }
    }

    pub fn run(&self, kernel: &Kernel, options: &Options) -> Result<Outputs, Failure> {
        Ok(self.outputs(&Machine::run_kernel(kernel, &self.launch, options)?))
    }

    /// O and the log-sum-exp of a run.
    pub fn outputs(&self, report: &Report) -> Outputs {
        self.forward.outputs(report).expect("the outputs are there")
    }

    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// What is right.
    pub fn right(&self) -> &Outputs {
        &self.right
    }

    /// What is off in the outputs, if anything.
    pub fn wrong(&self, outputs: &Outputs) -> Option<String> {
        let (off, bound) = (self.forward.difference(&self.problem, outputs, &self.right), self.forward.tolerance());
        (off.o > bound.o || off.lse > bound.lse).then(|| format!("wrong numbers: {off:?}"))
    }
}
