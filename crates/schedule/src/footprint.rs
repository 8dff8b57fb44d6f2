//! What a schedule takes: shared memory item by item, in the order of the lowering's layout, and a consumer thread's
//! registers.
//!
//! Says what is needed, never whether it fits: that is `feasible`'s business.

use crate::data::Schedule;
use crate::target::{HOPPER, MBARRIER_BYTES, Target, WARPGROUP_THREADS};
use crate::{Accumulate, Probabilities, Queries, Rescale, RowSum};

/// Query-tile coordinates are handed from the producer to the consumers through a ring of this many slots.
pub const TILE_QUEUE_SLOTS: u64 = 2;

/// Verdicts on tiles, where `rescale: on_overflow` asks for them: of the tile at hand and of the one before.
pub const VERDICT_SLOTS: u64 = 2;

/// Bytes of one warp's verdict.
pub const VERDICT_BYTES: u64 = 4;

/// Bytes of a warpgroup's word, where `split` says that blocks share a query tile: how many shares arrived before its own.
pub const ARRIVAL_BYTES: u64 = 4;

/// Bytes of one slot of that ring.
pub const TILE_QUEUE_SLOT_BYTES: u64 = 32;

/// Registers that a consumer thread needs beside accumulators and P: row statistics, addresses, phases, loop counters.
/// A 192 x 80 tile at head dimension 128 (124) assembles at 160 without a spill, 192 x 96 (136) does not.
pub const WORKING_REGISTERS: u64 = 28;

/// Columns of ones that `row_sum: tensor_core` appends to V.
pub const ROW_SUM_COLUMNS: u32 = 8;

/// Bytes of a sum in f32.
const SUM_BYTES: u64 = 4;

/// One item of the shared-memory layout: all stages of it together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SharedItem {
    /// `q`, `k`, `v`, `v_rows`, `o`, `p`, `sums`, `barriers`, `tiles`, `verdicts` or `arrivals`.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: u64,
    /// Alignment in bytes, a power of two.
    pub align: u64,
}

/// Where O waits in shared memory on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Staging {
    /// In a tile of its own, so that the next tile's products may run beside its stores.
    OwnTile,
    /// In the Q slot that it came from; another slot of Q takes the next tile meanwhile.
    QuerySlot,
    /// In the ring of V, which is idle between tiles, so that the only slot of Q is free for the next tile early.
    Values,
}

/// Where this schedule's O waits: what `stages q` and `across_tiles` leave. 8-bit elements leave no slot of Q that is
/// long enough, and a ring of V only where its panels are those of O and hold no columns of ones.
pub fn staging(schedule: &Schedule) -> Staging {
    let element = schedule.element;
    let ring = product(&[u64::from(schedule.stages.kv), u64::from(schedule.tile.columns), element.bytes()]);
    let o = product(&[u64::from(schedule.tile.rows), element.output_bytes()]);
    let panels = !element.is_fp8()
        || (swizzle_bytes(u64::from(schedule.tile.columns))
            == swizzle_bytes(product(&[u64::from(schedule.head_dim.v), element.output_bytes()]))
            && schedule.row_sum == RowSum::Threads);
    match schedule.overlap.across_tiles {
        true => Staging::OwnTile,
        false if schedule.stages.q == 1 && ring >= o && panels => Staging::Values,
        false if element.is_fp8() => Staging::OwnTile,
        false => Staging::QuerySlot,
    }
}

/// Where the total of O is kept beside the tensor cores' accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartialSums {
    /// Nowhere: the accumulator takes all.
    None,
    /// In registers of its own.
    Registers,
    /// In shared memory, 32 bits for each of a consumer thread's accumulators.
    Shared,
}

/// Where this schedule's total is: in registers if they hold it beside the rest, else in shared memory.
pub fn partial_sums(schedule: &Schedule) -> PartialSums {
    let Some(Accumulate::Every(_)) = schedule.fp8.map(|fp8| fp8.accumulate) else { return PartialSums::None };
    let parts = registers_beside(schedule, PartialSums::Registers);
    match parts.total() + WORKING_REGISTERS <= u64::from(schedule.roles.consumer.registers) {
        true => PartialSums::Registers,
        false => PartialSums::Shared,
    }
}

/// Bytes of a warpgroup's total in shared memory: each thread's half columns of two rows, and a word.
pub fn sums_bytes_of_warpgroup(schedule: &Schedule) -> u64 {
    let columns = u64::from(schedule.head_dim.v) + u64::from(row_sum_columns(schedule));
    product(&[columns / 2 + 1, SUM_BYTES, u64::from(WARPGROUP_THREADS)])
}

/// The span of the widest swizzle that divides a row, or 0.
fn swizzle_bytes(row: u64) -> u64 {
    [128, 64, 32].into_iter().find(|&span| row.is_multiple_of(span)).unwrap_or(0)
}

/// The shared memory of a block, item by item in the order of their addresses. Optional items are absent, not empty.
///
/// Where O waits in the Q slot ([`staging`]), a slot of `q` is as long as the longer of the two; where it has a tile of
/// its own, `o` follows `v`. `p` is there only for `probabilities: shared`. 8-bit `v` has a row for each column of V, and
/// eight more with the ones of `row_sum: tensor_core`; `v_rows`, for `values: rows`, is what it is transposed from. `sums`
/// is there where partial sums of O have their total in shared memory ([`partial_sums`]).
/// `barriers` are the full and empty barriers of `q` (by stage), of `k`, of `v` and of `v_rows` (by stage) and of the tile
/// queue (by slot), and one that says that O has left the ring of V where it waits there. `tiles` is that queue, and
/// `verdicts` are barriers and words of the verdicts on tiles, for `rescale: on_overflow`; `arrivals` is a word of each
/// consumer warpgroup, for `split: keys`.
pub fn shared_memory(schedule: &Schedule) -> Vec<SharedItem> {
    let rows = u64::from(schedule.tile.rows);
    let columns = u64::from(schedule.tile.columns);
    let (qk, v) = (u64::from(schedule.head_dim.qk), u64::from(schedule.head_dim.v));
    let (q_stages, kv_stages) = (u64::from(schedule.stages.q), u64::from(schedule.stages.kv));
    let element = schedule.element.bytes();
    let q_row = product(&[qk, element]);
    let o_row = product(&[v, schedule.element.output_bytes()]);
    let staging = staging(schedule);
    let slot_row = if staging == Staging::QuerySlot { q_row.max(o_row) } else { q_row };
    let ones = if schedule.element.is_fp8() { u64::from(row_sum_columns(schedule)) } else { 0 };
    let rings = if schedule.transposes_values() { 3 } else { 2 };
    let barriers = q_stages
        .saturating_mul(2)
        .saturating_add(kv_stages.saturating_mul(2 * rings))
        .saturating_add(2 * TILE_QUEUE_SLOTS)
        .saturating_add(u64::from(staging == Staging::Values));

    let tile = |name, bytes| SharedItem { name, bytes, align: HOPPER.tile_align };
    let mut items = vec![
        tile("q", product(&[q_stages, rows, slot_row])),
        tile("k", product(&[kv_stages, columns, q_row])),
        tile("v", product(&[kv_stages, columns, v.saturating_add(ones), element])),
    ];
    if schedule.transposes_values() {
        items.push(tile("v_rows", product(&[kv_stages, columns, v, element])));
    }
    if staging == Staging::OwnTile {
        items.push(tile("o", product(&[rows, o_row])));
    }
    if schedule.probabilities == Probabilities::Shared {
        items.push(tile("p", product(&[rows, columns, element])));
    }
    if partial_sums(schedule) == PartialSums::Shared {
        let bytes = u64::from(schedule.roles.consumer.warpgroups).saturating_mul(sums_bytes_of_warpgroup(schedule));
        items.push(SharedItem { name: "sums", bytes, align: 16 });
    }
    items.push(SharedItem { name: "barriers", bytes: barriers.saturating_mul(MBARRIER_BYTES), align: MBARRIER_BYTES });
    items.push(SharedItem { name: "tiles", bytes: TILE_QUEUE_SLOTS * TILE_QUEUE_SLOT_BYTES, align: 16 });
    if schedule.rescale == Rescale::OnOverflow {
        let warps = u64::from(schedule.roles.consumer.warpgroups).saturating_mul(4);
        let bytes = VERDICT_SLOTS * MBARRIER_BYTES + product(&[VERDICT_SLOTS, warps, VERDICT_BYTES]);
        items.push(SharedItem { name: "verdicts", bytes, align: 16 });
    }
    if schedule.splits() {
        let bytes = u64::from(schedule.roles.consumer.warpgroups).saturating_mul(ARRIVAL_BYTES);
        items.push(SharedItem { name: "arrivals", bytes, align: 16 });
    }
    items
}

/// The bytes that a block allocates: every item at its alignment, from address zero.
pub fn shared_bytes(schedule: &Schedule) -> u64 {
    shared_memory(schedule).iter().fold(0, |end: u64, item| {
        let start = end.checked_next_multiple_of(item.align).unwrap_or(u64::MAX);
        start.saturating_add(item.bytes)
    })
}

/// 32-bit registers per consumer thread that live together at the fullest point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Registers {
    /// Accumulators of S, in f32.
    pub scores: u64,
    /// P in the element type, where it lives beside the scores of the next tile.
    pub probabilities: u64,
    /// Accumulators of O, in f32, with those of the row sums where the tensor cores make them.
    pub output: u64,
    /// The same again where partial sums have their total in registers.
    pub partial: u64,
    /// Q in the element type, where the first product reads it from registers.
    pub queries: u64,
}

impl Registers {
    /// All of them, without [`WORKING_REGISTERS`].
    pub const fn total(self) -> u64 {
        self.scores + self.probabilities + self.output + self.partial + self.queries
    }

    /// The partial sums as a term of a message, empty where there are none.
    pub(crate) fn partial_words(self) -> String {
        if self.partial > 0 { format!(" + partial O {}", self.partial) } else { String::new() }
    }
}

/// The registers of a consumer thread. P takes registers of its own only if it is multiplied from registers while the
/// next S is being computed; otherwise it takes the place of the S that it came from.
pub fn registers(schedule: &Schedule) -> Registers {
    registers_beside(schedule, partial_sums(schedule))
}

fn registers_beside(schedule: &Schedule, sums: PartialSums) -> Registers {
    let columns = u64::from(schedule.tile.columns);
    let apart = schedule.overlap.within_warpgroup && schedule.probabilities == Probabilities::Registers;
    let output = (u64::from(schedule.head_dim.v) + u64::from(row_sum_columns(schedule))) / 2;
    Registers {
        scores: columns / 2,
        probabilities: if apart { columns * schedule.element.bytes() / 8 } else { 0 },
        queries: match schedule.queries {
            Queries::Registers => u64::from(schedule.head_dim.qk) * schedule.element.bytes() / 8,
            Queries::Shared => 0,
        },
        output,
        partial: if sums == PartialSums::Registers { output } else { 0 },
    }
}

/// Columns of ones beside V.
pub const fn row_sum_columns(schedule: &Schedule) -> u32 {
    match schedule.row_sum {
        RowSum::TensorCore => ROW_SUM_COLUMNS,
        RowSum::Threads => 0,
    }
}

/// Registers per thread at the entry of the schedule's kernel, which the assembler takes from the launch bound and the
/// consumers' request, whichever is lower. As allocated: 256 where a thread can name 255.
pub fn entry_allocation(schedule: &Schedule, target: &Target) -> u32 {
    target.entry_allocation(schedule.threads()).min(schedule.roles.consumer.registers)
}

/// Bytes of the workspace that one share of one query tile takes, for `split: keys`: of every consumer thread its
/// accumulators of O, and the maxima and sums of its two rows.
pub fn share_bytes(schedule: &Schedule) -> u64 {
    let per_thread = product(&[u64::from(schedule.head_dim.v) / 2 + 4, 4]);
    product(&[u64::from(schedule.roles.consumer.warpgroups), u64::from(WARPGROUP_THREADS), per_thread])
}

/// A product that sticks at the top, so that absurd schedules are refused and do not wrap around.
fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |all: u64, factor| all.saturating_mul(*factor))
}

#[cfg(test)]
mod tests {
    use super::{Staging, registers, share_bytes, shared_bytes, shared_memory, staging};
    use crate::feasible::tests::{base, e4m3};
    use crate::{Accumulate, Fp8, HeadDim, Overlap, Probabilities, RowSum, Schedule, Split, Values};

    #[test]
    fn items_in_the_order_of_the_layout() {
        let mut schedule = base();
        schedule.probabilities = Probabilities::Shared;
        schedule.overlap.across_tiles = true;
        let items: Vec<_> = shared_memory(&schedule).iter().map(|item| (item.name, item.bytes)).collect();
        let tile = 128 * 128 * 2;
        assert_eq!(
            items,
            [
                ("q", 2 * tile),
                ("k", 2 * tile),
                ("v", 2 * tile),
                ("o", tile),
                ("p", tile),
                ("barriers", 128),
                ("tiles", 64)
            ]
        );
        assert_eq!(shared_bytes(&schedule), 8 * tile + 128 + 64);
    }

    #[test]
    fn shares_take_a_word_here_and_their_part_of_o_elsewhere() {
        let whole = base();
        let split = Schedule { split: Split::Keys, ..base() };
        assert_eq!(shared_bytes(&split), shared_bytes(&whole).next_multiple_of(16) + 8);
        // 128 rows of 128 columns in f32, and four numbers of 256 threads.
        assert_eq!(share_bytes(&split), 128 * 128 * 4 + 256 * 16);
    }

    #[test]
    fn a_query_slot_has_room_for_its_output() {
        let mut schedule = base();
        schedule.head_dim = HeadDim { qk: 64, v: 128 };
        assert_eq!(shared_memory(&schedule)[0].bytes, 2 * 128 * 128 * 2);
        schedule.overlap.across_tiles = true;
        assert_eq!(shared_memory(&schedule)[0].bytes, 2 * 128 * 64 * 2);
    }

    #[test]
    fn eight_bit_tiles_leave_o_its_own() {
        let mut schedule = base();
        e4m3(&mut schedule);
        schedule.row_sum = RowSum::TensorCore;
        schedule.tile.columns = 96;
        let bytes = |schedule: &Schedule| -> Vec<_> {
            shared_memory(schedule).iter().map(|item| (item.name, item.bytes)).collect()
        };
        let (k, v, o) = (("k", 2 * 96 * 128), ("v", 2 * 96 * 136), ("o", 128 * 256));
        assert_eq!(bytes(&schedule), [("q", 2 * 128 * 128), k, v, o, ("barriers", 128), ("tiles", 64)]);
        // The ring of V by rows comes with barriers of its own.
        schedule.fp8 = Some(Fp8 { values: Values::Rows, ..Fp8::default() });
        assert_eq!(bytes(&schedule)[3..], [("v_rows", 2 * 96 * 128), o, ("barriers", 160), ("tiles", 64)]);
    }

    #[test]
    fn o_waits_in_an_eight_bit_ring_of_the_same_panels() {
        let mut schedule = base();
        e4m3(&mut schedule);
        schedule.head_dim = HeadDim::same(256);
        schedule.stages.q = 1;
        assert_eq!(staging(&schedule), Staging::Values);
        schedule.tile.columns = 96;
        schedule.stages.kv = 3;
        assert_eq!(staging(&schedule), Staging::OwnTile, "rows of 32 bytes are not those of O");
        schedule.tile.columns = 128;
        schedule.head_dim = HeadDim::same(128);
        schedule.row_sum = RowSum::TensorCore;
        assert_eq!(staging(&schedule), Staging::OwnTile, "the ones must stay");
    }

    #[test]
    fn partial_sums_take_the_output_again() {
        let mut schedule = base();
        e4m3(&mut schedule);
        schedule.fp8 = Some(Fp8 { accumulate: Accumulate::Every(4), ..Fp8::default() });
        assert_eq!(registers(&schedule).total(), 64 + 16 + 64 + 64);
    }

    #[test]
    fn probabilities_take_registers_only_beside_the_next_scores() {
        let mut schedule = base();
        assert_eq!(registers(&schedule).total(), 64 + 32 + 64);
        schedule.probabilities = Probabilities::Shared;
        assert_eq!(registers(&schedule).total(), 64 + 64);
        schedule.probabilities = Probabilities::Registers;
        schedule.overlap = Overlap::default();
        assert_eq!(registers(&schedule).total(), 64 + 64);
    }
}
