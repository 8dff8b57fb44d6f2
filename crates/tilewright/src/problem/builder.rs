//! The making of a problem: defaults, and every check that does not depend on what schedules there are.

use runtime::{Error, Result};
use schedule::{Element, HeadDim};

use crate::{Fp8, Problem, Strides};

/// Kernels and the copy engine place rows by signed 32-bit numbers, with room for sums of two of them.
const EXTENT_MAX: u64 = 1 << 30;

/// Rows of O in all, so that their offsets stay within 63 bits.
const ROWS_MAX: u64 = 1 << 48;

/// A [`Problem`] in the making; [`ProblemBuilder::build`] checks it. All strides are in elements.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ProblemBuilder {
    batch: Option<u64>,
    queries: Option<u64>,
    keys: Option<u64>,
    heads: Option<u64>,
    kv_heads: Option<u64>,
    head_dim: Option<HeadDim>,
    element: Option<Element>,
    fp8: Option<Fp8>,
    causal: bool,
    scale: Option<f64>,
    q: Option<Strides>,
    k: Option<Strides>,
    v: Option<Strides>,
    o: Option<Strides>,
}

impl ProblemBuilder {
    /// B. 1 unless given.
    pub fn batch(mut self, batch: u64) -> Self {
        self.batch = Some(batch);
        self
    }

    /// Sq.
    pub fn queries(mut self, queries: u64) -> Self {
        self.queries = Some(queries);
        self
    }

    /// Sk. Sq unless given.
    pub fn keys(mut self, keys: u64) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Hq.
    pub fn heads(mut self, heads: u64) -> Self {
        self.heads = Some(heads);
        self
    }

    /// Hk, which divides Hq. Hq unless given.
    pub fn kv_heads(mut self, kv_heads: u64) -> Self {
        self.kv_heads = Some(kv_heads);
        self
    }

    /// D of Q and K, and of V and O.
    pub fn head_dim(mut self, dim: u32) -> Self {
        self.head_dim = Some(HeadDim::same(dim));
        self
    }

    /// D of Q and K, and Dv of V and O.
    pub fn head_dims(mut self, qk: u32, v: u32) -> Self {
        self.head_dim = Some(HeadDim { qk, v });
        self
    }

    /// Element type of Q, K and V: bf16, f16, e4m3 or e5m2. bf16 unless given.
    pub fn element(mut self, element: Element) -> Self {
        self.element = Some(element);
        self
    }

    /// Scales, V and O of 8-bit elements. Unless given, 8-bit elements have [`Fp8::default`].
    pub fn fp8(mut self, fp8: Fp8) -> Self {
        self.fp8 = Some(fp8);
        self
    }

    /// Whether query i sees only keys up to i + Sk - Sq.
    pub fn causal(mut self, causal: bool) -> Self {
        self.causal = causal;
        self
    }

    /// Factor of q.k. 1/sqrt(D) unless given.
    pub fn scale(mut self, scale: f64) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Strides of Q.
    pub fn q_strides(mut self, strides: impl Into<Strides>) -> Self {
        self.q = Some(strides.into());
        self
    }

    /// Strides of K.
    pub fn k_strides(mut self, strides: impl Into<Strides>) -> Self {
        self.k = Some(strides.into());
        self
    }

    /// Strides of V. Of transposed V `[B, Hk, Dv, keys]` those of batch, column and head.
    pub fn v_strides(mut self, strides: impl Into<Strides>) -> Self {
        self.v = Some(strides.into());
        self
    }

    /// Strides of O.
    pub fn o_strides(mut self, strides: impl Into<Strides>) -> Self {
        self.o = Some(strides.into());
        self
    }

    /// Checks everything that does not depend on what schedules there are.
    ///
    /// # Errors
    /// [`Error::Shape`] for what is missing, heads that do not divide, extents above 2^30 and scales of a shape that the
    /// tensor cannot have; [`Error::Element`] for a type without a forward pass here, and for [`Fp8`] of 16-bit elements;
    /// [`Error::Scale`]; [`Error::Stride`] with tensor and dimension.
    pub fn build(self) -> Result<Problem> {
        let missing = |what: &str| Error::Shape(format!("{what} must be given"));
        let queries = self.queries.ok_or_else(|| missing("queries"))?;
        let heads = self.heads.ok_or_else(|| missing("heads"))?;
        let head_dim = self.head_dim.ok_or_else(|| missing("the head dimension"))?;
        let (batch, keys) = (self.batch.unwrap_or(1), self.keys.unwrap_or(queries));
        let kv_heads = self.kv_heads.unwrap_or(heads);
        let element = self.element.unwrap_or(Element::Bf16);
        let fp8 = fp8(element, self.fp8)?;
        check_extents(batch, queries, keys, heads, kv_heads)?;
        check_head_dim(head_dim, element)?;
        let (qk, v) = (u64::from(head_dim.qk), u64::from(head_dim.v));
        let mut problem = Problem {
            batch,
            queries,
            keys,
            heads,
            kv_heads,
            head_dim,
            element,
            fp8,
            causal: self.causal,
            scale: scale(self.scale, head_dim.qk)?,
            q: strides(self.q, "q", queries, heads, qk)?,
            k: strides(self.k, "k", keys, kv_heads, qk)?,
            v: strides(self.v, "v", keys, kv_heads, v)?,
            o: strides(self.o, "o", queries, heads, v)?,
        };
        if problem.has_transposed_values() && self.v.is_none() {
            // Heads before columns, in which a column stands for a token.
            let [_, columns, kv_heads, keys] = problem.layouts()[2].extents;
            strides(None, "v", columns.saturating_mul(keys), kv_heads, batch)?;
            problem.v = Strides::heads_first(columns, kv_heads, keys);
        }
        let layouts = problem.layouts();
        layouts.iter().zip(problem.element_bytes()).try_for_each(|(layout, bytes)| layout.check(bytes))?;
        if !problem.is_empty() {
            layouts[3].check_apart(element.output_bytes())?;
        }
        problem.check_scales()?;
        Ok(problem)
    }
}

/// Extents within their limits, and heads that divide.
fn check_extents(batch: u64, queries: u64, keys: u64, heads: u64, kv_heads: u64) -> Result<()> {
    let shape = |what: String| Err(Error::Shape(what));
    let named = [("batch", batch), ("queries", queries), ("keys", keys), ("heads", heads), ("kv_heads", kv_heads)];
    if let Some((name, extent)) = named.into_iter().find(|&(_, extent)| extent > EXTENT_MAX) {
        return shape(format!("{name} = {extent} is above the limit of 2^30"));
    }
    if heads > 0 && (kv_heads == 0 || !heads.is_multiple_of(kv_heads)) {
        let why = "each key head serves a whole group";
        return shape(format!("kv_heads = {kv_heads} does not divide heads = {heads}: {why}"));
    }
    let rows = batch.checked_mul(heads).and_then(|all| all.checked_mul(queries));
    if rows.is_none_or(|rows| rows > ROWS_MAX) {
        let rows = format!("{batch} batches of {heads} heads of {queries} queries");
        return shape(format!("{rows} are above the limit of 2^48 rows"));
    }
    Ok(())
}

/// What 8-bit elements have and others have not.
fn fp8(element: Element, given: Option<Fp8>) -> Result<Option<Fp8>> {
    let refuse = |reason: &str| Err(Error::Element { found: element.to_string(), reason: reason.into() });
    match (element, given) {
        (Element::Bf16 | Element::F16, None) => Ok(None),
        (Element::Bf16 | Element::F16, Some(_)) => {
            refuse("scales, an order of V and a type of O are of 8-bit elements")
        }
        (Element::E4m3 | Element::E5m2, given) => {
            let fp8 = given.unwrap_or_default();
            fp8.check()?;
            Ok(Some(fp8))
        }
        _ => refuse("a problem here is of bf16, f16, e4m3 or e5m2"),
    }
}

/// Rows of whole 16-byte pieces.
fn check_head_dim(head_dim: HeadDim, element: Element) -> Result<()> {
    let step = 16 / element.bytes() as u32;
    let odd = |&(_, dim): &(&str, u32)| dim == 0 || !dim.is_multiple_of(step);
    match [("D", head_dim.qk), ("Dv", head_dim.v)].into_iter().find(odd) {
        Some((name, dim)) => {
            Err(Error::Shape(format!("head dimension {name} = {dim} is not a positive multiple of {step} (16 bytes)")))
        }
        None => Ok(()),
    }
}

/// The strides given, or those of a contiguous tensor.
fn strides(given: Option<Strides>, tensor: &str, tokens: u64, heads: u64, dim: u64) -> Result<Strides> {
    let elements = tokens.checked_mul(heads).and_then(|rows| rows.checked_mul(dim));
    match given {
        Some(strides) => Ok(strides),
        None if elements.is_some() => Ok(Strides::contiguous(tokens, heads, dim)),
        None => Err(Error::Shape(format!("tensor {tensor}: its offsets pass 63 bits"))),
    }
}

/// The scale given, or 1/sqrt(D).
fn scale(given: Option<f64>, dim: u32) -> Result<f64> {
    /// Keeps scale * log2(e) a normal single-precision number, with room for products.
    const RANGE: std::ops::RangeInclusive<i32> = -100..=100;
    let scale = given.unwrap_or_else(|| f64::from(dim).sqrt().recip());
    let (low, high) = (2_f64.powi(*RANGE.start()), 2_f64.powi(*RANGE.end()));
    if (low..=high).contains(&scale) { Ok(scale) } else { Err(Error::Scale(scale)) }
}
