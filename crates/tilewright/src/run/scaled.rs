//! Running a plan of 8-bit elements on cudarc's buffers.

use std::sync::Arc;

use cudarc::driver::{CudaStream, DevicePtr};
use runtime::{Error, Result};

use super::{Outputs, check_home, check_lengths};
use crate::problem::ScaleGrid;
use crate::{Eight, Half, Plan, Problem, RawPointers, ScaleBy, ScalePointers};

/// What is read: slices or views, each starting at the first element of its tensor.
#[derive(Clone, Copy)]
pub struct Fp8Inputs<'a, E> {
    /// Q.
    pub q: &'a dyn DevicePtr<E>,
    /// K.
    pub k: &'a dyn DevicePtr<E>,
    /// V, by rows or transposed as the problem says.
    pub v: &'a dyn DevicePtr<E>,
    /// What they are multiplied with.
    pub scales: Scales<'a>,
}

/// The scales of Q, K and V, as the problem says that they lie; none where it says [`ScaleBy::One`].
#[derive(Clone, Copy, Default)]
pub struct Scales<'a> {
    /// Of Q.
    pub q: Option<&'a dyn DevicePtr<f32>>,
    /// Of K.
    pub k: Option<&'a dyn DevicePtr<f32>>,
    /// Of V.
    pub v: Option<&'a dyn DevicePtr<f32>>,
}

impl Plan {
    /// Computes O and LSE of 8-bit elements on the stream, in its order, and returns without waiting.
    ///
    /// Scales are read on the device and cannot be looked at before. They are to be finite and above zero: one that is no
    /// number makes what it is a factor of no numbers, that is the rows of its queries, every row whose tile reads its
    /// keys, or a head's O.
    ///
    /// # Errors
    /// [`Error::Element`] for buffers of another type than the problem's; [`Error::WrongDevice`] with the tensor;
    /// [`Error::Buffer`] with the tensor and the length that its shape and strides reach; [`Error::Shape`] with the tensor
    /// for scales that are missing, not asked for, or more than the shape has where no strides are given; and those of
    /// [`Plan::run_scaled_raw`]. Nothing is launched then.
    pub fn run_fp8<E: Eight, O: Half>(
        &self,
        stream: &Arc<CudaStream>,
        inputs: Fp8Inputs<'_, E>,
        outputs: Outputs<'_, O>,
    ) -> Result<()> {
        let Fp8Inputs { q, k, v, scales } = inputs;
        let Outputs { o, lse } = outputs;
        check_elements::<E, O>(self.problem())?;
        let home = self.engine().device().context();
        check_home("the stream", home, stream.context())?;
        let streams =
            [("q", q.stream()), ("k", k.stream()), ("v", v.stream()), ("o", o.stream()), ("lse", lse.stream())];
        for (tensor, at) in streams {
            check_home(&format!("tensor {tensor}"), home, at.context())?;
        }
        check_lengths(self.problem(), [q.len(), k.len(), v.len(), o.len()], lse.len())?;
        if self.problem().is_empty() {
            return Ok(());
        }
        let given = [scales.q, scales.k, scales.v];
        for (grid, scales) in self.problem().scale_grids().iter().flatten().zip(given) {
            check_scales(grid, scales.map(|scales| scales.len()))?;
            if let Some(scales) = scales {
                check_home(&format!("tensor {}", grid.name), home, scales.stream().context())?;
            }
        }
        // Current until the events below are recorded: cudarc would make the context current and leave it so.
        let _current = self.engine().device().enter()?;
        let ((q, _q), (k, _k), (v, _v)) = (q.device_ptr(stream), k.device_ptr(stream), v.device_ptr(stream));
        let [qs, ks, vs] = given.map(|scales| scales.map(|scales| scales.device_ptr(stream)));
        let [q_scales, k_scales, v_scales] = [&qs, &ks, &vs].map(|at| at.as_ref().map_or(0, |(address, _)| *address));
        let ((o, _o), (lse, _lse)) = (o.device_ptr_mut(stream), lse.device_ptr_mut(stream));
        let at = RawPointers { q, k, v, o, lse };
        let scales = ScalePointers { q: q_scales, k: k_scales, v: v_scales };
        // SAFETY: the stream lives and is of the plan's context (checked); the buffers are of that context and long
        // enough for shapes and strides (checked), borrowed for this call and, by cudarc's events on them, not reused
        // before the stream's work is done; the outputs are borrowed mutably, so nothing overlaps them.
        unsafe { self.run_scaled_raw(stream.cu_stream(), at, scales) }
    }
}

/// Buffers must be of the problem's element types.
pub(crate) fn check_elements<E: Eight, O: Half>(problem: &Problem) -> Result<()> {
    let refuse = |found: &str| {
        let reason = format!("the plan is for {problem}");
        Err(Error::Element { found: found.into(), reason })
    };
    match E::ELEMENT {
        Some(element) if element != problem.element() => refuse(element.keyword()),
        None if !problem.element().is_fp8() => refuse("bytes"),
        _ if O::ELEMENT != problem.output_element() => refuse(&format!("{} of O", O::ELEMENT)),
        _ => Ok(()),
    }
}

/// Scales must be there where the problem has them, and reach as far as it says.
pub(crate) fn check_scales(grid: &ScaleGrid, found: Option<usize>) -> Result<()> {
    let ScaleGrid { name, by, extents, close, .. } = grid;
    let needed = grid.reach();
    let shape = |why: String| Err(Error::Shape(format!("{name}: {why}")));
    match (by, found.map(|found| found as u64)) {
        (ScaleBy::One, Some(found)) => shape(format!("the problem has none, the call brings {found}")),
        (ScaleBy::One, None) => Ok(()),
        (by, None) if needed > 0 => shape(format!("the problem has them by {by}, the call brings none")),
        (_, Some(found)) if found < needed => Err(Error::Buffer { tensor: (*name).into(), needed, found }),
        (by, Some(found)) if *close && needed > 0 && found > needed => {
            let [b, h, n] = extents;
            shape(format!("by {by} they are [{b}, {h}, {n}] without gaps, {needed} in all; the buffer has {found}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
