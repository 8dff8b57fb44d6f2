//! Inclusive bounds of a number, either of which may be absent.

use std::fmt;

use serde::Deserialize;

/// From and to, both inclusive; an absent one does not bind.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds<T> {
    /// The least.
    pub from: Option<T>,
    /// The most.
    pub to: Option<T>,
}

impl<T> Default for Bounds<T> {
    fn default() -> Self {
        Self { from: None, to: None }
    }
}

impl<T: PartialOrd + Copy> Bounds<T> {
    /// From this on.
    pub fn from(least: T) -> Self {
        Self { from: Some(least), to: None }
    }

    /// Whether a number is within.
    pub fn holds(&self, number: T) -> bool {
        self.from.is_none_or(|from| number >= from) && self.to.is_none_or(|to| number <= to)
    }

    /// Whether no number is within.
    pub fn is_empty(&self) -> bool {
        matches!((self.from, self.to), (Some(from), Some(to)) if from > to)
    }

    /// Whether every number is within.
    pub fn is_free(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

/// `{ from = 1, to = 2048 }`, the way TOML takes it.
impl<T: fmt::Debug> fmt::Display for Bounds<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = [("from", &self.from), ("to", &self.to)];
        let sides: Vec<String> =
            sides.iter().filter_map(|(name, side)| Some(format!("{name} = {:?}", side.as_ref()?))).collect();
        write!(f, "{{ {} }}", sides.join(", "))
    }
}
