//! The two products of a step on the tensor cores: S = Q K^T and O += P V.

use ptx::R32;
use ptx::op;
use ptx::qual::MmaK16;
use tile::descriptor::{Major, SharedOperand};
use tile::{Accumulator, Asm, MatrixAddress, Packed};

use super::Forward;

/// Depth of a k-step of 16-bit operands.
const K_STEP: u32 = 16;

/// Operands and accumulators of a consumer warpgroup.
pub(super) struct Products {
    pub(super) scores: Accumulator,
    pub(super) output: Accumulator,
    q: Queries,
    k: SharedOperand,
    v: SharedOperand,
    p: Probabilities,
    depth: u32,
    columns: u32,
}

/// Where Q is read from.
enum Queries {
    Shared(SharedOperand),
    Registers { packed: Packed, address: MatrixAddress },
}

/// Where P waits for its product.
enum Probabilities {
    Registers(Packed),
    Shared { operand: SharedOperand, address: MatrixAddress, barrier: R32 },
}

impl Products {
    /// `first_row` is the warp's first row in the tile, `group_row` its warpgroup's, `barrier` a named barrier of the
    /// warpgroup's own.
    pub(super) fn new(asm: &mut Asm, fwd: &Forward<'_>, group_row: R32, first_row: R32, barrier: R32) -> Products {
        let memory = &fwd.memory;
        let (smem, lane) = (fwd.threads.smem, fwd.threads.lane);
        let row_offset = |asm: &mut Asm, bytes: u32| asm.b32(|d| op::mul_lo(ptx::qual::Int::U32, d, group_row, bytes));
        let columns = fwd.schedule.tile.columns;
        let scores = Accumulator::new(asm, columns);
        let output = Accumulator::new(asm, fwd.schedule.head_dim.v);
        let q = match fwd.schedule.queries {
            schedule::Queries::Registers => Queries::Registers {
                packed: Packed::for_product(asm, fwd.schedule.head_dim.qk),
                address: MatrixAddress::new(asm, &memory.q, lane, first_row),
            },
            _ => {
                let rows = row_offset(asm, memory.q.row_bytes());
                Queries::Shared(SharedOperand::new(asm, &memory.q, Major::K, smem, Some(rows)))
            }
        };
        let k = SharedOperand::new(asm, &memory.k, Major::K, smem, None);
        let v = SharedOperand::new(asm, &memory.v, Major::Mn, smem, None);
        let p = match &memory.p {
            None => Probabilities::Registers(Packed::for_product(asm, columns)),
            Some(tile) => {
                let rows = row_offset(asm, tile.row_bytes());
                Probabilities::Shared {
                    operand: SharedOperand::new(asm, tile, Major::K, smem, Some(rows)),
                    address: MatrixAddress::new(asm, tile, lane, first_row),
                    barrier,
                }
            }
        };
        Products { scores, output, q, k, v, p, depth: fwd.schedule.head_dim.qk, columns }
    }

    /// Takes Q out of its slot, if the first product reads it from registers. True if it did: the slot is free of it.
    pub(super) fn load_queries(&self, asm: &mut Asm, fwd: &Forward<'_>, q_stage: Option<R32>) -> bool {
        let Queries::Registers { packed, address } = &self.q else { return false };
        asm.comment("Q to registers");
        let base = fwd.memory.q.stage_base(asm, fwd.threads.smem, q_stage);
        address.load(asm, base, packed);
        asm.emit(op::bar_warp_sync(-1));
        true
    }

    /// Issues S = Q K^T as a group of its own.
    pub(super) fn issue_scores(&self, asm: &mut Asm, fwd: &Forward<'_>, q_stage: Option<R32>, k_stage: Option<R32>) {
        asm.comment("S = Q K^T");
        asm.emit(op::wgmma_fence());
        let shape = shape(self.columns);
        let k = self.k.stage(asm, k_stage);
        match &self.q {
            Queries::Shared(operand) => {
                let q = operand.stage(asm, q_stage);
                for step in 0..self.depth / K_STEP {
                    let (a, b) = (operand.k_step(asm, q, step), self.k.k_step(asm, k, step));
                    asm.emit(fwd.format.mma_shared(shape, &self.scores, a, b, step > 0, false));
                }
            }
            Queries::Registers { packed, .. } => {
                for step in 0..self.depth / K_STEP {
                    let b = self.k.k_step(asm, k, step);
                    let a = packed.k_step(step);
                    asm.emit(fwd.format.mma_registers(shape, &self.scores, a, b, step > 0, false));
                }
            }
        }
        asm.emit(op::wgmma_commit());
    }

    /// Issues O += P V as a group of its own.
    pub(super) fn issue_output(&self, asm: &mut Asm, fwd: &Forward<'_>, v_stage: Option<R32>) {
        asm.comment("O += P V");
        asm.emit(op::wgmma_fence());
        let v = self.v.stage(asm, v_stage);
        let shape = shape(self.output.columns());
        for step in 0..self.columns / K_STEP {
            let b = self.v.k_step(asm, v, step);
            let inst = match &self.p {
                Probabilities::Registers(packed) => {
                    fwd.format.mma_registers(shape, &self.output, packed.k_step(step), b, true, true)
                }
                Probabilities::Shared { operand, .. } => {
                    let p = operand.stage(asm, None);
                    let a = operand.k_step(asm, p, step);
                    fwd.format.mma_shared(shape, &self.output, a, b, true, true)
                }
            };
            asm.emit(inst);
        }
        asm.emit(op::wgmma_commit());
    }

    /// Waits until at most `left` groups are in flight.
    pub(super) fn wait(&self, asm: &mut Asm, left: u32) {
        asm.emit(op::wgmma_wait(left));
    }

    /// Rounds S, which holds P by now, into the A operand of the next O += P V. No product may be in flight.
    pub(super) fn round_probabilities(&self, asm: &mut Asm, fwd: &Forward<'_>) {
        match &self.p {
            Probabilities::Registers(packed) => self.scores.pack_into(asm, fwd.format.pair(), packed),
            Probabilities::Shared { address, barrier, .. } => {
                address.store(asm, fwd.threads.smem, &self.scores, fwd.format.pair());
                asm.emit(op::fence_proxy_async());
                asm.emit(op::bar_sync(*barrier, tile::WARPGROUP));
            }
        }
    }
}

/// The shape with N columns. The feasibility rules admit no other widths.
fn shape(columns: u32) -> MmaK16 {
    MmaK16::n(columns).expect("a feasible schedule's tiles are wgmma shapes")
}
