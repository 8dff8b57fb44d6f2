//! The two products of a step on the tensor cores: S = Q K^T and O += P V.

use std::ops::Range;

use ptx::qual::Fp8X2;
use ptx::{F32, R16, R32, op};
use schedule::{HOPPER, RowSum};
use tile::descriptor::{Descriptor, Major, SharedOperand};
use tile::{Accumulator, Asm, MatrixAddress, Packed, QUAD_COLUMNS};

use super::Forward;
use super::format::{Format, Left};
use super::linear;
use super::partial::Partial;

/// Operands and accumulators of a consumer warpgroup.
pub(super) struct Products {
    pub(super) scores: Accumulator,
    /// What O += P V adds to, row sums by the tensor cores with it.
    pub(super) output: Accumulator,
    /// The columns of it that one product adds to, and the first of them.
    parts: Vec<(u32, Accumulator)>,
    /// Where the sums of earlier blocks are, if apart.
    partial: Option<Partial>,
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

/// P, rounded to parts of an A operand.
pub(super) struct Converted(Vec<Part>);

/// Both halves of a register of an A operand.
enum Part {
    Bytes([R16; 2]),
    Linear([R32; 2]),
}

/// Where P waits for its product.
enum Probabilities {
    Registers(Packed),
    Shared { operand: SharedOperand, address: MatrixAddress, barrier: R32 },
}

/// The columns of O that one product adds to: all of them, or halves where those of ones make them more than a wgmma has.
fn parts(columns: u32) -> impl Iterator<Item = Range<u32>> {
    let cut = match columns > HOPPER.wgmma_columns_max {
        true => columns / 2 / QUAD_COLUMNS * QUAD_COLUMNS,
        false => columns,
    };
    [0..cut, cut..columns].into_iter().filter(|part| !part.is_empty())
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
        let output = Accumulator::new(asm, memory.output_columns(fwd.schedule));
        let parts = parts(output.columns()).map(|part| (part.start, output.part(part))).collect();
        let partial = Partial::new(asm, fwd, output.columns());
        let q = match fwd.schedule.queries {
            schedule::Queries::Registers => Queries::Registers {
                packed: Packed::for_product(asm, fwd.schedule.head_dim.qk, fwd.format.tensor().bytes()),
                address: MatrixAddress::new(asm, &memory.q, lane, first_row),
            },
            _ => {
                let rows = row_offset(asm, memory.q.row_bytes());
                Queries::Shared(SharedOperand::new(asm, &memory.q, Major::K, smem, Some(rows)))
            }
        };
        let k = SharedOperand::new(asm, &memory.k, Major::K, smem, None);
        let v = SharedOperand::new(asm, &memory.v, fwd.format.values(), smem, None);
        let p = match &memory.p {
            None => Probabilities::Registers(Packed::for_product(asm, columns, fwd.format.tensor().bytes())),
            Some(tile) => {
                let rows = row_offset(asm, tile.row_bytes());
                Probabilities::Shared {
                    operand: SharedOperand::new(asm, tile, Major::K, smem, Some(rows)),
                    address: MatrixAddress::new(asm, tile, lane, first_row),
                    barrier,
                }
            }
        };
        Products { scores, output, parts, partial, q, k, v, p, depth: fwd.schedule.head_dim.qk, columns }
    }

    /// Takes Q out of its slot, if the first product reads it from registers. True if it did: the slot is free of it.
    pub(super) fn load_queries(&self, asm: &mut Asm, fwd: &Forward<'_>, q_stage: Option<R32>) -> bool {
        let Queries::Registers { packed, address } = &self.q else { return false };
        asm.comment("Q to registers");
        let base = fwd.memory.q.stage_base(asm, fwd.threads.smem, q_stage);
        address.load(asm, base, packed);
        // What fills the slot next is of another proxy, which loads that are under way do not hold back.
        asm.emit(op::fence_proxy_async());
        asm.emit(op::bar_warp_sync(-1));
        true
    }

    /// Issues S = Q K^T as a group of its own.
    pub(super) fn issue_scores(&self, asm: &mut Asm, fwd: &Forward<'_>, q_stage: Option<R32>, k_stage: Option<R32>) {
        asm.comment("S = Q K^T");
        asm.emit(op::wgmma_fence());
        let k = self.k.stage(asm, k_stage);
        let steps = self.depth / fwd.format.k_step();
        match &self.q {
            Queries::Shared(operand) => {
                let q = operand.stage(asm, q_stage);
                for step in 0..steps {
                    let (a, b) = (operand.k_step(asm, q, step), self.k.k_step(asm, k, step));
                    asm.emit(fwd.format.mma_shared(&self.scores, a, (b, Major::K), i32::from(step > 0)));
                }
            }
            Queries::Registers { packed, .. } => {
                for step in 0..steps {
                    let b = self.k.k_step(asm, k, step);
                    let a = Left::Queries(packed.k_step(step));
                    asm.emit(fwd.format.mma_registers(&self.scores, a, (b, Major::K), i32::from(step > 0)));
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
        let parts: Vec<(Descriptor, &Accumulator)> =
            self.parts.iter().map(|(first, part)| (self.v.columns_from(asm, v, *first), part)).collect();
        for step in 0..self.columns / fwd.format.k_step() {
            for &(v, part) in &parts {
                let b = (self.v.k_step(asm, v, step), self.v.major());
                let inst = match &self.p {
                    Probabilities::Registers(packed) => {
                        let a = Left::Probabilities(packed.k_step(step));
                        fwd.format.mma_registers(part, a, b, 1)
                    }
                    Probabilities::Shared { operand, .. } => {
                        let p = operand.stage(asm, None);
                        let a = operand.k_step(asm, p, step);
                        fwd.format.mma_shared(part, a, b, 1)
                    }
                };
                asm.emit(inst);
            }
        }
        asm.emit(op::wgmma_commit());
    }

    /// Sets O to zero, for a tile's first block.
    pub(super) fn start_output(&self, asm: &mut Asm) {
        self.output.zero(asm);
        if let Some(partial) = &self.partial {
            partial.start(asm);
        }
    }

    /// Whether sums of earlier blocks are kept apart, whose units follow every step.
    pub(super) fn keeps_partial_sums(&self) -> bool {
        self.partial.is_some()
    }

    /// Multiplies O with the factors of a new maximum. No product may be in flight.
    /// `column` is the first key of the block at hand.
    pub(super) fn rescale_output(
        &self,
        asm: &mut Asm,
        column: R32,
        factors: [F32; 2],
        keep: impl FnOnce(&mut Asm, &Accumulator),
    ) {
        match &self.partial {
            None => keep(asm, &self.output),
            Some(partial) => partial.rescale(asm, &self.output, column, factors, keep),
        }
    }

    /// Adds up what is apart: after the tile's last product, before [`Products::result`].
    pub(super) fn finish_output(&self, asm: &mut Asm) {
        if let Some(partial) = &self.partial {
            partial.finish(asm, &self.output);
        }
    }

    /// O without the columns of the row sums.
    pub(super) fn result(&self, fwd: &Forward<'_>) -> Accumulator {
        self.finished().part(0..fwd.schedule.head_dim.v)
    }

    /// The sums of the lane's two rows, if the tensor cores made them.
    pub(super) fn row_sums(&self, fwd: &Forward<'_>) -> Option<[F32; 2]> {
        let first = fwd.schedule.head_dim.v as usize / 2;
        let regs = self.finished().regs();
        // All columns of ones give the same; a register of each row.
        (fwd.schedule.row_sum == RowSum::TensorCore).then(|| [regs[first], regs[first + 2]])
    }

    fn finished(&self) -> &Accumulator {
        self.partial.as_ref().map_or(&self.output, |partial| partial.finished(&self.output))
    }

    /// Waits until at most `left` groups are in flight.
    pub(super) fn wait(&self, asm: &mut Asm, left: u32) {
        asm.emit(op::wgmma_wait(left));
    }

    /// Rounds S, which holds P by now, to the parts of an 8-bit A operand; a product may still be reading the one before.
    pub(super) fn convert_probabilities(&self, asm: &mut Asm, fwd: &Forward<'_>) -> Converted {
        let quarters = fwd.schedule.linear_quarters();
        let part = |asm: &mut Asm, i: usize| match linear::takes(quarters, i) {
            true => Part::Linear(linear::round(asm, &self.scores, i)),
            false => Part::Bytes(self.scores.pack_bytes(asm, Fp8X2::E4m3x2, i)),
        };
        Converted((0..self.scores.regs().len() / 4).map(|i| part(asm, i)).collect())
    }

    /// Puts the A operand of the next O += P V together. No product may be in flight.
    pub(super) fn join_probabilities(&self, asm: &mut Asm, converted: &Converted) {
        let Probabilities::Registers(packed) = &self.p else { return };
        for (i, part) in converted.0.iter().enumerate() {
            match *part {
                Part::Linear(halves) => linear::join(asm, packed.regs()[i], halves),
                Part::Bytes(halves) => packed.join(asm, i, halves),
            }
        }
    }

    /// Rounds S, which holds P by now, into the A operand of the next O += P V. No product may be in flight.
    pub(super) fn round_probabilities(&self, asm: &mut Asm, fwd: &Forward<'_>) {
        match &self.p {
            Probabilities::Registers(packed) => match fwd.format {
                Format::Half(half) => self.scores.pack_into(asm, half.pair(), packed),
                Format::Fp8(_) => {
                    let converted = self.convert_probabilities(asm, fwd);
                    self.join_probabilities(asm, &converted);
                }
            },
            Probabilities::Shared { address, barrier, .. } => {
                address.store(asm, fwd.threads.smem, &self.scores, fwd.output().pair());
                asm.emit(op::fence_proxy_async());
                asm.emit(op::bar_sync(*barrier, tile::WARPGROUP));
            }
        }
    }
}
