//! A tile of bytes turned over by the four warps of a warpgroup, from shared memory to shared memory.
//!
//! `ldmatrix.trans` turns over pairs of bytes: of 16 rows and 16 columns a lane gets, for two columns, the bytes of rows 2q,
//! 2q+1, 2q+8 and 2q+9 (q = lane % 4). A byte permutation parts the columns, and `stmatrix` stores them as two rows. So the
//! rows come to lie, in every 16, in the order 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, which is the order that
//! [`Accumulator::byte_group`](crate::Accumulator::byte_group) gives the other operand.

use ptx::qual::{Bits, Int, Matrices, Shr};
use ptx::{Operand, R32, op};

use crate::asm::Asm;
use crate::shared::{CHUNK_BYTES, SharedTile};

/// Rows of the source that one step turns over: the bytes of a chunk of the target.
const STEP_ROWS: u32 = CHUNK_BYTES;
/// Bytes 0 and 2 of two words: the even columns; 1 and 3: the odd ones.
const EVEN: u32 = 0x6420;
const ODD: u32 = 0x7531;

/// A lane's part in turning over a tile. The warps share it out by every other 16 rows and every other run of columns.
#[derive(Debug, Clone)]
pub struct Transposer {
    from: SharedTile,
    to: SharedTile,
    /// Chunks of the source that one step takes side by side.
    chunks: u32,
    load: Address,
    store: Address,
}

/// A lane's address in a tile: the bytes of its row, and its chunk with the row's permutation.
#[derive(Debug, Clone, Copy)]
struct Address {
    row: R32,
    chunk: R32,
}

impl Transposer {
    /// Turns tiles `from` of R x C bytes into `to` of C x R. R and C are multiples of 32; `warp` is the warp in the
    /// warpgroup.
    pub fn new(asm: &mut Asm, from: &SharedTile, to: &SharedTile, lane: R32, warp: R32) -> Transposer {
        // Two chunks a step where a panel holds those of both warps side by side.
        let chunks = if from.panel_chunks().is_multiple_of(4) { 2 } else { 1 };
        let u32 = Int::U32;
        let step = asm.b32(|d| op::and(Bits::B32, d, warp, 1));
        let run = asm.b32(|d| op::shr(Shr::U32, d, warp, 1));
        let left = asm.b32(|d| op::shr(Shr::U32, d, lane, 4));

        let in_step = asm.b32(|d| op::and(Bits::B32, d, lane, STEP_ROWS - 1));
        let turn = from.turn(asm, in_step);
        let row = asm.b32(|d| op::mad_lo(u32, d, step, STEP_ROWS, in_step));
        let chunk = match chunks {
            1 => run,
            _ => asm.b32(|d| op::mad_lo(u32, d, run, chunks, left)),
        };
        let load = Address::new(asm, from, row, chunk, turn);

        // Lane l of a matrix's eight holds the address of column 2 (l % 8), and of the next one for the odd matrix.
        let pair = asm.b32(|d| op::and(Bits::B32, d, lane, 7));
        let odd = asm.b32(|d| op::shr(Shr::U32, d, lane, 3));
        let odd = asm.b32(|d| op::and(Bits::B32, d, odd, 1));
        let column = asm.b32(|d| op::mad_lo(u32, d, pair, 2, odd));
        let turn = to.turn(asm, column);
        let column = match chunks {
            1 => column,
            _ => asm.b32(|d| op::mad_lo(u32, d, left, CHUNK_BYTES, column)),
        };
        let column = asm.b32(|d| op::mad_lo(u32, d, run, chunks * CHUNK_BYTES, column));
        let store = Address::new(asm, to, column, step, turn);
        Transposer { from: from.clone(), to: to.clone(), chunks, load, store }
    }

    /// Turns over the tile at `from` into the one at `to` (the stages' addresses without the tiles' offsets). All lanes of
    /// the warp run it together. The stores are generic: a proxy fence and a barrier must come before a product reads them.
    pub fn emit(&self, asm: &mut Asm, from: R32, to: R32) {
        let (runs, steps) = (self.from.row_bytes() * self.from.panels() / CHUNK_BYTES, self.from.rows() / STEP_ROWS);
        let load_row = asm.b32(|d| op::add(Int::U32, d, from, self.load.row));
        let store_row = asm.b32(|d| op::add(Int::U32, d, to, self.store.row));
        for run in (0..runs).step_by(2 * self.chunks as usize) {
            let load = self.load.chunk(asm, &self.from, load_row, run);
            for step in (0..steps).step_by(2) {
                let load = load.below(step * STEP_ROWS * self.from.row_bytes());
                let store = self.store.chunk(asm, &self.to, store_row, step);
                let store = store.below(run * CHUNK_BYTES * self.to.row_bytes());
                self.turn_over(asm, load.operand(), store.operand());
            }
        }
    }

    fn turn_over(&self, asm: &mut Asm, from: Operand, to: Operand) {
        let count = if self.chunks == 1 { Matrices::X2 } else { Matrices::X4 };
        let rows: Vec<R32> = (0..2 * self.chunks).map(|_| asm.new_b32()).collect();
        asm.emit(op::ldmatrix_t(count, Operand::vector(&rows), from));
        let columns: Vec<R32> = rows
            .chunks(2)
            .flat_map(|pair| [EVEN, ODD].map(|bytes| (pair[0], pair[1], bytes)))
            .map(|(upper, lower, bytes)| asm.b32(|d| op::prmt(d, upper, lower, bytes)))
            .collect();
        asm.emit(op::stmatrix(count, to, Operand::vector(&columns)));
    }
}

/// An address in the making.
#[derive(Debug, Clone, Copy)]
struct Place {
    base: R32,
    offset: u32,
}

impl Place {
    fn below(self, bytes: u32) -> Place {
        Place { offset: self.offset + bytes, ..self }
    }

    fn operand(self) -> Operand {
        Operand::at(self.base, self.offset as i32)
    }
}

impl Address {
    fn new(asm: &mut Asm, tile: &SharedTile, row: R32, chunk: R32, turn: R32) -> Address {
        let row = asm.b32(|d| op::mul_lo(Int::U32, d, row, tile.row_bytes()));
        let turned = asm.b32(|d| op::xor(Bits::B32, d, chunk, turn));
        Address { row, chunk: asm.b32(|d| op::mul_lo(Int::U32, d, turned, CHUNK_BYTES)) }
    }

    /// The lane's place in the tile whose rows start at `row`, `further` chunks on: a multiple of those that the warps take
    /// side by side, so that it moves the permuted chunk by an exclusive or.
    fn chunk(self, asm: &mut Asm, tile: &SharedTile, row: R32, further: u32) -> Place {
        let in_panel = further % tile.panel_chunks();
        let chunk = match in_panel {
            0 => self.chunk,
            n => asm.b32(|d| op::xor(Bits::B32, d, self.chunk, n * CHUNK_BYTES)),
        };
        let base = asm.b32(|d| op::add(Int::U32, d, row, chunk));
        Place { base, offset: tile.offset() + further / tile.panel_chunks() * tile.panel_bytes() }
    }
}
