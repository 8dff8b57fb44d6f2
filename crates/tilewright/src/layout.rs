//! Where the elements of a tensor `[B, S, H, D]` lie.

use runtime::{Error, Result};

/// Strides of a tensor `[B, S, H, D]` in elements; the last dimension is contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Strides {
    /// From one batch to the next.
    pub batch: u64,
    /// From one token to the next.
    pub token: u64,
    /// From one head to the next.
    pub head: u64,
}

impl Strides {
    /// Strides of `[B, S, H]` in that order.
    pub const fn new(batch: u64, token: u64, head: u64) -> Self {
        Self { batch, token, head }
    }

    /// Of a tensor stored as `[B, S, H, D]` without gaps.
    pub const fn contiguous(tokens: u64, heads: u64, dim: u64) -> Self {
        Self { batch: tokens * heads * dim, token: heads * dim, head: dim }
    }

    /// Of a tensor stored as `[B, H, S, D]` without gaps.
    pub const fn heads_first(tokens: u64, heads: u64, dim: u64) -> Self {
        Self { batch: tokens * heads * dim, token: dim, head: tokens * dim }
    }

    /// Elements from the base to the row at batch `b`, token `s`, head `h`.
    pub const fn row(&self, b: u64, s: u64, h: u64) -> u64 {
        b * self.batch + s * self.token + h * self.head
    }
}

impl From<[u64; 3]> for Strides {
    fn from([batch, token, head]: [u64; 3]) -> Self {
        Self { batch, token, head }
    }
}

/// Extents and strides of one tensor, under its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    /// Extents of `[B, S, H, D]`.
    pub(crate) extents: [u64; 4],
    pub(crate) strides: Strides,
}

/// Rows start on this boundary, bytes: what the copy engine addresses.
const ROW_ALIGN: u64 = 16;
/// Strides stay below this, bytes.
const STRIDE_END: u64 = 1 << 40;

impl Layout {
    /// Each outer dimension by name, extent and stride.
    fn outer(&self) -> [(&'static str, u64, u64); 3] {
        let ([b, s, h, _], Strides { batch, token, head }) = (self.extents, self.strides);
        [("batch", b, batch), ("token", s, token), ("head", h, head)]
    }

    /// Whether it has no element.
    pub(crate) fn is_empty(&self) -> bool {
        self.extents.contains(&0)
    }

    /// Elements that a buffer must have from the base on: one past the last element's offset.
    pub(crate) fn reach(&self) -> Option<u64> {
        if self.is_empty() {
            return Some(0);
        }
        self.outer().iter().try_fold(self.extents[3], |sum, &(_, extent, stride)| {
            (extent - 1).checked_mul(stride).and_then(|offset| sum.checked_add(offset))
        })
    }

    /// Holds the strides against what the copy engine takes. The stride of an extent of 1 is never used.
    ///
    /// # Errors
    /// [`Error::Stride`] with tensor and dimension; [`Error::Shape`] where offsets pass 64 bits.
    pub(crate) fn check(&self, bytes: u64) -> Result<()> {
        let refuse = |dimension: &str, stride: u64, rule| {
            let (tensor, bytes) = (self.name.to_owned(), stride.saturating_mul(bytes));
            Err(Error::Stride { tensor, dimension: dimension.into(), bytes, rule })
        };
        for (dimension, extent, stride) in self.outer() {
            match stride.checked_mul(bytes) {
                _ if extent <= 1 => {}
                Some(offset) if offset < STRIDE_END && offset.is_multiple_of(ROW_ALIGN) => {}
                Some(offset) if offset < STRIDE_END => {
                    return refuse(dimension, stride, "a stride is a multiple of 16 bytes");
                }
                _ => return refuse(dimension, stride, "a stride is less than 2^40 bytes"),
            }
        }
        match self.reach().and_then(|elements| elements.checked_mul(bytes)) {
            Some(reach) if reach < 1 << 63 => Ok(()),
            _ => Err(Error::Shape(format!("tensor {}: its offsets pass 63 bits", self.name))),
        }
    }

    /// Refuses an output whose elements may share addresses: two blocks would write one place.
    ///
    /// # Errors
    /// [`Error::Stride`] with the first dimension whose stride is shorter than what lies inside of it.
    pub(crate) fn check_apart(&self, bytes: u64) -> Result<()> {
        let mut outer: Vec<_> = self.outer().into_iter().filter(|&(_, extent, _)| extent > 1).collect();
        outer.sort_by_key(|&(_, _, stride)| stride);
        let mut inside = self.extents[3];
        for (dimension, extent, stride) in outer {
            if stride < inside {
                let rule = "an output's rows do not overlap";
                return Err(Error::Stride {
                    tensor: self.name.into(),
                    dimension: dimension.into(),
                    bytes: stride * bytes,
                    rule,
                });
            }
            inside += (extent - 1) * stride;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(extents: [u64; 4], strides: Strides) -> Layout {
        Layout { name: "k", extents, strides }
    }

    #[test]
    fn a_contiguous_tensor_reaches_its_element_count() {
        for strides in [Strides::contiguous(5, 3, 64), Strides::heads_first(5, 3, 64)] {
            let found = layout([2, 5, 3, 64], strides);
            assert_eq!(found.reach(), Some(2 * 5 * 3 * 64));
            assert_eq!((found.check(2), found.check_apart(2)), (Ok(()), Ok(())));
        }
        assert_eq!(layout([2, 0, 3, 64], Strides::contiguous(0, 3, 64)).reach(), Some(0));
    }

    #[test]
    fn offsets_above_2_to_the_32_are_counted_in_64_bits() {
        let cache = layout([5, 16, 1, 128], Strides::new(1 << 30, 128, 128));
        assert_eq!(cache.reach(), Some(4 * (1 << 30) + 15 * 128 + 128));
        assert_eq!(cache.check(2), Ok(()));
    }

    #[test]
    fn odd_and_far_strides_are_refused_by_dimension() {
        let odd = layout([1, 130, 2, 64], Strides::new(0, 66 * 2, 64)).check(2).expect_err("264 bytes").to_string();
        assert!(odd.contains("tensor k: stride of token is 264 bytes"), "{odd}");
        let far = layout([2, 1, 1, 64], Strides::new(1 << 39, 0, 0)).check(2).expect_err("2^40 bytes").to_string();
        assert!(far.contains("stride of batch"), "{far}");
        assert_eq!(layout([1, 1, 1, 64], Strides::new(1 << 50, 7, 3)).check(2), Ok(()));
        assert!(layout([u64::MAX, 2, 1, 64], Strides::new(1 << 38, 64, 64)).check(2).is_err());
    }

    #[test]
    fn outputs_may_interleave_heads_but_not_share_rows() {
        assert_eq!(layout([2, 5, 3, 64], Strides::new(8192, 64 * 18, 64)).check_apart(2), Ok(()));
        let shared = layout([2, 5, 3, 64], Strides::new(0, 192, 64)).check_apart(2).expect_err("broadcast").to_string();
        assert!(shared.contains("batch"), "{shared}");
        assert!(layout([1, 5, 3, 64], Strides::new(0, 128, 64)).check_apart(2).is_err());
    }
}
