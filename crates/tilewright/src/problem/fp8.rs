//! What only a problem of 8-bit elements has: how its scales and V lie, the type of O, how sums of it are kept.

use std::fmt;

use runtime::{Error, Result};
use schedule::fp8::QUERY_SCALE_ROWS;
use schedule::{Output, Values};

use super::Problem;

/// Kernels count scales by 32-bit numbers.
const SCALES_MAX: u64 = u32::MAX as u64;

/// Which elements of Q, K or V share a scale, and the shape of the scales: f32, finite and above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScaleBy {
    /// None are given: 1 everywhere.
    One,
    /// The whole tensor has one: `[1]`.
    Tensor,
    /// A key head, and of Q the query heads that read it together: `[B, Hk]`, as FlashAttention-3 takes them.
    KvHead,
    /// A head of the tensor's own: `[B, Hq]` of Q, `[B, Hk]` of K and V.
    Head,
    /// So many rows of a head: `[B, H, ceil(S / n)]`. Of Q 64 rows, of K the key tile of the schedule; not of V.
    Block(u32),
}

/// Strides of scales `[B, H, blocks]` in elements; any of them may be 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScaleStrides {
    /// From one batch to the next.
    pub batch: u64,
    /// From one head to the next.
    pub head: u64,
    /// From one block of rows to the next; not looked at without blocks.
    pub block: u64,
}

/// How the scales of a tensor lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScaleLayout {
    /// Which elements share one.
    pub by: ScaleBy,
    /// None: without gaps.
    pub strides: Option<ScaleStrides>,
}

/// Where sums of O are kept. The tensor cores add products of 8-bit elements with about 13 bits of fraction, so that long
/// rows lose bits of what has one sign: values, and the weights whose sum is in LSE. On an H200, over normal scores and values of 0.5 to 1.25, accurate ones by groups of four key tiles:
///
/// | keys | O, fast | O, accurate | LSE, fast | LSE, accurate |
/// |---|---|---|---|---|
/// | 4,096 | 2.0 % | 0.4 % | 0.06 | 0.004 |
/// | 32,768 | 4.0 % | 0.5 % | 0.5 | 0.003 |
/// | 131,072 | 4.4 % | 0.5 % | 1.3 | 0.003 |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Accumulation {
    /// In the tensor cores, which is the fastest and what FlashAttention-3 does. Values of both signs lose little; LSE of
    /// long rows is off all the same.
    #[default]
    Fast,
    /// In a total apart, in shared memory or in registers, to which the tensor cores' sums are added every few key tiles.
    /// Head dimensions up to 128.
    Accurate,
    /// [`Accumulation::Accurate`] from [`Accumulation::LONG`] keys on where there is a schedule for it, else
    /// [`Accumulation::Fast`].
    Auto,
}

/// How P, the exponentials of the scores, is made where it has 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Exponentials {
    /// Each by the exponential unit, or by a polynomial within 0.2 % where the schedule has one (an eighth of them at head
    /// dimension 64), and rounded to e4m3.
    #[default]
    Exact,
    /// Linear between powers of two, by schedules that have it: e4m3 at head dimensions 64, 128 and 256 with V transposed and
    /// sums in the tensor cores. It is faster, as up to 128 the exponential unit is what these wait for. Every element of P has an
    /// error of 3.1 % (its deviation) where rounding alone has 2.6 %; its mean is the same. Where there is no such
    /// schedule, and where sums are accurate, P is exact.
    Linear,
}

/// What only a problem of 8-bit elements has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fp8 {
    /// Type of O.
    pub output: Output,
    /// How V lies: row by row as a KV cache has it, or transposed as the quantizer writes it.
    pub values: Values,
    /// Scales of Q.
    pub q: ScaleLayout,
    /// Scales of K.
    pub k: ScaleLayout,
    /// Scales of V.
    pub v: ScaleLayout,
    /// Where sums of O are kept.
    pub accumulation: Accumulation,
    /// How P is made.
    pub exponentials: Exponentials,
}

impl Accumulation {
    /// Keys from which [`Accumulation::Auto`] is accurate: the tensor cores' sums then lose as much of O as rounding to
    /// e4m3 does, where its values have one sign.
    pub const LONG: u64 = 8192;

    /// Whether a problem of so many keys would rather have accurate sums.
    pub(crate) fn is_accurate(self, keys: u64) -> bool {
        match self {
            Self::Fast => false,
            Self::Accurate => true,
            Self::Auto => keys >= Self::LONG,
        }
    }
}

impl ScaleBy {
    /// How many rows share a scale at most, where not all of a head do.
    pub const fn rows(self) -> Option<u32> {
        match self {
            Self::Block(rows) => Some(rows),
            _ => None,
        }
    }
}

impl From<ScaleBy> for ScaleLayout {
    fn from(by: ScaleBy) -> Self {
        Self { by, strides: None }
    }
}

/// What FlashAttention-3 takes: V row by row, a scale a key head for each of Q, K and V, bf16 out, sums by the tensor
/// cores, P exact.
impl Default for Fp8 {
    fn default() -> Self {
        let scales = ScaleLayout::from(ScaleBy::KvHead);
        Self {
            output: Output::Bf16,
            values: Values::Rows,
            q: scales,
            k: scales,
            v: scales,
            accumulation: Accumulation::default(),
            exponentials: Exponentials::default(),
        }
    }
}

impl Fp8 {
    /// What the quantizer writes by default for a schedule whose key tile has so many rows: V transposed, scales of Q by
    /// 64 rows, of K by the tile, of V by head.
    pub fn quantized(key_block: u32) -> Self {
        let [q, k, v] = [ScaleBy::Block(QUERY_SCALE_ROWS), ScaleBy::Block(key_block), ScaleBy::Head];
        Self { values: Values::Transposed, q: q.into(), k: k.into(), v: v.into(), ..Self::default() }
    }

    /// The same with P made so.
    pub const fn exponentials(self, exponentials: Exponentials) -> Self {
        Self { exponentials, ..self }
    }

    /// The scales of Q, K and V under their tensors' names.
    pub(crate) fn scales(&self) -> [(&'static str, ScaleLayout); 3] {
        [("q", self.q), ("k", self.k), ("v", self.v)]
    }

    /// What does not depend on shapes.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |tensor: &str, why: String| Err(Error::Shape(format!("{tensor} scales: {why}")));
        for (tensor, ScaleLayout { by, .. }) in self.scales() {
            match (tensor, by) {
                ("q", ScaleBy::Block(rows)) if rows != QUERY_SCALE_ROWS => {
                    let has = format!("Q has one for {QUERY_SCALE_ROWS} rows, a head or the tensor");
                    return refuse(tensor, format!("{by} is not there: {has}"));
                }
                ("k", ScaleBy::Block(0)) => return refuse(tensor, "a block has at least one row".into()),
                ("v", ScaleBy::Block(_)) => {
                    return refuse(tensor, format!("{by} is not there: V has one for a head or the tensor"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The scales of one tensor of a problem: extents and strides of `[B, H, blocks]`, extents of 1 where they are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScaleGrid {
    /// As messages name it: `k scales`.
    pub(crate) name: &'static str,
    pub(crate) by: ScaleBy,
    pub(crate) extents: [u64; 3],
    pub(crate) strides: [u64; 3],
    /// Whether the strides are those of a buffer without gaps.
    pub(crate) close: bool,
}

impl ScaleGrid {
    fn new(problem: &Problem, tensor: &str, ScaleLayout { by, strides }: ScaleLayout) -> Self {
        let (name, rows, heads) = match tensor {
            "q" => ("q scales", problem.queries, problem.heads),
            "k" => ("k scales", problem.keys, problem.kv_heads),
            _ => ("v scales", problem.keys, problem.kv_heads),
        };
        let extents = match by {
            ScaleBy::One | ScaleBy::Tensor => [1; 3],
            ScaleBy::KvHead => [problem.batch, problem.kv_heads, 1],
            ScaleBy::Head => [problem.batch, heads, 1],
            ScaleBy::Block(n) => [problem.batch, heads, rows.div_ceil(u64::from(n.max(1)))],
        };
        let [_, h, blocks] = extents;
        let whole = [h.saturating_mul(blocks), blocks, 1];
        let found = match (by, strides) {
            (ScaleBy::One | ScaleBy::Tensor, _) => [0; 3],
            (ScaleBy::Block(_), Some(ScaleStrides { batch, head, block })) => [batch, head, block],
            (_, Some(ScaleStrides { batch, head, .. })) => [batch, head, 0],
            (ScaleBy::Block(_), None) => whole,
            (_, None) => [whole[0], whole[1], 0],
        };
        // No keys have no scales.
        let extents = if rows == 0 { [0; 3] } else { extents };
        Self { name, by, extents, strides: found, close: strides.is_none() }
    }

    /// Elements from the first to the last.
    pub(crate) fn reach(&self) -> u64 {
        if self.extents.contains(&0) {
            return 0;
        }
        let offsets = self.extents.iter().zip(self.strides).map(|(n, stride)| (n - 1).saturating_mul(stride));
        offsets.fold(1, u64::saturating_add)
    }

    fn check(&self) -> Result<()> {
        let dimensions = ["batch", "head", "block"].into_iter().zip(self.extents).zip(self.strides);
        for ((dimension, extent), stride) in dimensions {
            if extent > 1 && stride > SCALES_MAX {
                return Err(Error::Stride {
                    tensor: self.name.into(),
                    dimension: dimension.into(),
                    bytes: stride.saturating_mul(4),
                    rule: "a stride of scales is less than 2^32 elements",
                });
            }
        }
        match self.reach() {
            reach if reach > SCALES_MAX => {
                Err(Error::Shape(format!("{}: they reach over {reach} elements, the limit is 2^32 - 1", self.name)))
            }
            _ => Ok(()),
        }
    }
}

impl Problem {
    /// The scales of Q, K and V; none of 16-bit elements.
    pub(crate) fn scale_grids(&self) -> Option<[ScaleGrid; 3]> {
        self.fp8.map(|fp8| fp8.scales().map(|(tensor, layout)| ScaleGrid::new(self, tensor, layout)))
    }

    pub(super) fn check_scales(&self) -> Result<()> {
        self.scale_grids().iter().flatten().try_for_each(ScaleGrid::check)
    }
}

/// `block(64)`, `head`, `kv_head`, `tensor` or `one`.
impl fmt::Display for ScaleBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("one"),
            Self::Tensor => f.write_str("tensor"),
            Self::KvHead => f.write_str("kv_head"),
            Self::Head => f.write_str("head"),
            Self::Block(rows) => write!(f, "block({rows})"),
        }
    }
}

/// `V by rows, scales by q kv_head, k kv_head, v kv_head, O in bf16, accurate sums, P linear`
impl fmt::Display for Fp8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { output, values, q, k, v, accumulation, exponentials } = self;
        match values {
            Values::Transposed => f.write_str("V transposed")?,
            _ => f.write_str("V by rows")?,
        }
        write!(f, ", scales by q {}, k {}, v {}, O in {output}", q.by, k.by, v.by)?;
        match accumulation {
            Accumulation::Fast => {}
            Accumulation::Accurate => f.write_str(", accurate sums")?,
            Accumulation::Auto => write!(f, ", accurate sums from {} keys on", Accumulation::LONG)?,
        }
        match exponentials {
            Exponentials::Exact => Ok(()),
            Exponentials::Linear => f.write_str(", P linear"),
        }
    }
}

#[cfg(test)]
mod tests;
