//! Between registers and swizzled shared memory, 16 x 16 elements an instruction: `stmatrix` and `ldmatrix`.

use ptx::qual::{Bits, HalfX2, Int, Matrices, Shr};
use ptx::{Operand, R32, op};

use crate::asm::Asm;
use crate::fragment::{Accumulator, Packed};
use crate::shared::SharedTile;

/// Columns that one `stmatrix.x4` covers.
const BLOCK_COLUMNS: u32 = 16;
/// Bytes that one block spans in a row of 16-bit elements.
const BLOCK_BYTES: u32 = 32;

/// Where this lane's row of an `stmatrix` or `ldmatrix` lies in a tile, for the 16 rows of its warp.
///
/// Lane l supplies row l % 16 and the left (l < 16) or right 8 columns of a block; the chunk of 16 bytes is permuted
/// by the row as the tile's swizzle says.
#[derive(Debug, Clone)]
pub struct MatrixAddress {
    tile: SharedTile,
    row: R32,
    chunk: R32,
}

impl MatrixAddress {
    /// `first_row` is the first of the warp's 16 rows in the tile, a multiple of 16.
    pub fn new(asm: &mut Asm, tile: &SharedTile, lane: R32, first_row: R32) -> MatrixAddress {
        let in_warp = asm.b32(|d| op::and(Bits::B32, d, lane, 15));
        let row = asm.b32(|d| op::add(Int::U32, d, first_row, in_warp));
        let row = asm.b32(|d| op::mul_lo(Int::U32, d, row, tile.row_bytes()));
        let right = asm.b32(|d| op::shr(Shr::U32, d, lane, 4));
        let (shift, mask) = tile.turn();
        let shifted = asm.b32(|d| op::shr(Shr::U32, d, in_warp, shift));
        let turn = asm.b32(|d| op::and(Bits::B32, d, shifted, mask));
        let chunk = asm.b32(|d| op::xor(Bits::B32, d, right, turn));
        let chunk = asm.b32(|d| op::shl(Bits::B32, d, chunk, 4));
        MatrixAddress { tile: tile.clone(), row, chunk }
    }

    /// Rounds an accumulator to 16 bits and stores it into the tile at `base` (the stage's address without the tile's
    /// offset). The stores are generic: a proxy fence and a barrier must come before a copy or a product reads them.
    pub fn store(&self, asm: &mut Asm, base: R32, accumulator: &Accumulator, pair: HalfX2) {
        self.each_block(asm, base, |asm, at, block| {
            let packed = accumulator.pack_block(asm, pair, block);
            asm.emit(op::stmatrix(Matrices::X4, at, Operand::vector(&packed)));
        });
    }

    /// Loads the warp's rows of the tile at `base` as the A operand of a product. Every lane must have its part before
    /// the tile is given back.
    pub fn load(&self, asm: &mut Asm, base: R32, packed: &Packed) {
        self.each_block(asm, base, |asm, at, block| {
            asm.emit(op::ldmatrix(Matrices::X4, Operand::vector(packed.k_step(block)), at));
        });
    }

    /// Runs `code` for each block of 16 columns with its address and its number.
    fn each_block(&self, asm: &mut Asm, base: R32, mut code: impl FnMut(&mut Asm, Operand, u32)) {
        let row = asm.b32(|d| op::add(Int::U32, d, base, self.row));
        let per_panel = self.tile.panel_columns() / BLOCK_COLUMNS;
        for column in 0..per_panel {
            // Columns move in whole pairs of chunks, so the permutation is an exclusive or with a constant.
            let chunk = match column {
                0 => self.chunk,
                n => asm.b32(|d| op::xor(Bits::B32, d, self.chunk, n * BLOCK_BYTES)),
            };
            let address = asm.b32(|d| op::add(Int::U32, d, row, chunk));
            for panel in 0..self.tile.panels() {
                let at = Operand::at(address, (self.tile.offset() + panel * self.tile.panel_bytes()) as i32);
                code(asm, at, panel * per_panel + column);
            }
        }
    }
}
