//! The plans of the process: one for every combination of shapes, strides, type, mask and scale that was called.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use tilewright::{Element, Plan, Problem, Result};

use crate::compiled::Source;
use crate::engines::engine;
use crate::error::{InvalidArgument, OrRaise};
use crate::tensor::{Dtype, View};

/// Plans that are kept. A program that calls with ever new shapes starts over once it has seen so many.
const MOST: usize = 4096;

/// All that a plan depends on: Q, K, V and O by extents and strides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    device: usize,
    element: Element,
    causal: bool,
    /// Bits of the scale, where one was given.
    scale: Option<u64>,
    extents: [[u64; 4]; 4],
    strides: [[u64; 4]; 4],
    /// The schedule of the caller's own, by its number.
    schedule: Option<u64>,
}

impl Key {
    /// Of four tensors that were read; holds their extents, types and devices against each other.
    ///
    /// # Errors
    /// The first tensor that does not go with the others, by name.
    pub fn new(tensors: [&View<4>; 4], causal: bool, scale: Option<f64>, schedule: Option<u64>) -> PyResult<Self> {
        let [q, k, v, o] = tensors;
        let [b, sq, hq, d] = q.extents;
        let [_, sk, hk, dv] = v.extents;
        let wanted = [("k", k, [b, sk, hk, d], "[B, Sk, Hk, D]"), ("v", v, [b, sk, hk, dv], "[B, Sk, Hk, Dv]")];
        for (name, found, extents, meaning) in
            wanted.into_iter().chain([("out", o, [b, sq, hq, dv], "[B, Sq, Hq, Dv]")])
        {
            if found.extents != extents {
                return Err(InvalidArgument::new_err(format!(
                    "tensor {name} has shape {:?}, expected {extents:?} = {meaning}: q is {:?}, k {:?}, v {:?}",
                    found.extents, q.extents, k.extents, v.extents
                )));
            }
            if found.device != q.device {
                let (here, there) = (q.device, found.device);
                return Err(InvalidArgument::new_err(format!(
                    "tensor q is on GPU {here}, tensor {name} on GPU {there}"
                )));
            }
            if found.dtype != q.dtype {
                let (ours, theirs) = (&q.dtype, &found.dtype);
                return Err(InvalidArgument::new_err(format!("tensor q is of {ours}, tensor {name} of {theirs}")));
            }
        }
        let extents = tensors.map(|view| view.extents);
        let strides = tensors.map(|view| view.strides);
        let scale = scale.map(f64::to_bits);
        Ok(Self { device: q.device, element: element(&q.dtype)?, causal, scale, extents, strides, schedule })
    }

    /// The problem of the key.
    fn problem(&self) -> Result<Problem> {
        let [[batch, queries, heads, d], _, [_, keys, kv_heads, dv], _] = self.extents;
        let [q, k, v, o] = self.strides.map(|[batch, token, head, _]| [batch, token, head]);
        // What does not fit is refused as a head dimension that no schedule has.
        let (d, dv) = (u32::try_from(d).unwrap_or(u32::MAX), u32::try_from(dv).unwrap_or(u32::MAX));
        let builder = Problem::builder().batch(batch).queries(queries).keys(keys).heads(heads).kv_heads(kv_heads);
        let builder = builder.head_dims(d, dv).element(self.element).causal(self.causal);
        let builder = builder.q_strides(q).k_strides(k).v_strides(v).o_strides(o);
        match self.scale {
            Some(bits) => builder.scale(f64::from_bits(bits)).build(),
            None => builder.build(),
        }
    }
}

/// The element type of a problem.
fn element(dtype: &Dtype) -> PyResult<Element> {
    match dtype {
        Dtype::Bf16 => Ok(Element::Bf16),
        Dtype::F16 => Ok(Element::F16),
        other => Err(crate::error::NotSupported::new_err(format!(
            "tensor q is of {other}; attention here takes bfloat16 or float16"
        ))),
    }
}

static PLANS: Mutex<Option<HashMap<Key, Arc<Plan>>>> = Mutex::new(None);

/// The plan of a key: found, or made now and kept. Nothing is loaded.
///
/// # Errors
/// Those of the problem and of planning.
pub fn plan(py: Python<'_>, key: &Key, source: Option<&Source>) -> PyResult<Arc<Plan>> {
    if let Some(plan) = PLANS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().get(key) {
        return Ok(plan.clone());
    }
    let made = py.detach(|| {
        let engine = engine(key.device)?;
        let problem = key.problem()?;
        match source {
            Some(source) => engine.plan_with_entry(&problem, source.entry()),
            None => engine.plan(&problem),
        }
    });
    let made = Arc::new(made.or_raise()?);
    let mut held = PLANS.lock().unwrap_or_else(PoisonError::into_inner);
    let plans = held.get_or_insert_default();
    if plans.len() >= MOST {
        plans.clear();
    }
    plans.insert(*key, made.clone());
    Ok(made)
}
