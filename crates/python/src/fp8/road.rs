//! The plans of 8-bit attention: 16 bits that are rounded first, 16-bit Q over a cache, 8 bits as they are.

use std::sync::Arc;

use pyo3::prelude::*;
use tilewright::{
    CUstream, CacheOptions, Element, Fp8, Fp8CachePlan, Fp8Options, Fp8Plan, Output, Plan, RawPointers, Result,
    ScalePointers,
};

use crate::compiled::Source;
use crate::engines::engine;
use crate::error::OrRaise;
use crate::plans::{Kept, Shapes};

/// A plan of one of the three kinds.
#[derive(Debug)]
pub enum Road {
    /// Q, K and V of 16 bits.
    Joined(Fp8Plan),
    /// Q of 16 bits, K and V of 8.
    Cached(Fp8CachePlan),
    /// All of 8 bits.
    Codes(Plan),
}

/// What is given, with the options that only it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Given {
    /// Q, K and V of 16 bits.
    Joined(Element, Fp8Options),
    /// Q of the first element, K and V of the second; the seed of the rotation of K.
    Cached(Element, Element, Fp8, Option<u32>),
    /// All of 8 bits; the schedule of the caller's own, by its number.
    Codes(Element, Fp8, Option<u64>),
}

/// All that a plan depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Of Q, K, V and O.
    pub shapes: Shapes,
    /// What they are.
    pub given: Given,
    /// The mask.
    pub causal: bool,
    /// Bits of the scale, where one was given.
    pub scale: Option<u64>,
}

static ROADS: Kept<Key, Road> = Kept::new();

impl Key {
    fn make(&self, source: Option<&Source>) -> Result<Road> {
        let engine = engine(self.shapes.device())?;
        let builder = self.shapes.problem(self.causal, self.scale);
        Ok(match self.given {
            Given::Joined(element, options) => {
                Road::Joined(engine.plan_fp8(&builder.element(element).build()?, &options)?)
            }
            Given::Cached(queries, element, fp8, rotation) => {
                let problem = builder.element(element).fp8(fp8).build()?;
                Road::Cached(engine.plan_fp8_cache(&problem, queries, &CacheOptions { rotation })?)
            }
            Given::Codes(element, fp8, _) => {
                let problem = builder.element(element).fp8(fp8).build()?;
                Road::Codes(match source {
                    Some(source) => engine.plan_with_entry(&problem, source.entry())?,
                    None => engine.plan(&problem)?,
                })
            }
        })
    }
}

/// The type of O.
pub fn output(element: Element) -> Output {
    if element == Element::F16 { Output::F16 } else { Output::Bf16 }
}

/// Forgets all plans.
pub fn forget() {
    ROADS.clear();
}

impl Road {
    /// The plan of a key: found, or made now and kept. Nothing is loaded. `source` is the schedule that the key names.
    ///
    /// # Errors
    /// Those of the problem and of planning.
    pub fn of(py: Python<'_>, key: Key, source: Option<&Source>) -> PyResult<Arc<Self>> {
        ROADS.get(key, |key| py.detach(|| key.make(source)).or_raise())
    }

    /// What multiplies.
    pub fn attention(&self) -> &Plan {
        match self {
            Self::Joined(plan) => plan.attention(),
            Self::Cached(plan) => plan.attention(),
            Self::Codes(plan) => plan,
        }
    }

    /// Bytes of the workspace.
    pub fn workspace_bytes(&self) -> u64 {
        match self {
            Self::Joined(plan) => plan.workspace_bytes(),
            Self::Cached(plan) => plan.workspace_bytes(),
            Self::Codes(_) => 0,
        }
    }

    /// Loads the kernels. Says how the attention's was loaded.
    ///
    /// # Errors
    /// Those of loading.
    pub fn warm_up(&self) -> Result<String> {
        match self {
            Self::Joined(plan) => plan.warm_up()?,
            Self::Cached(plan) => plan.warm_up()?,
            Self::Codes(_) => {}
        }
        self.attention().warm_up().map(|report| report.to_string())
    }

    /// Launches, over a workspace that may hold anything.
    ///
    /// # Errors
    /// Those of the plan.
    ///
    /// # Safety
    /// As for the plan's `run_raw_unzeroed`.
    pub unsafe fn run(&self, stream: CUstream, at: RawPointers, scales: ScalePointers, workspace: u64) -> Result<()> {
        // SAFETY: asked of the caller, for whichever it is.
        unsafe {
            match self {
                Self::Joined(plan) => plan.run_raw_unzeroed(stream, at, workspace),
                Self::Cached(plan) => plan.run_raw_unzeroed(stream, at, scales, workspace),
                Self::Codes(plan) => plan.run_scaled_raw(stream, at, scales),
            }
        }
    }
}
