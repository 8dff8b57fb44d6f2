//! A matrix in shared memory as TMA writes it and wgmma reads it.
//!
//! Rows are contiguous in one dimension (the head dim of Q, K, V and O; the keys of a transposed V). A row longer than the swizzle's span is cut
//! into *panels* of that span; a panel holds all rows of the tile, row after row, and panels follow one another.

use ptx::qual::{Bits, Shr};
use ptx::{R32, Swizzle, TensorElement, TensorMap, op};

use crate::asm::Asm;

/// Bytes that a swizzle moves together.
pub(crate) const CHUNK_BYTES: u32 = 16;

/// A ring of equal tiles.
#[derive(Debug, Clone)]
pub struct SharedTile {
    element: TensorElement,
    rows: u32,
    rows_below: u32,
    columns: u32,
    stages: u32,
    swizzle: Swizzle,
    offset: u32,
    stage_bytes: u32,
}

impl SharedTile {
    /// Tiles of `rows` x `columns` elements with the widest swizzle that divides a row; its place comes from a layout.
    /// None if no swizzle divides it (a row must be a multiple of 32 bytes).
    pub fn new(element: TensorElement, rows: u32, columns: u32, stages: u32) -> Option<SharedTile> {
        let row = columns * element.bytes();
        let swizzle = [Swizzle::B128, Swizzle::B64, Swizzle::B32]
            .into_iter()
            .find(|s| row > 0 && row.is_multiple_of(s.row_bytes()))?;
        Some(SharedTile { element, rows, rows_below: 0, columns, stages, swizzle, offset: 0, stage_bytes: row * rows })
    }

    /// The same with `rows` more below, in every panel, that no copy fills; a multiple of 8, so that panels start where
    /// their pattern does.
    #[must_use]
    pub fn with_rows_below(self, rows: u32) -> SharedTile {
        SharedTile { rows_below: rows, ..self }
    }

    /// The same shared memory, seen as tiles with another row length (a result staged where an operand was).
    pub fn viewed_as(&self, columns: u32) -> Option<SharedTile> {
        let other = SharedTile::new(self.element, self.rows, columns, self.stages)?;
        (other.swizzle == self.swizzle).then_some(SharedTile {
            offset: self.offset,
            stage_bytes: self.stage_bytes,
            ..other
        })
    }

    /// The same shared memory, all stages together, seen as another tile (a result staged where a ring was). None if it
    /// does not fit or its rows take another swizzle.
    pub fn ring_viewed_as(&self, other: SharedTile) -> Option<SharedTile> {
        let fits = other.tile_bytes() <= self.stages * self.stage_bytes && other.swizzle == self.swizzle;
        fits.then_some(SharedTile { offset: self.offset, ..other })
    }

    /// The same slots, seen as tiles of another size (one ring for operands of several shapes). None if rows of that length
    /// take another swizzle, or the tile does not fit a slot.
    pub fn slot_viewed_as(&self, rows: u32, columns: u32) -> Option<SharedTile> {
        let other = SharedTile::new(self.element, rows, columns, self.stages)?;
        (other.swizzle == self.swizzle && other.tile_bytes() <= self.stage_bytes).then_some(SharedTile {
            offset: self.offset,
            stage_bytes: self.stage_bytes,
            ..other
        })
    }

    pub(crate) fn put(&mut self, offset: u32, stage_bytes: u32) {
        self.offset = offset;
        self.stage_bytes = stage_bytes;
    }

    /// First byte in the dynamic shared memory.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Tiles in the ring.
    pub fn stages(&self) -> u32 {
        self.stages
    }

    /// Rows of a tile that copies fill.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Rows below them.
    pub fn rows_below(&self) -> u32 {
        self.rows_below
    }

    /// Permutation of a panel.
    pub fn swizzle(&self) -> Swizzle {
        self.swizzle
    }

    /// Bytes from one stage to the next.
    pub fn stage_bytes(&self) -> u32 {
        self.stage_bytes
    }

    /// Bytes that the tile takes in shared memory.
    pub fn bytes(&self) -> u32 {
        self.panels() * self.panel_bytes()
    }

    /// Bytes that the tile itself fills, which is what its copies move.
    pub fn tile_bytes(&self) -> u32 {
        self.rows * self.columns * self.element.bytes()
    }

    /// Bytes of a row within a panel.
    pub fn row_bytes(&self) -> u32 {
        self.swizzle.row_bytes()
    }

    /// Elements of a row within a panel.
    pub fn panel_columns(&self) -> u32 {
        self.row_bytes() / self.element.bytes()
    }

    /// Panels of a tile.
    pub fn panels(&self) -> u32 {
        self.columns / self.panel_columns()
    }

    /// Bytes of a panel.
    pub fn panel_bytes(&self) -> u32 {
        (self.rows + self.rows_below) * self.row_bytes()
    }

    /// Chunks of 16 bytes, which a swizzle permutes, in a row of a panel.
    pub fn panel_chunks(&self) -> u32 {
        self.row_bytes() / CHUNK_BYTES
    }

    /// How a row permutes its 16-byte chunks: a chunk's number is combined by exclusive or with the row's, shifted right by
    /// the first number and masked with the second (PTX ISA, "Swizzling Modes").
    pub fn pattern(&self) -> (u32, u32) {
        match self.swizzle {
            Swizzle::B128 => (0, 7),
            Swizzle::B64 => (1, 3),
            Swizzle::B32 => (2, 1),
            Swizzle::None => (0, 0),
        }
    }

    /// What a chunk's number in its row is XORed with, for a row of that number in the panel: the same for rows that are a
    /// multiple of 8 apart.
    pub(crate) fn turn(&self, asm: &mut Asm, row: R32) -> R32 {
        let (shift, mask) = self.pattern();
        let shifted = asm.b32(|d| op::shr(Shr::U32, d, row, shift));
        asm.b32(|d| op::and(Bits::B32, d, shifted, mask))
    }

    /// The tensor map whose box is `rows` rows of one panel, for a tensor of dimensions (column, row, head, batch).
    pub fn tensor_map(&self, rows: u32) -> TensorMap {
        TensorMap { element: self.element, box_dims: vec![self.panel_columns(), rows, 1, 1], swizzle: self.swizzle }
    }

    /// Address of a stage, without [`SharedTile::offset`], which belongs into the address operand.
    pub fn stage_base(&self, asm: &mut Asm, smem: R32, stage: Option<R32>) -> R32 {
        asm.indexed(smem, stage, self.stage_bytes)
    }
}
