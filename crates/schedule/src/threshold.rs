//! A rescale threshold: a finite f32 above zero, kept so that it can be compared and hashed.
//!
//! Knows nothing of which thresholds are safe for an element type.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A finite number above zero, in base-2 exponent units: `8.0` lets an unscaled P reach 2^8.
#[derive(Debug, Clone, Copy)]
pub struct Threshold(f32);

impl Threshold {
    /// `None` unless `value` is finite and above zero.
    pub const fn new(value: f32) -> Option<Self> {
        if value.is_finite() && value > 0.0 { Some(Self(value)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> f32 {
        self.0
    }
}

impl PartialEq for Threshold {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Threshold {}

impl Hash for Threshold {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// The shortest decimal that reads back to the same bits, always with a point or an exponent.
impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Threshold;

    #[test]
    fn only_finite_numbers_above_zero() {
        for bad in [0.0, -0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(Threshold::new(bad), None);
        }
        assert_eq!(Threshold::new(8.0).map(|t| t.to_string()).as_deref(), Some("8.0"));
    }
}
