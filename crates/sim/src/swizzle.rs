//! Where swizzled data lies in shared memory (PTX ISA, "Swizzling Modes"; "Matrix Descriptor Format").

use ptx::Swizzle;

use crate::finding::{Done, Fault, Kind};

/// The permutation of an address: bits of the 128-byte line go into the bits of the 16-byte chunk.
pub(crate) fn permute(swizzle: Swizzle, address: u32) -> u32 {
    let mask = match swizzle {
        Swizzle::None => 0,
        Swizzle::B32 => 0x10,
        Swizzle::B64 => 0x30,
        Swizzle::B128 => 0x70,
    };
    address ^ (address >> 3 & mask)
}

/// What the 64 bits of a matrix descriptor say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descriptor {
    start: u32,
    leading: u32,
    stride: u32,
    swizzle: Swizzle,
}

/// Rows of a core matrix, and elements of 16 bits in a chunk.
const EIGHT: u32 = 8;
/// Bytes of a chunk.
const CHUNK: u32 = 16;

impl Descriptor {
    /// Reads a descriptor.
    pub fn decode(bits: u64) -> Done<Descriptor> {
        let field = |shift: u32| ((bits >> shift & 0x3fff) as u32) << 4;
        if bits >> 49 & 7 != 0 {
            let message = format!("matrix descriptor {bits:#x} has a base offset");
            return Err(Fault::new(Kind::Unsupported, message));
        }
        let swizzle = match bits >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::B128,
            2 => Swizzle::B64,
            _ => Swizzle::B32,
        };
        Ok(Descriptor { start: field(0), leading: field(16), stride: field(32), swizzle })
    }

    /// The address of the 16-byte chunk with element (`mn`, `k`) of a K-major operand whose elements have so many bytes;
    /// the element is the first of its chunk.
    pub fn k_major(&self, mn: u32, k: u32, bytes: u32) -> u32 {
        let along = k * bytes;
        let linear = match self.swizzle {
            Swizzle::None => mn / EIGHT * self.stride + along / CHUNK * self.leading + mn % EIGHT * CHUNK,
            swizzle => mn / EIGHT * self.stride + mn % EIGHT * swizzle.row_bytes() + along,
        };
        permute(self.swizzle, self.start.wrapping_add(linear))
    }

    /// The same of an operand that is contiguous along the other dimension, which only one of 16-bit elements may be.
    pub fn mn_major(&self, mn: u32, k: u32) -> u32 {
        let linear = match self.swizzle {
            Swizzle::None => mn / EIGHT * self.stride + k / EIGHT * self.leading + k % EIGHT * CHUNK,
            swizzle => {
                let row = swizzle.row_bytes();
                let across = row / 2;
                mn / across * self.leading + k / EIGHT * self.stride + k % EIGHT * row + mn % across * 2
            }
        };
        permute(self.swizzle, self.start.wrapping_add(linear))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_a_row_are_permuted_by_the_row() {
        for (swizzle, shift, mask) in [(Swizzle::B128, 0, 7), (Swizzle::B64, 1, 3), (Swizzle::B32, 2, 1)] {
            let row = swizzle.row_bytes();
            for r in 0..16 {
                for c in 0..row / 16 {
                    let expected = r * row + ((c ^ (r >> shift & mask)) << 4);
                    assert_eq!(permute(swizzle, 1024 + r * row + 16 * c), 1024 + expected);
                }
            }
        }
    }

    #[test]
    fn a_descriptor_walks_a_k_major_tile() {
        // 64 rows of 128 bytes at 0x800: stride 1024, the second k-step 32 bytes on.
        let bits = 0x4000_0040_0001_0000 | (0x800 + 32) >> 4;
        let descriptor = Descriptor::decode(bits).expect("a descriptor");
        assert_eq!(descriptor.k_major(0, 0, 2), 0x820);
        assert_eq!(descriptor.k_major(9, 8, 2), 0x800 + 9 * 128 + ((3 ^ 1) << 4));
        // 8-bit elements: twice as many in the same chunk.
        assert_eq!(descriptor.k_major(9, 16, 1), descriptor.k_major(9, 8, 2));
    }
}
