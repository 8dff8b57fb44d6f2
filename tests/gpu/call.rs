//! One attention call from host memory to host memory: inputs uploaded, outputs poisoned and guarded, guards looked at.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use tilewright::{Error, Half, Inputs, Outputs, Plan, Problem, ProblemBuilder, RawPointers, Result};

use crate::gpu::data::Tensors;
use crate::gpu::device::{Gpu, Guarded};

/// A problem that is right as it stands.
pub fn build(builder: ProblemBuilder) -> Problem {
    builder.build().expect("the problem is right")
}

/// Its plan.
pub fn plan(gpu: &Gpu, problem: &Problem) -> Plan {
    gpu.attention.plan(problem).expect("a schedule for the problem")
}

/// Q, K and V on the device.
pub struct Uploaded<T> {
    /// Q.
    pub q: CudaSlice<T>,
    /// K.
    pub k: CudaSlice<T>,
    /// V.
    pub v: CudaSlice<T>,
}

impl<T: Half> Uploaded<T> {
    /// Copies them over. An empty tensor gets a little memory, which is NaN.
    pub fn new(stream: &Arc<CudaStream>, host: &Tensors<T>) -> Self {
        let upload = |all: &[T]| {
            let filler = [T::round(f32::NAN); 8];
            let all = if all.is_empty() { &filler[..] } else { all };
            stream.clone_htod(all).expect("device memory for an input")
        };
        Self { q: upload(&host.q), k: upload(&host.k), v: upload(&host.v) }
    }

    /// As the facade takes them.
    pub fn inputs(&self) -> Inputs<'_, T> {
        Inputs { q: &self.q, k: &self.k, v: &self.v }
    }

    /// Overwrites them.
    pub fn replace(&mut self, stream: &Arc<CudaStream>, host: &Tensors<T>) {
        for (to, from) in [(&mut self.q, &host.q), (&mut self.k, &host.k), (&mut self.v, &host.v)] {
            stream.memcpy_htod(from, to).expect("an input is replaced");
        }
        stream.synchronize().expect("the copies end");
    }
}

/// O and LSE on the device, full of NaN and guarded.
pub struct Results<T> {
    /// O.
    pub o: Guarded<T>,
    /// LSE.
    pub lse: Guarded<f32>,
}

impl<T: Half> Results<T> {
    /// Room for what the problem gives.
    pub fn new(stream: &Arc<CudaStream>, problem: &Problem) -> Self {
        let [_, _, _, extents] = crate::gpu::data::extents(problem);
        let o = crate::gpu::data::reach(extents, problem.strides()[3]);
        Self { o: Guarded::new(stream, "o", o), lse: Guarded::new(stream, "lse", problem.lse_elements() as usize) }
    }

    /// Runs the plan into them.
    ///
    /// # Errors
    /// The facade's.
    pub fn run(&mut self, stream: &Arc<CudaStream>, plan: &Plan, inputs: Inputs<'_, T>) -> Result<()> {
        let (mut o, mut lse) = (self.o.view_mut(), self.lse.view_mut());
        plan.run(stream, inputs, Outputs { o: &mut o, lse: &mut lse })
    }

    /// Brings them back. The stream's work must have ended.
    pub fn download(&self, stream: &Arc<CudaStream>, problem: &Problem) -> Answer<T> {
        Answer { problem: *problem, o: self.o.download(stream), lse: self.lse.download(stream) }
    }

    /// The addresses of a call that reads those inputs.
    pub fn pointers(&self, stream: &CudaStream, inputs: &Uploaded<T>) -> RawPointers {
        let at = |slice: &CudaSlice<T>| slice.device_ptr(stream).0;
        let (q, k, v) = (at(&inputs.q), at(&inputs.k), at(&inputs.v));
        RawPointers { q, k, v, o: self.o.address(stream), lse: self.lse.address(stream) }
    }
}

/// What a call gave.
#[derive(Clone)]
pub struct Answer<T> {
    /// Of which problem.
    pub problem: Problem,
    /// O, laid out as the problem says.
    pub o: Vec<T>,
    /// LSE `[B, Hq, Sq]`.
    pub lse: Vec<f32>,
}

impl<T: Half> Answer<T> {
    /// The row of O.
    pub fn o(&self, b: u64, i: u64, h: u64) -> &[T] {
        let at = self.problem.strides()[3].row(b, i, h) as usize;
        &self.o[at..at + self.problem.head_dim().v as usize]
    }

    /// Its log-sum-exp.
    pub fn lse(&self, b: u64, i: u64, h: u64) -> f32 {
        self.lse[((b * self.problem.heads() + h) * self.problem.queries() + i) as usize]
    }

    /// Whether the row has the same bits in both.
    pub fn same_row(&self, other: &Self, [b, i, h]: [u64; 3]) -> bool {
        let same = |(x, y): (&T, &T)| x.widen().to_bits() == y.widen().to_bits();
        let o = self.o(b, i, h).iter().zip(other.o(b, i, h)).all(same);
        o && self.lse(b, i, h).to_bits() == other.lse(b, i, h).to_bits()
    }
}

/// Every row `[b, i, h]` of a problem.
pub fn every_row(problem: &Problem) -> impl Iterator<Item = [u64; 3]> {
    let (queries, heads) = (problem.queries(), problem.heads());
    (0..problem.batch()).flat_map(move |b| (0..queries).flat_map(move |i| (0..heads).map(move |h| [b, i, h])))
}

/// Runs a plan on the suite's stream.
///
/// # Errors
/// The facade's.
pub fn try_run<T: Half>(gpu: &Gpu, plan: &Plan, host: &Tensors<T>) -> Result<Answer<T>> {
    try_run_on(gpu, &gpu.stream, plan, host)
}

/// Runs a plan on a stream.
///
/// # Errors
/// The facade's.
pub fn try_run_on<T: Half>(gpu: &Gpu, stream: &Arc<CudaStream>, plan: &Plan, host: &Tensors<T>) -> Result<Answer<T>> {
    let inputs = Uploaded::new(stream, host);
    let mut results = Results::new(stream, plan.problem());
    results.run(stream, plan, inputs.inputs())?;
    gpu.wait(stream);
    Ok(results.download(stream, plan.problem()))
}

/// Runs a plan that must run.
pub fn run<T: Half>(gpu: &Gpu, plan: &Plan, host: &Tensors<T>) -> Answer<T> {
    try_run(gpu, plan, host).unwrap_or_else(|error: Error| panic!("{}: {error}", plan.problem()))
}

/// Plans and runs.
pub fn solve<T: Half>(gpu: &Gpu, problem: &Problem, host: &Tensors<T>) -> Answer<T> {
    run(gpu, &plan(gpu, problem), host)
}

/// A small causal problem computed right, to show that the context still works.
pub fn still_works(gpu: &Gpu) {
    let problem = build(Problem::builder().queries(2).keys(5).heads(1).head_dim(64).causal(true));
    let answer = solve::<half::bf16>(gpu, &problem, &Tensors::count(&problem, |[_, j, _, _]| j as f32));
    let o: Vec<f32> = (0..2).map(|i| answer.o(0, i, 0)[63].widen()).collect();
    assert_eq!(o, [1.5, 2.0], "a right call after a refused one");
}
