//! V: its largest magnitude; and e4m3 transposed, a thread's block of 16 keys by 8 columns at a time.
//!
//! A lane reads 8 columns of each of 16 keys, eight lanes all chunks of a row of the swizzled tile, and so writes 16 keys of
//! each of 8 columns. Within 16, keys stand as the A fragment of P V has them: 0, 1, 8, 9, 2, 3, 10, 11, ...; a conversion
//! takes two keys of a column, so that nothing is left to permute.

use ptx::qual::{Bits, Cmp, Int, Num, Shr, Value, Wide};
use ptx::{Operand, Pred, R32, R64, op};
use tile::{Asm, SharedTile, WARPGROUP};

use super::Quantizer;
use super::abi::{Shares, Tensor};
use super::consumer::Here;
use super::order::Work;
use super::scale::{Largest, Scale};

/// Bytes of a chunk.
const CHUNK_BYTES: u32 = 16;
/// Columns of a chunk of 16-bit elements.
const CHUNK_COLUMNS: usize = 8;
/// Keys of a block, which lie in the fragment's order.
const KEYS: u32 = 16;

/// Where a thread's block is.
pub(super) struct Values<'a> {
    pub(super) tensor: &'a Tensor,
    shares: Shares,
    tile: &'a SharedTile,
    /// Thread of the warpgroup.
    thread: R32,
    /// Chunk of its row in a panel.
    chunk: R32,
    /// First key in the tile.
    key: R32,
    /// Byte of that key's row.
    row: R32,
    /// First column.
    column: R32,
    /// Holds in threads that have a block; none if all do. The others read along.
    active: Option<Pred>,
}

impl<'a> Values<'a> {
    pub(super) fn new(
        asm: &mut Asm,
        (tensor, shares): (&'a Tensor, Shares),
        tile: &'a SharedTile,
        thread: R32,
    ) -> Values<'a> {
        let (chunks, blocks) = (tile.row_bytes() / CHUNK_BYTES, tile.rows() / KEYS);
        let chunk = asm.b32(|d| op::and(Bits::B32, d, thread, chunks - 1));
        let shifted = asm.b32(|d| op::shr(Shr::U32, d, thread, chunks.trailing_zeros()));
        let block = asm.b32(|d| op::and(Bits::B32, d, shifted, blocks - 1));
        let panel = asm.b32(|d| op::shr(Shr::U32, d, thread, (chunks * blocks).trailing_zeros()));
        let all = chunks * blocks * tile.panels() == WARPGROUP;
        let active = (!all).then(|| asm.compare(Cmp::Lt, Num::U32, panel, tile.panels()));
        // The others read the last panel and store nothing.
        let panel = asm.b32(|d| op::min(Int::U32, d, panel, tile.panels() - 1));
        let key = asm.b32(|d| op::shl(Bits::B32, d, block, KEYS.trailing_zeros()));
        let of_panel = asm.b32(|d| op::mul_lo(Int::U32, d, panel, tile.panel_bytes()));
        let row = asm.b32(|d| op::mad_lo(Int::U32, d, key, tile.row_bytes(), of_panel));
        let in_panel = asm.b32(|d| op::mul_lo(Int::U32, d, chunk, CHUNK_COLUMNS as u32));
        let column = asm.b32(|d| op::mad_lo(Int::U32, d, panel, tile.panel_columns(), in_panel));
        Values { tensor, shares, tile, thread, chunk, key, row, column, active }
    }

    /// What one item asks for.
    pub(super) fn work(&self, asm: &mut Asm, qz: &Quantizer<'_>, here: &Here<'_>, work: Work) {
        let words = here.words(asm, self.tensor, self.shares);
        let base = self.tile.stage_base(asm, here.bases.slots, here.end.stage());
        if work == Work::Measure {
            let largest = self.measure(asm, qz, base);
            here.release_together(asm);
            words.add(asm, &here.meeting, &largest, here.lane.first);
            return;
        }
        let most = words.largest(asm, &here.meeting, here.lane.first);
        let scale = Scale::of(asm, most, 1.0);
        here.store_shared_scale(asm, self.tensor, scale.stored);
        let codes = self.transpose(asm, qz, base, scale);
        here.release_together(asm);
        self.store(asm, qz, here, &codes);
    }

    /// The tile's bytes in the order in which they lie: which is which does not matter.
    fn measure(&self, asm: &mut Asm, qz: &Quantizer<'_>, base: R32) -> Largest {
        asm.comment("the largest of the tile");
        let mut largest = Largest::new(asm);
        let first = asm.b32(|d| op::mad_lo(Int::U32, d, self.thread, CHUNK_BYTES, base));
        for chunk in (0..self.tile.tile_bytes()).step_by((WARPGROUP * CHUNK_BYTES) as usize) {
            let pairs = load_chunk(asm, Operand::at(first, (self.tile.offset() + chunk) as i32));
            for pair in pairs {
                for value in qz.format.unpack(asm, pair) {
                    largest.take(asm, value);
                }
            }
        }
        largest
    }

    /// Reads the thread's block and rounds it: by column, 16 keys in the fragment's order.
    fn transpose(&self, asm: &mut Asm, qz: &Quantizer<'_>, base: R32, scale: Scale) -> [[R32; 4]; CHUNK_COLUMNS] {
        asm.comment("16 keys of 8 columns: read, round, transpose");
        let row = asm.b32(|d| op::add(Int::U32, d, base, self.row));
        let (shift, mask) = self.tile.pattern();
        // A block starts where the swizzle's pattern does, so a row's turn is a constant.
        let turned: Vec<R32> = (0..=mask)
            .map(|turn| {
                let chunk = asm.b32(|d| op::xor(Bits::B32, d, self.chunk, turn));
                asm.b32(|d| op::mad_lo(Int::U32, d, chunk, CHUNK_BYTES, row))
            })
            .collect();
        let load = |asm: &mut Asm, key: u32| {
            let at = turned[(key >> shift & mask) as usize];
            load_chunk(asm, Operand::at(at, (self.tile.offset() + key * self.tile.row_bytes()) as i32))
        };
        // By word, then by column.
        let words = [0, 1, 2, 3].map(|word| {
            let keys = [2 * word, 2 * word + 1, 2 * word + 8, 2 * word + 9].map(|key| load(asm, key));
            let pairs = [0, 1, 2, 3].map(|pair: usize| {
                let values = keys.map(|key| qz.format.unpack(asm, key[pair]));
                [0, 1].map(|half: usize| scale.round(asm, values.map(|value| value[half])))
            });
            [pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1], pairs[2][0], pairs[2][1], pairs[3][0], pairs[3][1]]
        });
        [0, 1, 2, 3, 4, 5, 6, 7].map(|column: usize| words.map(|word| word[column]))
    }

    fn store(&self, asm: &mut Asm, qz: &Quantizer<'_>, here: &Here<'_>, codes: &[[R32; 4]; CHUNK_COLUMNS]) {
        asm.comment("store 16 keys of each column");
        let head = here.any_head(asm, self.tensor);
        let columns = qz.schedule.value_columns();
        let column = asm.b32(|d| op::mad_lo(Int::U32, d, head, columns, self.column));
        let key = asm.b32(|d| op::mad_lo(Int::U32, d, here.tile, self.tile.rows(), self.key));
        let mut inside = asm.compare(Cmp::Lt, Num::U32, key, qz.abi.v_pitch);
        if let Some(active) = self.active {
            inside = asm.pred(|p| op::and_pred(p, inside, active));
        }
        let wide = asm.b64(|d| op::cvt_u64_u32(d, key));
        let of_key = asm.b64(|d| op::add(Int::U64, d, self.tensor.codes, wide));
        let mut at: R64 = asm.b64(|d| op::mad_wide_u32(d, column, qz.abi.v_pitch, of_key));
        let pitch = asm.b64(|d| op::cvt_u64_u32(d, qz.abi.v_pitch));
        for (number, of_column) in codes.iter().enumerate() {
            if number > 0 {
                at = asm.b64(|d| op::add(Int::U64, d, at, pitch));
            }
            let store = op::st_global_v(Wide::V4, Value::B32, Operand::at(at, 0), Operand::vector(of_column));
            asm.emit(store.when(inside));
        }
    }
}

/// 16 bytes of shared memory: four pairs of elements.
fn load_chunk(asm: &mut Asm, at: Operand) -> [R32; 4] {
    let pairs = [0; 4].map(|_| asm.new_b32());
    asm.emit(op::ld_shared_v(Wide::V4, Value::B32, Operand::vector(&pairs), at));
    pairs
}
