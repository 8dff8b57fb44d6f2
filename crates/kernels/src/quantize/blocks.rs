//! Tiles of V in registers: a thread has blocks of 16 keys by 8 columns, which it rounds and transposes by itself.
//!
//! A lane reads 8 columns of each of 16 keys, eight lanes all chunks of a row of the swizzled tile, and so writes 16 keys of
//! each of 8 columns. Within 16, keys stand as the A fragment of P V has them: 0, 1, 8, 9, 2, 3, 10, 11, ...; a conversion
//! takes two keys of a column, so that nothing is left to permute.

use ptx::qual::{Bits, Cmp, Int, Num, Shr, Value, Wide};
use ptx::{Operand, Pred, R32, R64, op};
use tile::{Asm, End, WARPGROUP};

use super::consumer::Here;
use super::format::Format;
use super::memory::Tile;
use super::scale::{Largest, LargestPair, Scale};

/// Bytes of a chunk.
const CHUNK_BYTES: u32 = 16;
/// Columns of a chunk of 16-bit elements.
const CHUNK_COLUMNS: usize = 8;
/// Keys of a block, which lie in the fragment's order.
const KEYS: u32 = 16;

/// A thread's blocks of a tile, in registers: of each block by key, pairs of columns.
pub(super) type Registers = Vec<Block>;
type Block = [[R32; CHUNK_COLUMNS / 2]; KEYS as usize];

/// Where a thread's blocks are in a tile.
pub(super) struct Blocks<'a> {
    tile: &'a Tile,
    format: Format,
    /// Thread of the warpgroup.
    thread: R32,
    /// Chunk of its row in a panel.
    chunk: R32,
    /// First key in the tile, of the first block.
    key: R32,
    /// Byte of the panel in a slot.
    panel: R32,
    /// First column.
    column: R32,
    /// Holds in threads that have blocks; none if all do. The others read along.
    active: Option<Pred>,
    /// First key of each block, from the first block's.
    keys: Vec<u32>,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(asm: &mut Asm, tile: &'a Tile, format: Format, thread: R32) -> Blocks<'a> {
        let slot = &tile.slot;
        let chunks = slot.row_bytes() / CHUNK_BYTES;
        let rows = tile.rows / KEYS;
        let of_thread = (chunks * rows * slot.panels()).div_ceil(WARPGROUP);
        let blocks = rows / of_thread;
        let chunk = asm.b32(|d| op::and(Bits::B32, d, thread, chunks - 1));
        let shifted = asm.b32(|d| op::shr(Shr::U32, d, thread, chunks.trailing_zeros()));
        let block = asm.b32(|d| op::and(Bits::B32, d, shifted, blocks - 1));
        let panel = asm.b32(|d| op::shr(Shr::U32, d, thread, (chunks * blocks).trailing_zeros()));
        let all = chunks * blocks * slot.panels() == WARPGROUP;
        let active = (!all).then(|| asm.compare(Cmp::Lt, Num::U32, panel, slot.panels()));
        // The others read the last panel and store nothing.
        let number = asm.b32(|d| op::min(Int::U32, d, panel, slot.panels() - 1));
        let key = asm.b32(|d| op::shl(Bits::B32, d, block, KEYS.trailing_zeros()));
        let panel = asm.b32(|d| op::mul_lo(Int::U32, d, number, slot.panel_bytes()));
        let in_panel = asm.b32(|d| op::mul_lo(Int::U32, d, chunk, CHUNK_COLUMNS as u32));
        let column = asm.b32(|d| op::mad_lo(Int::U32, d, number, slot.panel_columns(), in_panel));
        let keys = (0..of_thread).map(|number| number * blocks * KEYS).collect();
        Blocks { tile, format, thread, chunk, key, panel, column, active, keys }
    }

    /// Registers for the blocks.
    pub(super) fn registers(&self, asm: &mut Asm) -> Registers {
        self.keys
            .iter()
            .map(|_| [(); KEYS as usize].map(|()| [(); CHUNK_COLUMNS / 2].map(|()| asm.new_b32())))
            .collect()
    }

    /// Reads the blocks from the slots.
    pub(super) fn load(&self, asm: &mut Asm, here: &Here<'_>, held: &Registers) {
        asm.comment("16 keys of 8 columns");
        let slot = &self.tile.slot;
        let (shift, mask) = slot.pattern();
        for (&first, block) in self.keys.iter().zip(held) {
            let key = match first {
                0 => self.key,
                keys => asm.b32(|d| op::add(Int::U32, d, self.key, keys)),
            };
            let (stage, row) = match self.tile.parts() {
                1 => (here.end.stage(), key),
                _ => {
                    let part = asm.b32(|d| op::shr(Shr::U32, d, key, slot.rows().trailing_zeros()));
                    (here.stage_of(asm, part), asm.b32(|d| op::and(Bits::B32, d, key, slot.rows() - 1)))
                }
            };
            let base = slot.stage_base(asm, here.bases.slots, stage);
            let base = asm.b32(|d| op::add(Int::U32, d, base, self.panel));
            let row = asm.b32(|d| op::mad_lo(Int::U32, d, row, slot.row_bytes(), base));
            // A block starts where the swizzle's pattern does, so a row's turn is a constant.
            let turned: Vec<R32> = (0..=mask)
                .map(|turn| {
                    let chunk = asm.b32(|d| op::xor(Bits::B32, d, self.chunk, turn));
                    asm.b32(|d| op::mad_lo(Int::U32, d, chunk, CHUNK_BYTES, row))
                })
                .collect();
            for (key, pairs) in (0..).zip(block) {
                let at = (slot.offset() + key * slot.row_bytes()) as i32;
                load_chunk(asm, pairs, Operand::at(turned[(key >> shift & mask) as usize], at));
            }
        }
    }

    /// The largest of blocks in registers.
    pub(super) fn largest(&self, asm: &mut Asm, held: &Registers) -> Largest {
        asm.comment("the largest of them");
        let mut largest = LargestPair::new(asm, self.format);
        for &pair in held.iter().flatten().flatten() {
            largest.take(asm, pair);
        }
        largest.singles(asm)
    }

    /// The largest of a tile in its slots, in the order in which its bytes lie: which is which does not matter.
    pub(super) fn largest_of_slots(&self, asm: &mut Asm, here: &Here<'_>, parts: &[End]) -> Largest {
        asm.comment("the largest of the tile");
        let slot = &self.tile.slot;
        let mut largest = LargestPair::new(asm, self.format);
        for part in parts {
            let base = slot.stage_base(asm, here.bases.slots, part.stage());
            let first = asm.b32(|d| op::mad_lo(Int::U32, d, self.thread, CHUNK_BYTES, base));
            for chunk in (0..slot.tile_bytes()).step_by((WARPGROUP * CHUNK_BYTES) as usize) {
                let pairs = [0; 4].map(|_| asm.new_b32());
                load_chunk(asm, &pairs, Operand::at(first, (slot.offset() + chunk) as i32));
                for pair in pairs {
                    largest.take(asm, pair);
                }
            }
        }
        largest.singles(asm)
    }

    /// Slots of a tile.
    pub(super) fn parts(&self) -> u32 {
        self.tile.parts()
    }

    /// Rounds the blocks and stores them: from `codes` on column by column, `pitch` bytes apart.
    pub(super) fn store(&self, asm: &mut Asm, held: &Registers, scale: Scale, to: Columns) {
        let first = asm.b32(|d| op::add(Int::U32, d, to.first, self.column));
        let tile_key = asm.b32(|d| op::mad_lo(Int::U32, d, to.tile, self.tile.rows, self.key));
        let pitch = asm.b64(|d| op::cvt_u64_u32(d, to.pitch));
        for (&block, pairs) in self.keys.iter().zip(held) {
            if block > 0 {
                // Codes of two blocks at a time have no room in registers: the first are stored before the barrier.
                asm.emit(op::bar_sync(to.barrier, WARPGROUP));
            }
            let codes = transpose(asm, self.format, pairs, scale, self.keys.len() > 1);
            asm.comment("store 16 keys of each column");
            let key = match block {
                0 => tile_key,
                keys => asm.b32(|d| op::add(Int::U32, d, tile_key, keys)),
            };
            let mut inside = asm.compare(Cmp::Lt, Num::U32, key, to.pitch);
            if let Some(active) = self.active {
                inside = asm.pred(|p| op::and_pred(p, inside, active));
            }
            let wide = asm.b64(|d| op::cvt_u64_u32(d, key));
            let of_key = asm.b64(|d| op::add(Int::U64, d, to.codes, wide));
            let mut at: R64 = asm.b64(|d| op::mad_wide_u32(d, first, to.pitch, of_key));
            for (number, of_column) in codes.iter().enumerate() {
                if number > 0 {
                    at = asm.b64(|d| op::add(Int::U64, d, at, pitch));
                }
                let store = op::st_global_v(Wide::V4, Value::B32, Operand::at(at, 0), Operand::vector(of_column));
                asm.emit(store.when(inside));
            }
        }
    }
}

/// Where the codes of a tile go.
pub(super) struct Columns {
    pub(super) codes: R64,
    /// Bytes from one column to the next: keys that there is room for.
    pub(super) pitch: R32,
    /// The first column of the tile's head, of all columns.
    pub(super) first: R32,
    /// Tile of its head.
    pub(super) tile: R32,
    /// The warpgroup's named barrier.
    pub(super) barrier: R32,
}

/// Rounds a block: by column, 16 keys in the fragment's order.
///
/// `apart`: one word after the other, since more values at a time than one word's need registers that two blocks leave no
/// room for.
fn transpose(asm: &mut Asm, format: Format, block: &Block, scale: Scale, apart: bool) -> [[R32; 4]; CHUNK_COLUMNS] {
    asm.comment("round and transpose");
    // By word, then by column.
    let words = [0, 1, 2, 3].map(|word: usize| {
        if apart {
            asm.emit(op::bar_warp_sync(-1));
        }
        let keys = [2 * word, 2 * word + 1, 2 * word + 8, 2 * word + 9].map(|key| block[key]);
        let pairs = [0, 1, 2, 3].map(|pair: usize| {
            let values = keys.map(|key| format.unpack(asm, key[pair]));
            [0, 1].map(|half: usize| scale.round(asm, values.map(|value| value[half])))
        });
        [pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1], pairs[2][0], pairs[2][1], pairs[3][0], pairs[3][1]]
    });
    [0, 1, 2, 3, 4, 5, 6, 7].map(|column: usize| words.map(|word| word[column]))
}

/// 16 bytes of shared memory: four pairs of elements.
fn load_chunk(asm: &mut Asm, pairs: &[R32; 4], at: Operand) {
    asm.emit(op::ld_shared_v(Wide::V4, Value::B32, Operand::vector(pairs), at));
}
