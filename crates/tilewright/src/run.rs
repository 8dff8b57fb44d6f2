//! Running a plan on cudarc's buffers: everything that could go wrong with memory is checked.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DevicePtr, DevicePtrMut};
use runtime::{Error, Result};

use crate::layout::Layout;
use crate::{Half, Plan, Problem, RawPointers, Tilewright};

mod scaled;

pub use scaled::{Fp8Inputs, Scales};
pub(crate) use scaled::{check_elements, check_scales};

/// What is read: slices or views, each starting at the first element of its tensor.
#[derive(Clone, Copy)]
pub struct Inputs<'a, T> {
    /// Q.
    pub q: &'a dyn DevicePtr<T>,
    /// K.
    pub k: &'a dyn DevicePtr<T>,
    /// V.
    pub v: &'a dyn DevicePtr<T>,
}

/// What is written: slices or views, each starting at the first element of its tensor.
pub struct Outputs<'a, T> {
    /// O.
    pub o: &'a mut dyn DevicePtrMut<T>,
    /// LSE, f32 `[B, Hq, Sq]` contiguous.
    pub lse: &'a mut dyn DevicePtrMut<f32>,
}

impl Plan {
    /// Computes O and LSE on the stream, in its order, and returns without waiting.
    ///
    /// # Errors
    /// [`Error::Element`] for buffers of another type than the problem's; [`Error::WrongDevice`] with the tensor;
    /// [`Error::Buffer`] with the tensor and the length that its shape and strides reach; and those of
    /// [`Plan::run_raw`]. Nothing is launched then.
    pub fn run<T: Half>(&self, stream: &Arc<CudaStream>, inputs: Inputs<'_, T>, outputs: Outputs<'_, T>) -> Result<()> {
        let Inputs { q, k, v } = inputs;
        let Outputs { o, lse } = outputs;
        check_element::<T>(self.problem())?;
        check_inputs(self.engine(), self.problem(), stream, &inputs, &*o, &*lse)?;
        if self.problem().is_empty() {
            return Ok(());
        }
        // Current until the events below are recorded: cudarc would make the context current and leave it so.
        let _current = self.engine().device().enter()?;
        let ((q, _q), (k, _k), (v, _v)) = (q.device_ptr(stream), k.device_ptr(stream), v.device_ptr(stream));
        let ((o, _o), (lse, _lse)) = (o.device_ptr_mut(stream), lse.device_ptr_mut(stream));
        // SAFETY: the stream lives and is of the plan's context (checked); the buffers are of that context and long
        // enough for shapes and strides (checked), borrowed for this call and, by cudarc's events on them, not reused
        // before the stream's work is done; the outputs are borrowed mutably, so nothing overlaps them.
        unsafe { self.run_raw(stream.cu_stream(), RawPointers { q, k, v, o, lse }) }
    }
}

/// Buffers must be of the problem's element type.
pub(crate) fn check_element<T: Half>(problem: &Problem) -> Result<()> {
    if T::ELEMENT == problem.element() {
        return Ok(());
    }
    let reason = format!("the plan is for {problem}");
    Err(Error::Element { found: T::ELEMENT.to_string(), reason })
}

/// Everything must be of the engine's context and as long as the problem says.
pub(crate) fn check_inputs<T>(
    engine: &Tilewright,
    problem: &Problem,
    stream: &CudaStream,
    Inputs { q, k, v }: &Inputs<'_, T>,
    o: &dyn DevicePtrMut<T>,
    lse: &dyn DevicePtrMut<f32>,
) -> Result<()> {
    let home = engine.device().context();
    check_home("the stream", home, stream.context())?;
    let streams = [("q", q.stream()), ("k", k.stream()), ("v", v.stream()), ("o", o.stream()), ("lse", lse.stream())];
    for (tensor, at) in streams {
        check_home(&format!("tensor {tensor}"), home, at.context())?;
    }
    check_lengths(problem, [q.len(), k.len(), v.len(), o.len()], lse.len())
}

/// Everything must be where the plan runs.
pub(crate) fn check_home(what: &str, home: &CudaContext, found: &CudaContext) -> Result<()> {
    if home.cu_ctx() == found.cu_ctx() {
        return Ok(());
    }
    let place = |context: &CudaContext| format!("a context of GPU {}", context.ordinal());
    Err(Error::WrongDevice { what: what.into(), expected: place(home), found: place(found) })
}

/// Buffers must reach as far as shapes and strides do.
pub(crate) fn check_lengths(problem: &Problem, found: [usize; 4], lse: usize) -> Result<()> {
    let check = |tensor: &str, needed: u64, found: usize| match found as u64 {
        found if found < needed => Err(Error::Buffer { tensor: tensor.into(), needed, found }),
        _ => Ok(()),
    };
    if problem.is_empty() {
        return Ok(());
    }
    for (layout, found) in problem.layouts().iter().zip(found) {
        check(layout.name, Layout::reach(layout).unwrap_or(u64::MAX), found)?;
    }
    check("lse", problem.lse_elements(), lse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> Problem {
        Problem::builder().batch(2).queries(3).keys(5).heads(4).kv_heads(2).head_dims(192, 128).build().expect("fine")
    }

    #[test]
    fn a_short_buffer_is_told_by_tensor_and_length() {
        let (q, k, v, o) = (2 * 3 * 4 * 192, 2 * 5 * 2 * 192, 2 * 5 * 2 * 128, 2 * 3 * 4 * 128);
        let full = [q, k, v, o];
        assert_eq!(check_lengths(&problem(), full, 24), Ok(()));
        for (at, name) in ["q", "k", "v", "o"].into_iter().enumerate() {
            let mut short = full;
            short[at] -= 1;
            let told = check_lengths(&problem(), short, 24).expect_err("short").to_string();
            assert!(told.contains(&format!("tensor {name}: needs {} elements", full[at])), "{told}");
        }
        assert!(check_lengths(&problem(), full, 23).expect_err("short").to_string().contains("tensor lse"));
    }

    #[test]
    fn a_strided_buffer_reaches_to_its_last_row_only() {
        let packed = Problem::builder().queries(2048).heads(16).kv_heads(1).head_dim(64);
        let packed = packed.q_strides([0, 18 * 64, 64]).k_strides([0, 18 * 64, 64]).v_strides([0, 18 * 64, 64]);
        let packed = packed.build().expect("fine");
        let (q, kv) = (2047 * 18 * 64 + 16 * 64, 2047 * 18 * 64 + 64);
        assert_eq!(check_lengths(&packed, [q, kv, kv, 2048 * 16 * 64], 2048 * 16), Ok(()));
        assert!(check_lengths(&packed, [q - 1, kv, kv, 2048 * 16 * 64], 2048 * 16).is_err());
    }

    #[test]
    fn no_keys_and_no_rows_need_no_buffers() {
        let keyless = Problem::builder().batch(2).queries(3).keys(0).heads(2).head_dim(64).build().expect("fine");
        assert_eq!(check_lengths(&keyless, [768, 0, 0, 768], 12), Ok(()));
        let rowless = Problem::builder().batch(0).queries(3).keys(4).heads(2).head_dim(64).build().expect("fine");
        assert_eq!(check_lengths(&rowless, [0; 4], 0), Ok(()));
    }

    #[test]
    fn buffers_of_the_other_type_are_refused() {
        assert_eq!(check_element::<half::bf16>(&problem()), Ok(()));
        let told = check_element::<half::f16>(&problem()).expect_err("f16").to_string();
        assert!(told.contains("f16") && told.contains("bf16 full attention"), "{told}");
    }
}
