//! What lies between the quantizer and the attention, in one piece of device memory.

use runtime::{Error, Result};

use crate::{QuantizePointers, Quantizer, RawPointers, ScalePointers};

/// Every part starts on such a boundary from the base on: two sectors of a cache line of L2.
const ALIGN: u64 = 256;
/// The base's: what the copy engine addresses.
const BASE_ALIGN: u64 = 16;

/// What a workspace holds before a launch where it must be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// Zeros, as a launch leaves them.
    Zeros,
    /// Whatever was there: the device's own words are taken for it.
    Anything,
}

/// Offsets of the parts, bytes. What must be zero comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Workspace {
    codes: [u64; 3],
    scales: [u64; 3],
    zeros: u64,
    bytes: u64,
}

impl Workspace {
    pub(super) fn of(quantizer: &Quantizer) -> Self {
        let zeros = quantizer.workspace_bytes();
        let mut end = zeros;
        let mut part = |bytes: u64| {
            let at = end.next_multiple_of(ALIGN);
            // A part without elements has an address all the same.
            end = at + bytes.max(BASE_ALIGN);
            at
        };
        let codes = quantizer.code_elements().map(&mut part);
        let scales = quantizer.scale_elements().map(|elements| part(elements * size_of::<f32>() as u64));
        Self { codes, scales, zeros, bytes: end.next_multiple_of(ALIGN) }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn zeros(&self) -> u64 {
        self.zeros
    }

    /// # Errors
    /// [`Error::Misaligned`].
    pub(super) fn check(base: u64) -> Result<()> {
        if base != 0 && base.is_multiple_of(BASE_ALIGN) {
            return Ok(());
        }
        let rule = "the workspace's address is not null and a multiple of 16 bytes";
        Err(Error::Misaligned { tensor: "workspace".into(), address: base, rule })
    }

    /// Where the quantizer reads and writes.
    pub(super) fn quantizing(&self, base: u64, [q, k, v]: [u64; 3]) -> QuantizePointers {
        let at = |offsets: [u64; 3]| offsets.map(|offset| base + offset);
        QuantizePointers { tensors: [q, k, v], codes: at(self.codes), scales: at(self.scales), workspace: base }
    }

    /// Where the attention reads what the quantizer wrote.
    pub(super) fn quantized(&self, base: u64, at: &RawPointers) -> (RawPointers, ScalePointers) {
        let ([q, k, v], [qs, ks, vs]) = (self.codes, self.scales);
        let codes = RawPointers { q: base + q, k: base + k, v: base + v, ..*at };
        (codes, ScalePointers { q: base + qs, k: base + ks, v: base + vs })
    }
}
