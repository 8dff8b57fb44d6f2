//! The forward pass: O = softmax(scale * Q K^T) V and the log-sum-exp of every row (FlashAttention-3, arXiv 2407.08608).
//!
//! One warpgroup loads (`producer`), the others multiply, 64 query rows each. They meet in rings of shared tiles
//! (`memory`); which tile comes next is decoded once, by the producer (`order`), and handed over (`coordinates`). The
//! consumers walk over tiles (`walk`), and a consumer over a tile's key blocks from the last to the first (`consumer`):
//! products (`products`), mask (`mask`), online softmax (`softmax`), and at the end the output and the log-sum-exp
//! (`epilogue`).
//!
//! Where the reference of the softmax stands, a tile that overflowed is found by its numbers (`overflow`), and the producer
//! hands it out again (`repeats`).
//!
//! A query tile may be split into shares of its keys, which the last block to arrive puts together (`shares`).
//!
//! 8-bit elements come with scales (`scales`), may keep partial sums (`partial`) and make P without exponentials
//! (`linear`), and then most maxima without comparing scores (`lazy`); their V is
//! K-major in shared memory, loaded so or transposed there (`transposing`).

mod abi;
mod consumer;
mod coordinates;
mod epilogue;
mod format;
mod lazy;
mod linear;
mod mask;
mod memory;
mod order;
mod overflow;
mod partial;
mod polynomial;
mod producer;
mod products;
mod repeats;
mod scales;
mod shares;
mod softmax;
mod transposing;
mod unseen;
mod walk;

use ptx::qual::{Cmp, Num};
use schedule::{Probabilities, RowSum, Schedule};
use tile::{Program, Threads};

use crate::Refused;
use abi::Abi;
use format::{Format, Half};
use memory::Memory;

/// What every part of the kernel needs to know.
struct Forward<'a> {
    schedule: &'a Schedule,
    format: Format,
    abi: Abi,
    memory: Memory,
    threads: Threads,
}

impl Forward<'_> {
    /// The format of O.
    fn output(&self) -> Half {
        self.format.output(self.schedule)
    }
}

pub(crate) fn lower(schedule: &Schedule) -> Result<ptx::Module, Refused> {
    let format = supported(schedule)?;
    let warpgroups = schedule.warpgroups();
    let mut program = Program::new(&schedule.name, crate::header(schedule), warpgroups);
    let memory = Memory::new(&mut program.layout, schedule, format)?;
    program.asm.comment("every thread: who it is, the parameters, the barriers");
    let threads = program.threads();
    let abi = Abi::declare(&mut program, schedule, &memory);
    let forward = Forward { schedule, format, abi, memory, threads };

    program.initialise(&threads, |asm| {
        for ring in forward.memory.rings() {
            ring.init(asm, threads.smem);
        }
        if let Some(gate) = &forward.memory.o_gate {
            gate.init(asm, threads.smem);
        }
        if let Some(verdict) = &forward.memory.verdict {
            verdict.init(asm, threads.smem);
        }
        for map in forward.abi.tensors() {
            asm.emit(ptx::op::prefetch_tensormap(ptx::Operand::at(map, 0)));
        }
    });
    if forward.memory.v.rows_below() > 0 {
        program.asm.comment("the rows of ones below V, which sum the rows of P");
        program.fill_rows_below(&threads, &forward.memory.v, format.ones());
    }
    program.join();
    let consumers = program.asm.label("CONSUMER");
    let consumes = program.asm.compare(Cmp::Ne, Num::U32, threads.warpgroup, 0);
    program.asm.jump_if(consumes, &consumers);

    match schedule.transposes_values() {
        true => transposing::emit(&mut program, &forward),
        false => producer::emit(&mut program, &forward),
    }
    walk::emit(&mut program, &forward, &consumers);
    Ok(program.finish())
}

/// Refuses by name what the forward pass does not have.
fn supported(schedule: &Schedule) -> Result<Format, Refused> {
    let fp8 = schedule.element.is_fp8();
    if schedule.row_sum == RowSum::TensorCore && !fp8 {
        return Err(Refused::new(
            "row_sum: tensor_core",
            "16-bit rows are summed by threads, as columns of ones are rows of a K-major V; say `row_sum: threads`",
        ));
    }
    if schedule.probabilities == Probabilities::Shared && fp8 {
        return Err(Refused::new(
            "probabilities: shared",
            "8-bit P is made in registers; say `probabilities: registers`",
        ));
    }
    Format::of(schedule.element)
        .ok_or_else(|| Refused::new(format!("element: {}", schedule.element), "bf16, f16, e4m3 and e5m2 are lowered"))
}
