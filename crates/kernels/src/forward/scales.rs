//! The scales of 8-bit Q, K and V: what a tile and a block of keys multiply their scores and their output with.
//!
//! c, which scores are multiplied with, is scale * log2(e) times the scale of Q and that of K. Under `scales: head` both are
//! the tile's; under `scales: block` the scale of Q is the warpgroup's 64 rows', and that of K is the block's, loaded while
//! the block before it is at hand.

use ptx::qual::{Cmp, Int, Num, Value};
use ptx::{F32, Operand, Pred, R32, R64, op};
use schedule::fp8::QUERY_SCALE_ROWS;
use tile::Asm;

use super::Forward;
use super::abi::ElementScales;
use super::coordinates::Tile;

/// Bytes of a scale.
const BYTES: u32 = 4;

/// The scales of the tile at hand.
pub(super) struct TileScales<'f, 's> {
    fwd: &'f Forward<'s>,
    abi: &'f ElementScales,
    /// c of the block at hand.
    pub(super) c: F32,
    /// The scale of Q, and then what all blocks share of c.
    rows: F32,
    /// The scale of the next block's keys.
    keys: F32,
    /// Where it is, in elements; where it changes from block to block.
    at: Option<R32>,
    /// The warpgroup's first row in the tile.
    group_row: R32,
}

impl<'f, 's> TileScales<'f, 's> {
    pub(super) fn new(asm: &mut Asm, fwd: &'f Forward<'s>, group_row: R32) -> Option<TileScales<'f, 's>> {
        let abi = fwd.abi.scales.as_ref()?;
        Some(TileScales {
            fwd,
            abi,
            c: asm.new_f32(),
            rows: asm.new_f32(),
            keys: asm.new_f32(),
            at: abi.k_block.map(|_| asm.new_b32()),
            group_row,
        })
    }

    /// Loads the scales of Q and of the tile's last block of K, the first to be processed.
    pub(super) fn load(&self, asm: &mut Asm, tile: &Tile) {
        asm.comment("the scales of Q and K");
        let (abi, u32) = (self.abi, Int::U32);
        let kv_head = tile.kv_head.expect("8-bit tiles name their KV head");
        let mut q = asm.b32(|d| op::mul_lo(u32, d, tile.batch, abi.q_batch));
        let factors = [(tile.head, abi.q_head), (kv_head, abi.q_kv_head)];
        for (index, stride) in factors {
            q = asm.b32(|d| op::mad_lo(u32, d, index, stride, q));
        }
        if let Some(stride) = abi.q_block {
            // Rows past the last have no scale of their own.
            let row = asm.b32(|d| op::add(u32, d, tile.row, self.group_row));
            let last = asm.b32(|d| op::sub(u32, d, self.fwd.abi.queries, 1));
            let row = asm.b32(|d| op::min(u32, d, row, last));
            let block = asm.b32(|d| op::div(u32, d, row, QUERY_SCALE_ROWS));
            q = asm.b32(|d| op::mad_lo(u32, d, block, stride, q));
        }
        load(asm, self.rows, abi.q, q, None);

        let k = asm.b32(|d| op::mul_lo(u32, d, tile.batch, abi.k_batch));
        let k = asm.b32(|d| op::mad_lo(u32, d, kv_head, abi.k_kv_head, k));
        // Of no keys there is no scale.
        asm.emit(op::mov(Value::F32, self.keys, 1.0));
        let any = asm.compare(Cmp::Ne, Num::U32, self.fwd.abi.keys, 0);
        match (self.at, abi.k_block) {
            (Some(at), Some(stride)) => {
                let last = asm.b32(|d| op::sub(u32, d, tile.blocks, 1));
                asm.emit(op::mad_lo(u32, at, last, stride, k));
                load(asm, self.keys, abi.k, at, Some(any));
            }
            _ => load(asm, self.keys, abi.k, k, Some(any)),
        }
    }

    /// c of the tile's first block. `column` is its first key.
    pub(super) fn first_block(&self, asm: &mut Asm, column: R32) {
        asm.emit(op::mul_f32(self.rows, self.rows, self.fwd.abi.scale_log2));
        asm.emit(op::mul_f32(self.c, self.rows, self.keys));
        self.load_ahead(asm, column);
    }

    /// c of a further block.
    pub(super) fn next_block(&self, asm: &mut Asm, column: R32) {
        if self.at.is_some() {
            asm.emit(op::mul_f32(self.c, self.rows, self.keys));
            self.load_ahead(asm, column);
        }
    }

    /// Goes past the tile's first block, which is not its only one, before any was looked at.
    pub(super) fn skip_block(&self, asm: &mut Asm) {
        let (Some(at), Some(stride)) = (self.at, self.abi.k_block) else { return };
        asm.emit(op::sub(Int::U32, at, at, stride));
        load(asm, self.keys, self.abi.k, at, None);
    }

    /// Loads the scale of the block before this one, if there is one.
    fn load_ahead(&self, asm: &mut Asm, column: R32) {
        let (Some(at), Some(stride)) = (self.at, self.abi.k_block) else { return };
        let more = asm.compare(Cmp::Gt, Num::S32, column, 0);
        asm.emit(op::sub(Int::U32, at, at, stride));
        load(asm, self.keys, self.abi.k, at, Some(more));
    }

    /// Loads the scale of V.
    pub(super) fn values(&self, asm: &mut Asm, tile: &Tile) -> F32 {
        let (abi, u32) = (self.abi, Int::U32);
        let kv_head = tile.kv_head.expect("8-bit tiles name their KV head");
        let index = asm.b32(|d| op::mul_lo(u32, d, tile.batch, abi.v_batch));
        let index = asm.b32(|d| op::mad_lo(u32, d, kv_head, abi.v_kv_head, index));
        let scale = asm.new_f32();
        load(asm, scale, abi.v, index, None);
        scale
    }
}

/// Loads element `index` of an array of scales, where the predicate holds.
fn load(asm: &mut Asm, into: F32, base: R64, index: R32, where_: Option<Pred>) {
    let address = asm.b64(|d| op::mad_wide_u32(d, index, BYTES, base));
    let load = op::ld_global_nc(Value::F32, into, Operand::at(address, 0));
    asm.emit(match where_ {
        Some(holds) => load.when(holds),
        None => load,
    });
}
