//! A problem in words, as command lines take it: `batch=4 queries=2048 heads=32 kv_heads=8 head_dim=128 causal=true`.

use super::Work;
use crate::{Element, HeadDim};

/// A problem, with what a schedule fixes where the words say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// Batch entries; 1 unless said.
    pub batch: u64,
    /// Query rows.
    pub queries: u64,
    /// Keys; as many as queries unless said.
    pub keys: u64,
    /// Query heads.
    pub heads: u64,
    /// Key heads; as many as query heads unless said.
    pub kv_heads: u64,
    /// Head dimensions, `128` or `192x128`.
    pub head_dim: Option<HeadDim>,
    /// Element type.
    pub element: Option<Element>,
    /// Whether the mask is causal.
    pub causal: Option<bool>,
}

/// What can be said.
const NAMES: [&str; 8] = ["batch", "queries", "keys", "heads", "kv_heads", "head_dim", "element", "causal"];

impl Description {
    /// Reads `name=value` words, apart by spaces or commas.
    ///
    /// # Errors
    /// A word of another form, an unknown or repeated name, a value that is none; queries or heads missing; key heads that
    /// do not divide the query heads.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut said, mut numbers) = (Vec::new(), [None; 5]);
        let (mut head_dim, mut element, mut causal) = (None, None, None);
        for word in text.split([' ', ',', '\n', '\t']).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("{word} is not of the form name=value"))?;
            let Some(index) = NAMES.iter().position(|known| *known == name) else {
                return Err(format!("{name} is none of {}", NAMES.join(", ")));
            };
            if said.contains(&name) {
                return Err(format!("{name} is said twice"));
            }
            said.push(name);
            let none = |form: &str| format!("{name}={value}: not {form}");
            match name {
                "head_dim" => head_dim = Some(dims(value).ok_or_else(|| none("a number, or two as 192x128"))?),
                "element" => {
                    let known = Element::ALL.iter().find(|element| element.keyword() == value);
                    element = Some(*known.ok_or_else(|| none("an element type such as bf16"))?);
                }
                "causal" => causal = Some(value.parse().map_err(|_| none("true or false"))?),
                _ => numbers[index] = Some(value.parse::<u64>().map_err(|_| none("a whole number"))?),
            }
        }
        let [batch, queries, keys, heads, kv_heads] = numbers;
        let queries = queries.ok_or("queries must be said, as queries=2048")?;
        let heads = heads.ok_or("heads must be said, as heads=16")?;
        let kv_heads = kv_heads.unwrap_or(heads);
        if heads > 0 && (kv_heads == 0 || !heads.is_multiple_of(kv_heads)) {
            return Err(format!("kv_heads={kv_heads} does not divide heads={heads}"));
        }
        let keys = keys.unwrap_or(queries);
        Ok(Self { batch: batch.unwrap_or(1), queries, keys, heads, kv_heads, head_dim, element, causal })
    }

    /// Its extents.
    pub fn work(&self) -> Work {
        let group = self.heads.checked_div(self.kv_heads).unwrap_or(1).max(1);
        Work { batch: self.batch, queries: self.queries, keys: self.keys, heads: self.heads, group }
    }
}

fn dims(value: &str) -> Option<HeadDim> {
    match value.split_once('x') {
        Some((qk, v)) => Some(HeadDim { qk: qk.parse().ok()?, v: v.parse().ok()? }),
        None => value.parse().ok().map(HeadDim::same),
    }
}

#[cfg(test)]
mod tests {
    use super::Description;
    use crate::{Element, HeadDim};

    #[test]
    fn what_is_not_said_follows_from_what_is() {
        let all = "batch=4 queries=2048 keys=4096 heads=32 kv_heads=8 head_dim=192x128 element=f16, causal=true";
        let all = Description::parse(all).expect("reads");
        assert_eq!((all.head_dim, all.element), (Some(HeadDim { qk: 192, v: 128 }), Some(Element::F16)));
        assert_eq!((all.work().group, all.keys, all.causal), (4, 4096, Some(true)));
        let few = Description::parse("queries=300 heads=2").expect("reads");
        assert_eq!((few.batch, few.keys, few.kv_heads, few.causal, few.head_dim), (1, 300, 2, None, None));
    }

    #[test]
    fn what_does_not_read_is_told() {
        for (text, part) in [
            ("queries heads=2", "name=value"),
            ("queries=1 heads=2 length=3", "length is none of batch"),
            ("queries=1 queries=2 heads=2", "said twice"),
            ("queries=-1 heads=2", "not a whole number"),
            ("heads=2", "queries must be said"),
            ("queries=2", "heads must be said"),
            ("queries=2 heads=3 kv_heads=2", "does not divide"),
            ("queries=2 heads=3 causal=maybe", "true or false"),
            ("queries=2 heads=3 head_dim=a", "192x128"),
            ("queries=2 heads=3 element=int8", "such as bf16"),
        ] {
            let told = Description::parse(text).expect_err(text);
            assert!(told.contains(part), "`{part}` in {told}");
        }
    }
}
