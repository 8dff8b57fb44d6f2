//! Tensor copies of a shared tile, one box a panel (PTX ISA, "cp.async.bulk.tensor").

use ptx::qual::{Int, Rank};
use ptx::{Operand, R32, R64, op};

use crate::asm::Asm;
use crate::ring::{End, Ring};
use crate::shared::SharedTile;

/// The coordinates of a tile: row, head and batch, in elements of the tensor's dimensions 1 to 3.
pub type Coordinates = [R32; 3];

/// Copies a tile in from global memory, counted on `barrier`. One thread issues it.
///
/// `base` is the stage's address without the tile's offset.
pub fn load_panels(asm: &mut Asm, tile: &SharedTile, base: R32, map: R64, barrier: &Operand, at: Coordinates) {
    for panel in 0..tile.panels() {
        let (shared, source) = panel_operands(tile, base, map, at, panel);
        asm.emit(op::tensor_load(Rank::D4, shared, source, barrier.clone()));
    }
}

/// The same of a tile whose rows are as long as the tensor's and that starts at a column: the coordinates are column, head
/// and batch.
pub fn load_panels_across(
    asm: &mut Asm,
    tile: &SharedTile,
    base: R32,
    map: R64,
    barrier: &Operand,
    [column, head, batch]: Coordinates,
) {
    for panel in 0..tile.panels() {
        let shared = panel_address(tile, base, panel);
        let column = match panel * tile.panel_columns() {
            0 => column,
            further => asm.b32(|d| op::add(Int::U32, d, column, further)),
        };
        let coords = vec![column.into(), Operand::from(0u32), head.into(), batch.into()];
        asm.emit(op::tensor_load(Rank::D4, shared, Operand::tensor(map, coords), barrier.clone()));
    }
}

/// Producer: fills the next slot of a ring with a tile: waits until it is free, says how many bytes will come, copies,
/// and moves on. One thread runs it.
pub fn load_tile(asm: &mut Asm, smem: R32, tile: &SharedTile, ring: &Ring, end: &End, map: R64, at: Coordinates) {
    load_slot(asm, smem, tile, ring, end, map, at);
    ring.advance(asm, end);
}

/// The same with an end that stays where it is, for rings that go round together.
pub fn load_slot(asm: &mut Asm, smem: R32, tile: &SharedTile, ring: &Ring, end: &End, map: R64, at: Coordinates) {
    fill_slot(asm, smem, tile, ring, end, |asm, base, full| load_panels(asm, tile, base, map, full, at));
}

/// The same as [`load_tile`] with [`load_panels_across`].
pub fn load_tile_across(
    asm: &mut Asm,
    smem: R32,
    tile: &SharedTile,
    ring: &Ring,
    end: &End,
    map: R64,
    at: Coordinates,
) {
    fill_slot(asm, smem, tile, ring, end, |asm, base, full| load_panels_across(asm, tile, base, map, full, at));
    ring.advance(asm, end);
}

fn fill_slot(
    asm: &mut Asm,
    smem: R32,
    tile: &SharedTile,
    ring: &Ring,
    end: &End,
    load: impl FnOnce(&mut Asm, R32, &Operand),
) {
    let slot = ring.acquire(asm, smem, end);
    ring.expect(asm, slot, tile.tile_bytes());
    let base = tile.stage_base(asm, smem, end.stage());
    load(asm, base, &ring.full(slot));
}

/// Copies rows of a tile out to global memory; rows and columns past the tensor's end are left out by the copy engine.
/// One thread issues it, and commits and waits for it.
///
/// `base` is the address of the first row to copy without the tile's offset; the map's box says how many rows follow.
pub fn store_panels(asm: &mut Asm, tile: &SharedTile, base: R32, map: R64, at: Coordinates) {
    for panel in 0..tile.panels() {
        let (shared, target) = panel_operands(tile, base, map, at, panel);
        asm.emit(op::tensor_store(Rank::D4, target, shared));
    }
}

fn panel_address(tile: &SharedTile, base: R32, panel: u32) -> Operand {
    Operand::at(base, (tile.offset() + panel * tile.panel_bytes()) as i32)
}

fn panel_operands(tile: &SharedTile, base: R32, map: R64, at: Coordinates, panel: u32) -> (Operand, Operand) {
    let shared = panel_address(tile, base, panel);
    let column = Operand::from(panel * tile.panel_columns());
    let coords = std::iter::once(column).chain(at.map(Operand::from)).collect();
    (shared, Operand::tensor(map, coords))
}
