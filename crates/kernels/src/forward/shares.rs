//! Query tiles that are split: a share of the keys is a tile by itself, so that few query tiles fill all SMs.
//!
//! Each share leaves its O, not yet divided by the row sums, and the maxima and sums of its rows in the workspace, thread by
//! thread as they lie in registers. Then its warpgroups arrive, each for its 64 rows, at a counter in global memory. The last
//! one to arrive takes in all shares by the online softmax, its own among them, in the order of the shares and not of their
//! arrival, so that the same inputs give the same bits; and goes on as if it had seen all keys. The counter wraps to zero
//! with the last arrival. Nobody waits for anybody: blocks need not run at the same time.

use ptx::qual::{Bits, Cmp, Int, Num, Shuffle, Value, Wide};
use ptx::{F32, Label, Operand, Pred, R32, R64, op};
use schedule::footprint::share_bytes;
use tile::{Accumulator, Asm, WARPGROUP};

use super::Forward;
use super::consumer::Consumer;
use super::coordinates::Tile;
use super::softmax;

/// Bytes that a thread moves at once.
const CHUNK: u32 = 16;
/// Numbers among them.
const NUMBERS: usize = 4;
/// Bytes of a word.
const WORD: u32 = 4;

/// Which share of which query tile a tile is.
#[derive(Clone, Copy)]
pub(super) struct Share {
    /// Its first key; one past the end of K if it has none.
    pub(super) first: R32,
    /// Its place among the shares of its query tile.
    pub(super) index: R32,
    /// The number of its query tile.
    pub(super) tile: R32,
}

impl Share {
    pub(super) fn new(asm: &mut Asm) -> Share {
        Share { first: asm.new_b32(), index: asm.new_b32(), tile: asm.new_b32() }
    }

    /// As the queue holds it.
    pub(super) fn words(&self) -> [R32; 3] {
        [self.first, self.index, self.tile]
    }
}

/// How many blocks come before share number `index`, and how many it has, where each share has as many as the quotient of
/// blocks and shares says, and the first of them, as many as the remainder, one more.
pub(super) fn part(asm: &mut Asm, (quotient, remainder): (R32, R32), index: R32) -> (R32, R32) {
    let longer = asm.b32(|d| op::min(Int::U32, d, index, remainder));
    let before = asm.b32(|d| op::mad_lo(Int::U32, d, index, quotient, longer));
    let is_longer = asm.compare(Cmp::Lt, Num::U32, index, remainder);
    let more = asm.b32(|d| op::selp(Value::B32, d, 1, 0, is_longer));
    (before, asm.b32(|d| op::add(Int::U32, d, quotient, more)))
}

/// A consumer warpgroup's way of putting shares together.
pub(super) struct Shares {
    /// Shares of a query tile.
    number: R32,
    /// Where the thread's part of the first share of the first query tile lies.
    parts: R64,
    /// Where the warpgroup arrives for the first query tile.
    arrivals: R64,
    /// Where its threads read how many arrived before it.
    before: Operand,
    /// The warp's first row in the tile.
    warp_row: R32,
    /// A named barrier of the warpgroup's own.
    barrier: R32,
    /// Holds in the warpgroup's first warp.
    first_warp: Pred,
    warpgroups: u32,
    bytes: u32,
}

impl Shares {
    /// None where query tiles are not split.
    pub(super) fn new(asm: &mut Asm, fwd: &Forward<'_>, consumer: &Consumer<'_, '_>) -> Option<Shares> {
        let (abi, before) = fwd.abi.shares.as_ref().zip(fwd.memory.arrivals)?;
        let epilogue = &consumer.epilogue;
        let warpgroups = fwd.schedule.roles.consumer.warpgroups;
        let bytes = share_bytes(fwd.schedule) as u32;
        let warpgroup = asm.b32(|d| op::sub(Int::U32, d, fwd.threads.warpgroup, 1));
        let thread = asm.b32(|d| op::and(Bits::B32, d, fwd.threads.thread, WARPGROUP - 1));
        let within = asm.b32(|d| op::mul_lo(Int::U32, d, thread, CHUNK));
        let within = asm.b32(|d| op::mad_lo(Int::U32, d, warpgroup, bytes / warpgroups, within));
        let parts = asm.b64(|d| op::mad_wide_u32(d, within, 1, abi.workspace));
        let arrivals = asm.b64(|d| op::mad_wide_u32(d, warpgroup, WORD, abi.arrivals));
        let word = asm.b32(|d| op::mad_lo(Int::U32, d, warpgroup, WORD, fwd.threads.smem));
        let in_group = asm.b32(|d| op::and(Bits::B32, d, fwd.threads.warp, 3));
        let warp_row = asm.b32(|d| op::mad_lo(Int::U32, d, in_group, 16, epilogue.group_row));
        Some(Shares {
            number: abi.number,
            parts,
            arrivals,
            before: Operand::at(word, before as i32),
            warp_row,
            barrier: epilogue.barrier,
            first_warp: epilogue.first_warp,
            warpgroups,
            bytes,
        })
    }

    /// Leaves this share's part and arrives. If others are missing, goes on at `missing`; otherwise O, maxima and sums are
    /// those of all keys. No product may be in flight.
    pub(super) fn put_together(&self, asm: &mut Asm, consumer: &Consumer<'_, '_>, missing: &Label) {
        let (fwd, tile) = (consumer.fwd, &consumer.tile);
        let Some(share) = tile.share else { return };
        let whole = asm.label("ALL_KEYS");
        let alone = asm.compare(Cmp::Eq, Num::U32, self.number, 1);
        asm.jump_if(alone, &whole);
        let output = consumer.products.result(fwd);
        let any = self.has_rows(asm, fwd, tile);
        asm.comment("this share's part: O, maxima and sums");
        let item = asm.b32(|d| op::mad_lo(Int::U32, d, share.tile, self.number, share.index));
        asm.only_if(any, "PART_LEFT", |asm| {
            let part = asm.b64(|d| op::mad_wide_u32(d, item, self.bytes, self.parts));
            let (max, sum) = (consumer.rows.max, consumer.rows.sum);
            let chunks = chunks(&output).chain([[max[0], max[1], sum[0], sum[1]]]);
            for (chunk, at) in chunks.zip(places(part)) {
                asm.emit(op::st_global_v(Wide::V4, Value::F32, at, Operand::vector(&chunk)));
            }
        });
        let last = self.arrive(asm, share);
        asm.jump_unless(last, missing);
        asm.comment("all shares are there: take them in, one after the other");
        asm.only_if(any, "TAKEN_IN", |asm| self.take_in(asm, consumer, share, &output));
        asm.place(&whole);
    }

    /// Whether some row of the warp is a row of Q.
    fn has_rows(&self, asm: &mut Asm, fwd: &Forward<'_>, tile: &Tile) -> Pred {
        let row = asm.b32(|d| op::add(Int::U32, d, tile.row, self.warp_row));
        asm.compare(Cmp::Lt, Num::U32, row, fwd.abi.queries)
    }

    /// Arrives when all threads of the warpgroup have left their part, and says whether all other shares have arrived
    /// before. What they left is visible then.
    fn arrive(&self, asm: &mut Asm, share: Share) -> Pred {
        asm.comment("arrive, and ask whether this is the last share to do so");
        let last = asm.b32(|d| op::sub(Int::U32, d, self.number, 1));
        asm.emit(op::bar_sync(self.barrier, WARPGROUP));
        asm.in_one_thread(self.first_warp, "ARRIVED", |asm| {
            let bytes = WORD * self.warpgroups;
            let counter = asm.b64(|d| op::mad_wide_u32(d, share.tile, bytes, self.arrivals));
            asm.emit(op::fence_gpu());
            let before = asm.b32(|d| op::atom_inc(d, Operand::at(counter, 0), last));
            asm.emit(op::fence_gpu());
            asm.emit(op::st_shared(Value::B32, self.before.clone(), before));
        });
        asm.emit(op::bar_sync(self.barrier, WARPGROUP));
        let before = asm.b32(|d| op::ld_shared(Value::B32, d, self.before.clone()));
        // Of a shuffle from one lane the assembler knows that all have the same.
        let before = asm.b32(|d| op::shfl_sync(Shuffle::Idx, d, before, 0, 31, -1));
        asm.compare(Cmp::Eq, Num::U32, before, last)
    }

    /// Starts from nothing and takes in every share.
    fn take_in(&self, asm: &mut Asm, consumer: &Consumer<'_, '_>, share: Share, output: &Accumulator) {
        let rows = &consumer.rows;
        output.zero(asm);
        for half in 0..2 {
            asm.emit(op::mov(Value::F32, rows.max[half], f32::NEG_INFINITY));
            asm.emit(op::mov(Value::F32, rows.sum[half], 0.0));
        }
        let first = asm.b32(|d| op::mul_lo(Int::U32, d, share.tile, self.number));
        let part = asm.b64(|d| op::mad_wide_u32(d, first, self.bytes, self.parts));
        let left = asm.b32(|d| op::mov(Value::B32, d, self.number));
        let next = asm.label("TAKE_IN");
        asm.place(&next);
        let loaded: Vec<([F32; NUMBERS], Option<[F32; NUMBERS]>)> = chunks(output)
            .map(Some)
            .chain([None])
            .zip(places(part))
            .map(|(into, at)| {
                let loaded: [F32; NUMBERS] = std::array::from_fn(|_| asm.new_f32());
                asm.emit(op::ld_global_v(Wide::V4, Value::F32, Operand::vector(&loaded), at));
                (loaded, into)
            })
            .collect();
        let Some((&([max0, max1, sum0, sum1], _), parts)) = loaded.split_last() else { return };
        let by = softmax::take_in(asm, rows, &consumer.scale, [max0, max1], [sum0, sum1]);
        for (chunk, (loaded, into)) in parts.iter().enumerate() {
            let [factor, weight] = by[half(chunk)];
            for (&o, &x) in into.iter().flatten().zip(loaded) {
                let added = asm.f32(|d| op::mul_f32(d, x, weight));
                asm.emit(op::fma_rn_f32(o, o, factor, added));
            }
        }
        asm.emit(op::add(Int::U64, part, part, self.bytes));
        asm.emit(op::sub(Int::U32, left, left, 1));
        let more = asm.compare(Cmp::Ne, Num::U32, left, 0);
        asm.jump_if(more, &next);
    }
}

/// The registers of O by fours of one row, rows in turn.
fn chunks(output: &Accumulator) -> impl Iterator<Item = [F32; NUMBERS]> {
    output.regs().chunks_exact(2 * NUMBERS).flat_map(|r| [[r[0], r[1], r[4], r[5]], [r[2], r[3], r[6], r[7]]])
}

/// Which of the lane's two rows a chunk is of.
fn half(chunk: usize) -> usize {
    chunk % 2
}

/// Where a thread's chunks lie: those of the same number of all threads of the warpgroup side by side.
fn places(part: R64) -> impl Iterator<Item = Operand> {
    (0..).map(move |chunk| Operand::at(part, chunk * (CHUNK * WARPGROUP) as i32))
}
