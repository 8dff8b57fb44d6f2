//! One attention call in 8 bits: codes and scales uploaded, outputs poisoned and guarded, guards looked at.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr};
use tilewright::reference::{Output, Rows};
use tilewright::{Fp8Inputs, Half, Outputs, Plan, RawPointers, Result, ScalePointers, Scales};

use super::{Coded, Off, measure};
use crate::gpu::call::{Answer, Results};
use crate::gpu::device::Gpu;

/// Codes and scales on the device.
pub struct Uploaded {
    /// Of Q, K and V.
    pub codes: [CudaSlice<u8>; 3],
    /// Of those that have some.
    pub scales: [Option<CudaSlice<f32>>; 3],
}

impl Uploaded {
    /// Copies them over. An empty tensor gets a little memory, which is no number.
    pub fn new(stream: &Arc<CudaStream>, coded: &Coded) -> Self {
        fn upload<T: DeviceRepr + Copy>(stream: &Arc<CudaStream>, all: &[T], filler: T) -> CudaSlice<T> {
            let filler = [filler; 16];
            stream.clone_htod(if all.is_empty() { &filler[..] } else { all }).expect("device memory for an input")
        }
        let grids = coded.has_scales();
        Self {
            codes: [0, 1, 2].map(|t| upload(stream, &coded.codes[t], 0x7f)),
            scales: [0, 1, 2].map(|t| grids[t].then(|| upload(stream, &coded.scales[t], f32::NAN))),
        }
    }

    /// As the facade takes them.
    pub fn inputs(&self) -> Fp8Inputs<'_, u8> {
        let [q, k, v] = &self.codes;
        let of = |t: usize| self.scales[t].as_ref().map(|scales| scales as &dyn DevicePtr<f32>);
        Fp8Inputs { q, k, v, scales: Scales { q: of(0), k: of(1), v: of(2) } }
    }

    /// The addresses of a call that reads the codes.
    pub fn pointers<O: Half>(&self, stream: &CudaStream, results: &Results<O>) -> RawPointers {
        let [q, k, v] = [0, 1, 2].map(|t| self.codes[t].device_ptr(stream).0);
        RawPointers { q, k, v, o: results.o.address(stream), lse: results.lse.address(stream) }
    }

    /// The addresses of the scales.
    pub fn scale_pointers(&self, stream: &CudaStream) -> ScalePointers {
        let [q, k, v] = [0, 1, 2].map(|t| self.scales[t].as_ref().map_or(0, |scales| scales.device_ptr(stream).0));
        ScalePointers { q, k, v }
    }
}

/// Runs a plan on the suite's stream.
///
/// # Errors
/// The facade's.
pub fn try_run<O: Half>(gpu: &Gpu, plan: &Plan, coded: &Coded) -> Result<Answer<O>> {
    let inputs = Uploaded::new(&gpu.stream, coded);
    let mut results = Results::<O>::new(&gpu.stream, plan.problem());
    let (mut o, mut lse) = (results.o.view_mut(), results.lse.view_mut());
    plan.run_fp8(&gpu.stream, inputs.inputs(), Outputs { o: &mut o, lse: &mut lse })?;
    gpu.wait(&gpu.stream);
    Ok(results.download(&gpu.stream, plan.problem()))
}

/// Runs a plan that must run.
pub fn run<O: Half>(gpu: &Gpu, plan: &Plan, coded: &Coded) -> Answer<O> {
    try_run(gpu, plan, coded).unwrap_or_else(|error| panic!("{}: {error}", plan.problem()))
}

/// Runs a plan and holds the given rows against double precision over the numbers that are coded.
///
/// # Errors
/// What is off, in words.
pub fn check<O: Half>(gpu: &Gpu, plan: &Plan, coded: &Coded, which: &[u64]) -> std::result::Result<Off, String> {
    let (problem, rows) = (plan.problem(), Rows::These(which));
    let answer = run::<O>(gpu, plan, coded);
    let (o, lse) = (Output::pick_o(problem, rows, &answer.o), Output::pick_lse(problem, rows, &answer.lse));
    measure(plan.schedule(), problem, which, &o, &lse, &coded.exact(rows))
        .map_err(|what| format!("{problem} by {}: {what}", plan.schedule().name))
}
