//! What is to be computed: shapes, element type, mask and scale, with nothing of how.

use std::fmt;

use schedule::fp8::VALUES_ORDER;
use schedule::{Element, HeadDim, Output, Values};

use crate::layout::{Layout, Strides};

mod builder;
mod fp8;

pub use builder::ProblemBuilder;
pub use fp8::{Accumulation, Fp8, ScaleBy, ScaleLayout, ScaleStrides};

pub(crate) use fp8::ScaleGrid;

/// Keys of a column of transposed V are filled up to a multiple of this.
const VALUE_KEYS: u64 = VALUES_ORDER.len() as u64;

/// One attention forward pass, checked. Built by [`Problem::builder`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Problem {
    pub(crate) batch: u64,
    pub(crate) queries: u64,
    pub(crate) keys: u64,
    pub(crate) heads: u64,
    pub(crate) kv_heads: u64,
    pub(crate) head_dim: HeadDim,
    pub(crate) element: Element,
    pub(crate) fp8: Option<Fp8>,
    pub(crate) causal: bool,
    pub(crate) scale: f64,
    pub(crate) q: Strides,
    pub(crate) k: Strides,
    pub(crate) v: Strides,
    pub(crate) o: Strides,
}

impl Problem {
    /// Starts with batch 1, as many keys as queries, as many key heads as query heads, bf16, no mask, scale 1/sqrt(D),
    /// contiguous tensors. Queries, heads and head dimension must be given.
    pub fn builder() -> ProblemBuilder {
        ProblemBuilder::default()
    }

    /// B.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// Sq, query rows of each batch.
    pub fn queries(&self) -> u64 {
        self.queries
    }

    /// Sk, keys of each batch.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Hq, query heads.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Hk, key and value heads.
    pub fn kv_heads(&self) -> u64 {
        self.kv_heads
    }

    /// Hq / Hk; 1 where there are no heads.
    pub fn group(&self) -> u64 {
        self.heads.checked_div(self.kv_heads).unwrap_or(1).max(1)
    }

    /// D and Dv.
    pub fn head_dim(&self) -> HeadDim {
        self.head_dim
    }

    /// Element type of Q, K and V.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Element type of O: that of Q, K and V, or what [`Fp8::output`] says where they have 8 bits.
    pub fn output_element(&self) -> Element {
        match self.fp8.map(|fp8| fp8.output) {
            None => self.element,
            Some(Output::F16) => Element::F16,
            Some(_) => Element::Bf16,
        }
    }

    /// What only 8-bit elements have.
    pub fn fp8(&self) -> Option<&Fp8> {
        self.fp8.as_ref()
    }

    /// Scales of Q, K and V that buffers must have from their bases on; 0 where none are given or nothing has any.
    pub fn scale_elements(&self) -> [u64; 3] {
        let given = |grid: ScaleGrid| if grid.by == ScaleBy::One { 0 } else { grid.reach() };
        self.scale_grids().map_or([0; 3], |grids| grids.map(given))
    }

    /// Whether query i sees only keys up to i + Sk - Sq.
    pub fn causal(&self) -> bool {
        self.causal
    }

    /// Factor of q.k before the softmax.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Strides of Q, K, V and O in elements. Transposed V has those of its columns in place of tokens.
    pub fn strides(&self) -> [Strides; 4] {
        [self.q, self.k, self.v, self.o]
    }

    /// Elements of O: B * Sq * Hq * Dv.
    pub fn output_elements(&self) -> u64 {
        self.batch * self.queries * self.heads * u64::from(self.head_dim.v)
    }

    /// Elements of LSE: B * Hq * Sq.
    pub fn lse_elements(&self) -> u64 {
        self.batch * self.heads * self.queries
    }

    /// Whether there is no row to compute, so that nothing is launched.
    pub fn is_empty(&self) -> bool {
        self.lse_elements() == 0
    }

    /// Whether the mask hides anything: a single causal query sees every key.
    pub fn is_masked(&self) -> bool {
        self.causal && self.queries > 1
    }

    /// Keys that query row `i` sees: the first so many.
    pub fn visible(&self, i: u64) -> u64 {
        if self.causal { (i + 1 + self.keys).saturating_sub(self.queries).min(self.keys) } else { self.keys }
    }

    /// Floating-point operations of the two products over what is visible: 2 * (D + Dv) for each score.
    pub fn flops(&self) -> f64 {
        let (queries, keys) = (self.queries as f64, self.keys as f64);
        let scores = if !self.causal {
            queries * keys
        } else if keys >= queries {
            queries * (keys - queries) + queries * (queries + 1.0) / 2.0
        } else {
            keys * (keys + 1.0) / 2.0
        };
        2.0 * (f64::from(self.head_dim.qk) + f64::from(self.head_dim.v)) * scores * (self.batch * self.heads) as f64
    }

    /// Whether V lies transposed, `[B, Dv, Hk, keys]` by its strides.
    pub(crate) fn has_transposed_values(&self) -> bool {
        self.fp8.is_some_and(|fp8| fp8.values == Values::Transposed)
    }

    /// Extents of V, the contiguous one last.
    fn value_extents(&self) -> [u64; 4] {
        let (Self { batch, keys, kv_heads, .. }, v) = (*self, u64::from(self.head_dim.v));
        match self.has_transposed_values() {
            true => [batch, v, kv_heads, keys.next_multiple_of(VALUE_KEYS)],
            false => [batch, keys, kv_heads, v],
        }
    }

    /// Bytes of an element of q, k, v and o.
    pub(crate) fn element_bytes(&self) -> [u64; 4] {
        let bytes = self.element.bytes();
        [bytes, bytes, bytes, self.element.output_bytes()]
    }

    /// Layouts of q, k, v and o.
    pub(crate) fn layouts(&self) -> [Layout; 4] {
        let (qk, v) = (u64::from(self.head_dim.qk), u64::from(self.head_dim.v));
        let Self { batch, queries, keys, heads, kv_heads, .. } = *self;
        [
            Layout { name: "q", extents: [batch, queries, heads, qk], strides: self.q },
            Layout { name: "k", extents: [batch, keys, kv_heads, qk], strides: self.k },
            Layout { name: "v", extents: self.value_extents(), strides: self.v },
            Layout { name: "o", extents: [batch, queries, heads, v], strides: self.o },
        ]
    }
}

/// `bf16 causal attention of q [2, 1024, 16, 128], k and v [2, 1024, 4, 128]`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mask = if self.causal { "causal" } else { "full" };
        let Self { batch, queries, keys, heads, kv_heads, head_dim, element, .. } = self;
        write!(f, "{element} {mask} attention of q [{batch}, {queries}, {heads}, {}], ", head_dim.qk)?;
        if head_dim.qk == head_dim.v {
            write!(f, "k and v [{batch}, {keys}, {kv_heads}, {}]", head_dim.qk)?;
        } else {
            write!(f, "k [{batch}, {keys}, {kv_heads}, {}], ", head_dim.qk)?;
            write!(f, "v [{batch}, {keys}, {kv_heads}, {}]", head_dim.v)?;
        }
        match &self.fp8 {
            Some(fp8) => write!(f, " ({fp8})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
