//! What is to be computed: shapes, element type, mask and scale, with nothing of how.

use std::fmt;

use schedule::{Element, HeadDim};

use crate::layout::{Layout, Strides};

mod builder;

pub use builder::ProblemBuilder;

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

    /// Element type of Q, K, V and O.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Whether query i sees only keys up to i + Sk - Sq.
    pub fn causal(&self) -> bool {
        self.causal
    }

    /// Factor of q.k before the softmax.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Strides of Q, K, V and O in elements.
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

    /// Layouts of q, k, v and o.
    pub(crate) fn layouts(&self) -> [Layout; 4] {
        let (qk, v) = (u64::from(self.head_dim.qk), u64::from(self.head_dim.v));
        let Self { batch, queries, keys, heads, kv_heads, .. } = *self;
        [
            Layout { name: "q", extents: [batch, queries, heads, qk], strides: self.q },
            Layout { name: "k", extents: [batch, keys, kv_heads, qk], strides: self.k },
            Layout { name: "v", extents: [batch, keys, kv_heads, v], strides: self.v },
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
            write!(f, "k and v [{batch}, {keys}, {kv_heads}, {}]", head_dim.qk)
        } else {
            write!(f, "k [{batch}, {keys}, {kv_heads}, {}], ", head_dim.qk)?;
            write!(f, "v [{batch}, {keys}, {kv_heads}, {}]", head_dim.v)
        }
    }
}

#[cfg(test)]
mod tests;
