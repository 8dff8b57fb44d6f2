//! The dynamic shared memory of a kernel: hands out regions from the bottom up, each on its alignment.

use ptx::{Region, RegionKind};

use crate::shared::SharedTile;

/// Regions handed out so far.
#[derive(Debug, Default)]
pub struct Layout {
    regions: Vec<Region>,
    end: u32,
}

impl Layout {
    /// Room for a ring of tiles in slots of exactly their size; sets the tile's place.
    pub fn tile_tight(&mut self, name: &str, tile: &mut SharedTile) {
        let bytes = tile.bytes();
        self.tile(name, tile, bytes);
    }

    /// Room for a ring of tiles in slots of at least their size; sets the tile's place.
    pub fn tile(&mut self, name: &str, tile: &mut SharedTile, slot_bytes: u32) {
        let stages = tile.stages();
        let kind = RegionKind::Tile(tile.swizzle());
        let offset = self.take(name, slot_bytes * stages, stages, ptx::Kernel::SHARED_ALIGN, kind);
        tile.put(offset, slot_bytes);
    }

    /// Room for one mbarrier a stage, each completing a phase after so many arrivals. Returns the first one's offset.
    pub fn barriers(&mut self, name: &str, stages: u32, arrivals: u32) -> u32 {
        self.take(name, 8 * stages, stages, 8, RegionKind::Barriers { arrivals })
    }

    /// Room for plain words. Returns its offset.
    pub fn words(&mut self, name: &str, stages: u32, stage_bytes: u32) -> u32 {
        self.take(name, stage_bytes * stages, stages, 16, RegionKind::Words)
    }

    /// The regions, by offset.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    fn take(&mut self, name: &str, bytes: u32, stages: u32, align: u32, kind: RegionKind) -> u32 {
        let offset = self.end.next_multiple_of(align);
        self.end = offset + bytes;
        self.regions.push(Region { name: name.to_owned(), offset, bytes, stages, kind });
        offset
    }
}
