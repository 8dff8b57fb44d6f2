//! The end of a tile: O is scaled, rounded and copied out through its Q slot; the log-sum-exp is stored.

use ptx::qual::{Bits, Cmp, Int, Num, Shr, Value};
use ptx::{F32, Operand, Pred, R32, op};
use tile::{Asm, Gate, MatrixAddress, Slot, store_panels};

use super::Forward;
use super::coordinates::Tile;
use super::products::Products;

/// How a consumer warpgroup stores.
pub(super) struct Epilogue {
    /// Where a lane stores its part of O.
    address: MatrixAddress,
    /// The warpgroup's first row in the tile.
    group_row: R32,
    /// The lane's upper row in the tile.
    pub(super) lane_row: R32,
    /// Holds in the warpgroup's first warp.
    pub(super) first_warp: Pred,
    /// Holds in the lane that stores the statistics of its quad.
    quad_leader: Pred,
    /// A named barrier of the warpgroup's own.
    pub(super) barrier: R32,
    /// A named barrier of all consumers.
    together: u32,
}

impl Epilogue {
    pub(super) fn new(
        asm: &mut Asm,
        fwd: &Forward<'_>,
        group_row: R32,
        first_row: R32,
        lane_row: R32,
        (barrier, together): (R32, u32),
    ) -> Epilogue {
        let lane = fwd.threads.lane;
        let address = MatrixAddress::new(asm, &fwd.memory.o, lane, first_row);
        let in_group = asm.b32(|d| op::and(Bits::B32, d, fwd.threads.warp, 3));
        let first_warp = asm.compare(Cmp::Eq, Num::U32, in_group, 0);
        let in_quad = asm.b32(|d| op::and(Bits::B32, d, lane, 3));
        let quad_leader = asm.compare(Cmp::Eq, Num::U32, in_quad, 0);
        Epilogue { address, group_row, lane_row, first_warp, quad_leader, barrier, together }
    }

    /// Stores O through the Q slot that it came from, and gives the slot back when it has been read out.
    pub(super) fn store_through_slot(
        &self,
        asm: &mut Asm,
        fwd: &Forward<'_>,
        products: &Products,
        tile: &Tile,
        (slot, stage): (Slot, Option<R32>),
        inverse: [F32; 2],
    ) {
        asm.comment("O: scale, round, stage in the Q slot");
        let base = fwd.memory.o.stage_base(asm, fwd.threads.smem, stage);
        self.stage(asm, fwd, products, base, inverse);
        asm.in_one_thread(self.first_warp, "O_STORED", |asm| {
            self.copy_out(asm, fwd, tile, base);
            self.wait_for_stores(asm, fwd);
            fwd.memory.q_ring.release_here(asm, slot);
        });
    }

    /// Stores O through the ring of V, when every consumer has done with V, and opens the gate when it has left.
    pub(super) fn store_through_values(
        &self,
        asm: &mut Asm,
        fwd: &Forward<'_>,
        products: &Products,
        tile: &Tile,
        gate: &Gate,
        inverse: [F32; 2],
    ) {
        asm.comment("O: scale, round, stage in the ring of V when all have done with it");
        let (base, smem) = (fwd.threads.smem, fwd.threads.smem);
        self.meet_after_values(asm, fwd);
        self.stage(asm, fwd, products, base, inverse);
        asm.in_one_thread(self.first_warp, "O_STORED", |asm| {
            self.copy_out(asm, fwd, tile, base);
            self.wait_for_stores(asm, fwd);
            gate.open(asm, smem);
        });
    }

    /// Stores O through its own tile, when the one before has been read out of it.
    pub(super) fn store_through_own(
        &self,
        asm: &mut Asm,
        fwd: &Forward<'_>,
        products: &Products,
        tile: &Tile,
        inverse: [F32; 2],
    ) {
        asm.comment("O: scale, round, stage when the tile before has left");
        asm.in_one_thread(self.first_warp, "O_FREE", |asm| self.wait_for_stores(asm, fwd));
        asm.emit(op::bar_sync(self.barrier, tile::WARPGROUP));
        let base = fwd.threads.smem;
        self.stage(asm, fwd, products, base, inverse);
        asm.in_one_thread(self.first_warp, "O_STORED", |asm| self.copy_out(asm, fwd, tile, base));
    }

    /// Gives back what a tile's O would have left through, where this warpgroup stores none. Its warps must have met since
    /// the last product.
    pub(super) fn store_nothing(&self, asm: &mut Asm, fwd: &Forward<'_>, slot: Slot) {
        match &fwd.memory.o_gate {
            Some(gate) => {
                self.meet_after_values(asm, fwd);
                asm.in_one_thread(self.first_warp, "NOTHING_STORED", |asm| gate.open(asm, fwd.threads.smem));
            }
            None => asm.in_one_thread(self.first_warp, "NOTHING_STORED", |asm| {
                fwd.memory.q_ring.release_here(asm, slot);
            }),
        }
    }

    /// Waits until every consumer has done with V.
    fn meet_after_values(&self, asm: &mut Asm, fwd: &Forward<'_>) {
        let consumers = fwd.schedule.roles.consumer.warpgroups * tile::WARPGROUP;
        asm.emit(op::bar_sync(self.together, consumers));
    }

    /// Waits until nothing that this warpgroup stored is left in shared memory.
    pub(super) fn drain(&self, asm: &mut Asm) {
        asm.in_one_thread(self.first_warp, "O_DRAINED", |asm| asm.emit(op::bulk_wait_read(0)));
    }

    /// Waits until what this thread stored has been read out of shared memory; where a tile may be done again, until it
    /// has been written, lest the second O come before the first.
    fn wait_for_stores(&self, asm: &mut Asm, fwd: &Forward<'_>) {
        asm.emit(match fwd.memory.verdict {
            None => op::bulk_wait_read(0),
            Some(_) => op::bulk_wait(0),
        });
    }

    /// Rounds O into shared memory and makes it visible to the copy engine.
    fn stage(&self, asm: &mut Asm, fwd: &Forward<'_>, products: &Products, base: R32, inverse: [F32; 2]) {
        let output = products.result(fwd);
        output.scale_rows(asm, inverse);
        self.address.store(asm, base, &output, fwd.output().pair());
        asm.emit(op::fence_proxy_async());
        asm.emit(op::bar_sync(self.barrier, tile::WARPGROUP));
    }

    /// Issues the copy of the warpgroup's rows.
    fn copy_out(&self, asm: &mut Asm, fwd: &Forward<'_>, tile: &Tile, base: R32) {
        let o = &fwd.memory.o;
        let rows = asm.b32(|d| op::mul_lo(Int::U32, d, self.group_row, o.row_bytes()));
        let from = asm.b32(|d| op::add(Int::U32, d, base, rows));
        let row = asm.b32(|d| op::add(Int::U32, d, tile.row, self.group_row));
        store_panels(asm, o, from, fwd.abi.o, [row, tile.head, tile.batch]);
        asm.emit(op::bulk_commit());
    }

    /// Stores the log-sum-exp of the lane's two rows, where they are rows of the tensor.
    pub(super) fn store_statistics(&self, asm: &mut Asm, fwd: &Forward<'_>, tile: &Tile, lse: [F32; 2]) {
        asm.comment("the log-sum-exp, f32 [batch, head, query]");
        asm.only_if(self.quad_leader, "LSE_STORED", |asm| {
            let row = asm.b32(|d| op::add(Int::U32, d, tile.row, self.lane_row));
            let head = asm.b32(|d| op::mad_lo(Int::U32, d, tile.batch, fwd.abi.heads, tile.head));
            // 64 bits: heads times queries may pass 2^32.
            let before = asm.b64(|d| op::mul_wide_u32(d, head, fwd.abi.queries));
            let wide = asm.b64(|d| op::cvt_u64_u32(d, row));
            let index = asm.b64(|d| op::add(Int::U64, d, before, wide));
            let bytes = asm.b64(|d| op::shl(Bits::B64, d, index, 2));
            let address = asm.b64(|d| op::add(Int::U64, d, fwd.abi.lse, bytes));
            for (half, value) in lse.into_iter().enumerate() {
                let below = 8 * half as u32;
                let row = asm.b32(|d| op::add(Int::U32, d, row, below));
                let inside = asm.compare(Cmp::Lt, Num::U32, row, fwd.abi.queries);
                let at = Operand::at(address, (4 * below) as i32);
                asm.emit(op::st_global(Value::F32, at, value).when(inside));
            }
        });
    }
}

/// The lane's upper row in the tile: its warp's first row and l / 4.
pub(super) fn lane_row(asm: &mut Asm, lane: R32, first_row: R32) -> R32 {
    let in_warp = asm.b32(|d| op::shr(Shr::U32, d, lane, 2));
    asm.b32(|d| op::add(Int::U32, d, first_row, in_warp))
}
