//! The problems that are tuned for: a grid such as the FlashAttention-3 paper's, or one in a user's words.

use runtime::{Error, Result};
use schedule::cost::Description;
use schedule::{Element, HeadDim, Variant};

use crate::Problem;
use crate::policy::tuned::variant;

/// Problems that take the same schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Class {
    /// Element type.
    pub element: Element,
    /// Head dimensions.
    pub head_dim: HeadDim,
    /// Mask.
    pub variant: Variant,
}

impl Class {
    /// That of a problem.
    pub fn of(problem: &Problem) -> Self {
        Self { element: problem.element(), head_dim: problem.head_dim(), variant: variant(problem) }
    }
}

/// `bf16 causal, head dimension 128`
impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}, head dimension {}", self.element, self.variant, self.head_dim)
    }
}

/// Every head dimension with every mask and length, class by class: batch times length is `tokens`, heads times head
/// dimension `hidden`, at least one each.
///
/// # Errors
/// Those of [`crate::ProblemBuilder::build`].
pub fn grid(
    element: Element,
    head_dims: &[u32],
    masks: &[bool],
    lengths: &[u64],
    (tokens, hidden): (u64, u64),
) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for &dim in head_dims {
        for &causal in masks {
            for &length in lengths {
                let batch = tokens.checked_div(length).unwrap_or(1).max(1);
                let heads = hidden.checked_div(dim.into()).unwrap_or(1).max(1);
                let builder = Problem::builder().element(element).batch(batch).queries(length).heads(heads);
                problems.push(builder.head_dim(dim).causal(causal).build()?);
            }
        }
    }
    Ok(problems)
}

/// A problem in words: see [`Description`]. The head dimension must be said; bf16 and no mask are what is meant unless said.
///
/// # Errors
/// What does not read, 8-bit elements, and those of [`crate::ProblemBuilder::build`].
pub fn described(text: &str) -> Result<Problem> {
    let Description { batch, queries, keys, heads, kv_heads, head_dim, element, causal } =
        Description::parse(text).map_err(Error::Shape)?;
    let head_dim = head_dim.ok_or_else(|| Error::Shape("head_dim must be said, as head_dim=128".into()))?;
    let element = element.unwrap_or(Element::Bf16);
    if element.is_fp8() {
        let reason = "what is tuned for is of bf16 or f16".to_owned();
        return Err(Error::Element { found: element.to_string(), reason });
    }
    let builder = Problem::builder().batch(batch).queries(queries).keys(keys).heads(heads).kv_heads(kv_heads);
    let builder = builder.head_dims(head_dim.qk, head_dim.v).element(element);
    builder.causal(causal.unwrap_or(false)).build()
}
