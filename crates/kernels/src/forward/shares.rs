//! Query tiles that are split: a share of the keys is a tile by itself, so that few query tiles fill all SMs.
//!
//! Each share leaves its O, not yet divided by the row sums, and the maxima and sums of its rows in the workspace, thread by
//! thread as they lie in registers. Then its warpgroups arrive, each for its 64 rows, at a counter in global memory. The last
//! one to arrive takes in all shares by the online softmax, its own among them, in the order of the shares and not of their
//! arrival, so that the same inputs give the same bits; and goes on as if it had seen all keys. The counter wraps to zero
//! with the last arrival. Nobody waits for anybody: blocks need not run at the same time.

use ptx::qual::{Bits, Cmp, Int, Num, Shr, Shuffle, Value, Vote, Wide};
use ptx::{F32, Label, Operand, Pred, R32, R64, Special, op};
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
/// From a lane's upper row to its lower one.
const LOWER: u32 = 8;
/// Chunks of a row that are loaded at once, at most.
const AT_ONCE: usize = 12;
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

/// A consumer warpgroup's way of putting shares together. What only that needs is made from the thread's number when it is
/// needed: no register is free beside the products.
pub(super) struct Shares {
    /// Shares of a query tile.
    number: R32,
    /// Where the parts of O start, and the counters of arrivals.
    workspace: R64,
    arrivals: R64,
    /// Where the warpgroups' threads read how many arrived before them, from the start of shared memory.
    before: u32,
    /// A named barrier of the warpgroup's own.
    barrier: R32,
    /// Holds in the warpgroup's first warp.
    first_warp: Pred,
    warpgroups: u32,
    bytes: u32,
}

/// Who a thread is among the consumers.
struct Who {
    /// Its place among them.
    thread: R32,
    /// Its warpgroup's.
    warpgroup: R32,
}

impl Who {
    fn new(asm: &mut Asm) -> Who {
        let of_cta = asm.b32(|d| op::mov_special(d, Special::TidX));
        let thread = asm.b32(|d| op::sub(Int::U32, d, of_cta, WARPGROUP));
        let warpgroup = asm.b32(|d| op::shr(Shr::U32, d, thread, WARPGROUP.trailing_zeros()));
        Who { thread, warpgroup }
    }
}

impl Shares {
    /// None where query tiles are not split.
    pub(super) fn new(fwd: &Forward<'_>, consumer: &Consumer<'_, '_>) -> Option<Shares> {
        let (abi, before) = fwd.abi.shares.as_ref().zip(fwd.memory.arrivals)?;
        Some(Shares {
            number: abi.number,
            workspace: abi.workspace,
            arrivals: abi.arrivals,
            before,
            barrier: consumer.epilogue.barrier,
            first_warp: consumer.epilogue.first_warp,
            warpgroups: fwd.schedule.roles.consumer.warpgroups,
            bytes: share_bytes(fwd.schedule) as u32,
        })
    }

    /// Where the thread's part of a share lies.
    fn part(&self, asm: &mut Asm, item: R32) -> R64 {
        let who = Who::new(asm);
        let in_group = asm.b32(|d| op::and(Bits::B32, d, who.thread, WARPGROUP - 1));
        let within = asm.b32(|d| op::mul_lo(Int::U32, d, in_group, CHUNK));
        let within = asm.b32(|d| op::mad_lo(Int::U32, d, who.warpgroup, self.bytes / self.warpgroups, within));
        let part = asm.b64(|d| op::mad_wide_u32(d, item, self.bytes, self.workspace));
        asm.b64(|d| op::mad_wide_u32(d, within, 1, part))
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
        let inside = rows_of_queries(asm, fwd, tile, consumer.epilogue.lane_row);
        asm.comment("this share's part: O, maxima and sums");
        let item = asm.b32(|d| op::mad_lo(Int::U32, d, share.tile, self.number, share.index));
        let part = self.part(asm, item);
        for (half, inside) in inside.into_iter().enumerate() {
            asm.only_if(inside, "PART_LEFT", |asm| {
                let (max, sum) = (consumer.rows.max, consumer.rows.sum);
                let statistics = (half == 0).then_some((self.statistics(), [max[0], max[1], sum[0], sum[1]]));
                for (chunk, registers) in chunks(&output, half).chain(statistics) {
                    let at = place(part, chunk);
                    asm.emit(op::st_global_v(Wide::V4, Value::F32, at, Operand::vector(&registers)));
                }
            });
        }
        let last = self.arrive(asm, fwd, share);
        asm.jump_unless(last, missing);
        asm.comment("all shares are there: take them in, one after the other");
        asm.only_if(inside[0], "TAKEN_IN", |asm| self.take_in(asm, consumer, share, &output, inside[1]));
        asm.place(&whole);
    }

    /// Arrives when all threads of the warpgroup have left their part, and says whether all other shares have arrived
    /// before. What they left is visible then.
    fn arrive(&self, asm: &mut Asm, fwd: &Forward<'_>, share: Share) -> Pred {
        let smem = fwd.threads.smem;
        asm.comment("arrive, and ask whether this is the last share to do so");
        let last = asm.b32(|d| op::sub(Int::U32, d, self.number, 1));
        asm.emit(op::bar_sync(self.barrier, WARPGROUP));
        asm.in_one_thread(self.first_warp, "ARRIVED", |asm| {
            let Who { warpgroup, .. } = Who::new(asm);
            let word = asm.b32(|d| op::mad_lo(Int::U32, d, share.tile, self.warpgroups, warpgroup));
            let counter = asm.b64(|d| op::mad_wide_u32(d, word, WORD, self.arrivals));
            asm.emit(op::fence_gpu());
            let before = asm.b32(|d| op::atom_inc(d, Operand::at(counter, 0), last));
            asm.emit(op::fence_gpu());
            let at = asm.b32(|d| op::mad_lo(Int::U32, d, warpgroup, WORD, smem));
            asm.emit(op::st_shared(Value::B32, Operand::at(at, self.before as i32), before));
        });
        asm.emit(op::bar_sync(self.barrier, WARPGROUP));
        let Who { warpgroup, .. } = Who::new(asm);
        let at = asm.b32(|d| op::mad_lo(Int::U32, d, warpgroup, WORD, smem));
        let before = asm.b32(|d| op::ld_shared(Value::B32, d, Operand::at(at, self.before as i32)));
        // Of a shuffle from one lane the assembler knows that all have the same.
        let before = asm.b32(|d| op::shfl_sync(Shuffle::Idx, d, before, 0, 31, -1));
        asm.compare(Cmp::Eq, Num::U32, before, last)
    }

    /// Starts from nothing and takes in every share; of the lower rows only if `lower` holds.
    fn take_in(&self, asm: &mut Asm, consumer: &Consumer<'_, '_>, share: Share, output: &Accumulator, lower: Pred) {
        let rows = &consumer.rows;
        output.zero(asm);
        for half in 0..2 {
            asm.emit(op::mov(Value::F32, rows.max[half], f32::NEG_INFINITY));
            asm.emit(op::mov(Value::F32, rows.sum[half], 0.0));
        }
        let first = asm.b32(|d| op::mul_lo(Int::U32, d, share.tile, self.number));
        let part = self.part(asm, first);
        let left = asm.b32(|d| op::mov(Value::B32, d, self.number));
        let next = asm.label("TAKE_IN");
        asm.place(&next);
        let [max0, max1, sum0, sum1] = load(asm, part, self.statistics());
        let [upper_by, lower_by] = softmax::take_in(asm, rows, &consumer.scale, [max0, max1], [sum0, sum1]);
        add(asm, part, output, 0, upper_by, left);
        asm.only_if(lower, "LOWER_ROW", |asm| add(asm, part, output, 1, lower_by, left));
        asm.emit(op::add(Int::U64, part, part, self.bytes));
        asm.emit(op::sub(Int::U32, left, left, 1));
        let more = asm.compare(Cmp::Ne, Num::U32, left, 0);
        asm.jump_if(more, &next);
    }

    /// The chunk of maxima and sums, behind those of O.
    fn statistics(&self) -> u32 {
        self.bytes / (self.warpgroups * WARPGROUP * CHUNK) - 1
    }
}

/// Whether of the upper rows of the warp's lanes some is a row of Q, and of the lower ones; never of those alone.
fn rows_of_queries(asm: &mut Asm, fwd: &Forward<'_>, tile: &Tile, lane_row: R32) -> [Pred; 2] {
    let upper = asm.b32(|d| op::add(Int::U32, d, tile.row, lane_row));
    let lower = asm.b32(|d| op::add(Int::U32, d, upper, LOWER));
    [upper, lower].map(|row| {
        let inside = asm.compare(Cmp::Lt, Num::U32, row, fwd.abi.queries);
        asm.pred(|p| op::vote_sync(Vote::Any, p, inside, -1))
    })
}

/// Multiplies one of the lane's rows of O with a factor and adds that of a share with its weight, as much at once as there are
/// registers for: the assembler moves no load before a branch, such as one that is always taken while shares are `left`.
fn add(asm: &mut Asm, part: R64, output: &Accumulator, half: usize, [factor, weight]: [F32; 2], left: R32) {
    let all: Vec<_> = chunks(output, half).collect();
    let at_once = all.len().div_ceil(all.len().div_ceil(AT_ONCE));
    for (i, some) in all.chunks(at_once).enumerate() {
        let code = |asm: &mut Asm| {
            let loaded: Vec<_> = some.iter().map(|&(chunk, into)| (into, load(asm, part, chunk))).collect();
            for (o, x) in loaded.into_iter().flat_map(|(into, loaded)| into.into_iter().zip(loaded)) {
                let added = asm.f32(|d| op::mul_f32(d, x, weight));
                asm.emit(op::fma_rn_f32(o, o, factor, added));
            }
        };
        match i {
            0 => code(asm),
            _ => {
                let always = asm.compare(Cmp::Ne, Num::U32, left, 0);
                asm.only_if(always, "MORE_COLUMNS", code);
            }
        }
    }
}

fn load(asm: &mut Asm, part: R64, chunk: u32) -> [F32; NUMBERS] {
    let loaded = std::array::from_fn(|_| asm.new_f32());
    asm.emit(op::ld_global_v(Wide::V4, Value::F32, Operand::vector(&loaded), place(part, chunk)));
    loaded
}

/// The registers of O of one of the lane's two rows by fours, each with the number of its chunk.
fn chunks(output: &Accumulator, half: usize) -> impl Iterator<Item = (u32, [F32; NUMBERS])> {
    let row: Vec<F32> = output.row(half).map(|(_, register)| register).collect();
    let chunk = move |i: usize| (2 * i + half) as u32;
    let count = row.len() / NUMBERS;
    (0..count).map(move |i| (chunk(i), std::array::from_fn(|at| row[NUMBERS * i + at])))
}

/// Where a thread's chunk lies: those of the same number of all threads of the warpgroup side by side.
fn place(part: R64, chunk: u32) -> Operand {
    Operand::at(part, (chunk * CHUNK * WARPGROUP) as i32)
}
