//! The plans of the process: one for every combination of shapes, strides, type, mask and scale that was called.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use tilewright::{Element, Plan, Problem, ProblemBuilder, Result};

use crate::compiled::Source;
use crate::engines::engine;
use crate::error::{InvalidArgument, NotSupported, OrRaise};
use crate::tensor::{Dtype, View};

/// Plans that are kept. A program that calls with ever new shapes starts over once it has seen so many.
const MOST: usize = 4096;

/// What is kept of its kind for the process.
pub struct Kept<K, V>(Mutex<Option<HashMap<K, Arc<V>>>>);

impl<K: Eq + Hash, V> Kept<K, V> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// What there is of a key, or what is made now and kept.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get(&self, key: K, make: impl FnOnce(&K) -> PyResult<V>) -> PyResult<Arc<V>> {
        if let Some(found) = self.held().get_or_insert_default().get(&key) {
            return Ok(found.clone());
        }
        let made = Arc::new(make(&key)?);
        let mut held = self.held();
        let all = held.get_or_insert_default();
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(key, made.clone());
        Ok(made)
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.held().take();
    }

    fn held(&self) -> MutexGuard<'_, Option<HashMap<K, Arc<V>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Extents and strides of Q, K, V and O, held against each other. V is `[B, Sk, Hk, Dv]` however it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shapes {
    device: usize,
    extents: [[u64; 4]; 4],
    strides: [[u64; 3]; 4],
}

/// Keys of transposed V are filled up to a multiple of this.
const VALUE_KEYS: u64 = 16;

impl Shapes {
    /// Of four tensors that were read. Transposed V is `[B, Hk, Dv, Sk]`, its keys filled up to a multiple of 16.
    ///
    /// # Errors
    /// The first tensor that does not go with the others, by name.
    pub fn new(tensors: [&View<4>; 4], transposed: bool) -> PyResult<Self> {
        let [q, k, v, o] = tensors;
        let ([b, sq, hq, d], [_, sk, hk, _]) = (q.extents, k.extents);
        let (values, dv) = if transposed {
            let [_, _, dv, _] = v.extents;
            (([b, hk, dv, sk.next_multiple_of(VALUE_KEYS)], "[B, Hk, Dv, Sk filled up to a multiple of 16]"), dv)
        } else {
            let [_, sk, hk, dv] = v.extents;
            (([b, sk, hk, dv], "[B, Sk, Hk, Dv]"), dv)
        };
        let (sk, hk) = if transposed { (sk, hk) } else { (v.extents[1], v.extents[2]) };
        let wanted = [
            ("k", k, [b, sk, hk, d], "[B, Sk, Hk, D]"),
            ("v", v, values.0, values.1),
            ("out", o, [b, sq, hq, dv], "[B, Sq, Hq, Dv]"),
        ];
        for (name, found, extents, meaning) in wanted {
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
        }
        let mut strides = tensors.map(|view| [view.strides[0], view.strides[1], view.strides[2]]);
        if transposed {
            // Batch, column, head.
            strides[2] = [v.strides[0], v.strides[2], v.strides[1]];
        }
        let extents = [q.extents, k.extents, [b, sk, hk, dv], o.extents];
        Ok(Self { device: q.device, extents, strides })
    }

    /// Of Q, K and V alone.
    ///
    /// # Errors
    /// Those of [`Shapes::new`].
    pub fn of_inputs([q, k, v]: [&View<4>; 3]) -> PyResult<Self> {
        // An O that goes with them.
        let [b, sq, hq, _] = q.extents;
        let o = View::placed([b, sq, hq, v.extents[3]], q.device);
        Self::new([q, k, v, &o], false)
    }

    /// The device's number.
    pub fn device(&self) -> usize {
        self.device
    }

    /// B, Sq, Hq, D of Q and B, Sk, Hk, Dv of V.
    pub fn extents(&self) -> [[u64; 4]; 2] {
        [self.extents[0], self.extents[2]]
    }

    /// A problem of these.
    pub fn problem(&self, causal: bool, scale: Option<u64>) -> ProblemBuilder {
        let [[batch, queries, heads, d], _, [_, keys, kv_heads, dv], _] = self.extents;
        let [q, k, v, o] = self.strides;
        // What does not fit is refused as a head dimension that no schedule has.
        let (d, dv) = (u32::try_from(d).unwrap_or(u32::MAX), u32::try_from(dv).unwrap_or(u32::MAX));
        let builder = Problem::builder().batch(batch).queries(queries).keys(keys).heads(heads).kv_heads(kv_heads);
        let builder = builder.head_dims(d, dv).causal(causal).q_strides(q).k_strides(k).v_strides(v).o_strides(o);
        match scale {
            Some(bits) => builder.scale(f64::from_bits(bits)),
            None => builder,
        }
    }
}

/// All that a plan depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    shapes: Shapes,
    element: Element,
    causal: bool,
    /// Bits of the scale, where one was given.
    scale: Option<u64>,
    /// The schedule of the caller's own, by its number.
    schedule: Option<u64>,
}

impl Key {
    /// Of Q, K, V and O that were read; holds their extents, types and devices against each other.
    ///
    /// # Errors
    /// The first tensor that does not go with the others, by name.
    pub fn new(tensors: [&View<4>; 4], causal: bool, scale: Option<f64>, schedule: Option<u64>) -> PyResult<Self> {
        let [q, k, v, o] = tensors;
        let shapes = Shapes::new(tensors, false)?;
        alike(q, &[("k", k), ("v", v), ("out", o)])?;
        Ok(Self { shapes, element: sixteen("q", &q.dtype)?, causal, scale: scale.map(f64::to_bits), schedule })
    }

    /// The problem of the key.
    fn problem(&self) -> Result<Problem> {
        self.shapes.problem(self.causal, self.scale).element(self.element).build()
    }
}

/// Tensors have the type of Q.
///
/// # Errors
/// The first that has another, by name.
pub fn alike(q: &View<4>, others: &[(&str, &View<4>)]) -> PyResult<()> {
    match others.iter().find(|(_, other)| other.dtype != q.dtype) {
        Some((name, other)) => {
            let (ours, theirs) = (&q.dtype, &other.dtype);
            Err(InvalidArgument::new_err(format!("tensor q is of {ours}, tensor {name} of {theirs}")))
        }
        None => Ok(()),
    }
}

/// The element type of a tensor that must have 16 bits.
///
/// # Errors
/// With the tensor's name, and for 8 bits with what takes them.
pub fn sixteen(name: &str, dtype: &Dtype) -> PyResult<Element> {
    match dtype {
        Dtype::Bf16 => Ok(Element::Bf16),
        Dtype::F16 => Ok(Element::F16),
        Dtype::E4m3 | Dtype::E5m2 => Err(NotSupported::new_err(format!(
            "tensor {name} is of {dtype}; this call takes bfloat16 or float16, for 8 bits there is attention_quantized"
        ))),
        other => {
            Err(NotSupported::new_err(format!("tensor {name} is of {other}; attention here takes bfloat16 or float16")))
        }
    }
}

static PLANS: Kept<Key, Plan> = Kept::new();

/// Forgets all plans.
pub fn forget() {
    PLANS.clear();
}

/// The plan of a key: found, or made now and kept. Nothing is loaded.
///
/// # Errors
/// Those of the problem and of planning.
pub fn plan(py: Python<'_>, key: Key, source: Option<&Source>) -> PyResult<Arc<Plan>> {
    PLANS.get(key, |key| {
        let made = py.detach(|| {
            let engine = engine(key.shapes.device)?;
            let problem = key.problem()?;
            match source {
                Some(source) => engine.plan_with_entry(&problem, source.entry()),
                None => engine.plan(&problem),
            }
        });
        made.or_raise()
    })
}
