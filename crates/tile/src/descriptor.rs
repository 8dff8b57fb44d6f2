//! Matrix descriptors: the 64 bits through which wgmma reads a shared tile (PTX ISA, "Matrix Descriptor Format").
//!
//! The high word (stride between groups of 8, swizzle) is a constant of the tile. The low word holds the start
//! address and the leading offset; it is computed once a role and moved by constants.

use ptx::qual::{Bits, Int, Shr, Value};
use ptx::{R32, R64, Swizzle, op};

use crate::asm::Asm;
use crate::shared::SharedTile;

/// Bytes that one k-step of any element type spans in a K-major row.
const K_STEP_BYTES: u32 = 32;
/// Rows of k that one 16-bit wgmma consumes.
const K_STEP_ROWS: u32 = 16;

/// How an operand's contiguous dimension lies to the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Major {
    /// The contiguous dimension is summed over.
    K,
    /// The contiguous dimension is a dimension of the result.
    Mn,
}

/// An operand of wgmma in shared memory.
#[derive(Debug, Clone)]
pub struct SharedOperand {
    tile: SharedTile,
    major: Major,
    low: R32,
    high: R32,
}

/// A descriptor of one stage, to be moved by k-steps.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor(R64);

impl SharedOperand {
    /// The operand whose first stage starts at `smem` + the tile's offset + `row_offset` bytes.
    pub fn new(asm: &mut Asm, tile: &SharedTile, major: Major, smem: R32, row_offset: Option<R32>) -> SharedOperand {
        // The address field takes bits 4 to 17 of the address; the CTA's rank above them must not reach the
        // leading offset.
        let mut address = asm.b32(|d| op::add(Int::U32, d, smem, tile.offset()));
        if let Some(rows) = row_offset {
            address = asm.b32(|d| op::add(Int::U32, d, address, rows));
        }
        let masked = asm.b32(|d| op::and(Bits::B32, d, address, 0x3ffff));
        let start = asm.b32(|d| op::shr(Shr::U32, d, masked, 4));
        let leading = match major {
            Major::K => 1,
            Major::Mn => tile.panel_bytes() >> 4,
        };
        let low = asm.b32(|d| op::or(Bits::B32, d, start, leading << 16));
        let code: u32 = match tile.swizzle() {
            Swizzle::None => 0,
            Swizzle::B128 => 1,
            Swizzle::B64 => 2,
            Swizzle::B32 => 3,
        };
        let stride = (8 * tile.row_bytes()) >> 4;
        // As a signed immediate of the same bits.
        let high_bits = (stride | code << 30) as i32;
        let high = asm.b32(|d| op::mov(Value::B32, d, high_bits));
        SharedOperand { tile: tile.clone(), major, low, high }
    }

    /// How the operand lies.
    pub fn major(&self) -> Major {
        self.major
    }

    /// The descriptor of a stage.
    pub fn stage(&self, asm: &mut Asm, stage: Option<R32>) -> Descriptor {
        let low = asm.indexed(self.low, stage, self.tile.stage_bytes() >> 4);
        Descriptor(asm.b64(|d| op::mov_pack(d, ptx::Operand::vector(&[low, self.high]))))
    }

    /// The descriptor of a stage from a row on, a multiple of 8.
    pub fn stage_row(&self, asm: &mut Asm, stage: Option<R32>, row: R32) -> Descriptor {
        let low = asm.indexed(self.low, stage, self.tile.stage_bytes() >> 4);
        let low = asm.b32(|d| op::mad_lo(Int::U32, d, row, self.tile.row_bytes() >> 4, low));
        Descriptor(asm.b64(|d| op::mov_pack(d, ptx::Operand::vector(&[low, self.high]))))
    }

    /// The descriptor of what lies so many bytes behind another one's start: further stages, or
    /// rows in whole groups of 8.
    pub fn behind(&self, asm: &mut Asm, start: Descriptor, bytes: u32) -> Descriptor {
        match bytes >> 4 {
            0 => start,
            units => Descriptor(asm.b64(|d| op::add(Int::S64, d, start.0, units))),
        }
    }

    /// The descriptor of a K-major stage from a column of the result on, a multiple of 8: a row of the tile.
    pub fn columns_from(&self, asm: &mut Asm, stage: Descriptor, column: u32) -> Descriptor {
        self.behind(asm, stage, column * self.tile.row_bytes())
    }

    /// Bytes from the start of a stage to k-step `step`.
    pub fn k_step_bytes(&self, step: u32) -> u32 {
        match self.major {
            Major::K => {
                let per_panel = self.tile.row_bytes() / K_STEP_BYTES;
                step / per_panel * self.tile.panel_bytes() + step % per_panel * K_STEP_BYTES
            }
            Major::Mn => step * K_STEP_ROWS * self.tile.row_bytes(),
        }
    }

    /// The descriptor of a k-step of a stage.
    pub fn k_step(&self, asm: &mut Asm, stage: Descriptor, step: u32) -> R64 {
        match self.k_step_bytes(step) >> 4 {
            0 => stage.0,
            // The start address field cannot carry out of its 14 bits, so the sum is exact.
            units => asm.b64(|d| op::add(Int::S64, d, stage.0, units)),
        }
    }
}
