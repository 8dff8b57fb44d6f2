//! Attention on the machine: inputs, a run, and whether its numbers are those of double precision.

use ptx::Kernel;
use sim::forward::{Forward, Inputs, Outputs, Problem};
use sim::{Failure, Launch, Machine, Options};

/// A problem with its launch and its right answer.
pub struct Case {
    forward: Forward,
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
        let inputs = inputs(forward, problem, 1);
        let launch = forward.launch(kernel, problem, &inputs).expect("the problem fits");
        Case { forward, launch, right: forward.reference(problem, &inputs) }
    }

    pub fn run(&self, kernel: &Kernel, options: &Options) -> Result<Outputs, Failure> {
        let report = Machine::run_kernel(kernel, &self.launch, options)?;
        Ok(self.forward.outputs(&report).expect("the outputs are there"))
    }

    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// What is off in the outputs, if anything.
    pub fn wrong(&self, outputs: &Outputs) -> Option<String> {
        let (off, bound) = (outputs.difference(&self.right), self.forward.tolerance());
        (off.o > bound.o || off.lse > bound.lse).then(|| format!("wrong numbers: {off:?}"))
    }
}
