//! The forward pass: O = softmax(scale * Q K^T) V and the log-sum-exp of every row (FlashAttention-3, arXiv 2407.08608).
//!
//! One warpgroup loads (`producer`), the others multiply, 64 query rows each. They meet in rings of shared tiles
//! (`memory`); which tile comes next is decoded once, by the producer (`order`), and handed over (`coordinates`). The
//! consumers walk over tiles (`walk`), and a consumer over a tile's key blocks from the last to the first (`consumer`):
//! products (`products`), mask (`mask`), online softmax (`softmax`), and at the end the output and the log-sum-exp
//! (`epilogue`).

mod abi;
mod consumer;
mod coordinates;
mod epilogue;
mod format;
mod mask;
mod memory;
mod order;
mod overflow;
mod producer;
mod products;
mod repeats;
mod softmax;
mod walk;

use ptx::qual::{Cmp, Num};
use schedule::{Element, RowSum, Schedule};
use tile::{Program, Threads};

use crate::Refused;
use abi::Abi;
use format::Format;
use memory::Memory;

/// What every part of the kernel needs to know.
struct Forward<'a> {
    schedule: &'a Schedule,
    format: Format,
    abi: Abi,
    memory: Memory,
    threads: Threads,
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
    let consumers = program.asm.label("CONSUMER");
    let consumes = program.asm.compare(Cmp::Ne, Num::U32, threads.warpgroup, 0);
    program.asm.jump_if(consumes, &consumers);

    producer::emit(&mut program, &forward);
    walk::emit(&mut program, &forward, &consumers);
    Ok(program.finish())
}

/// Refuses by name what the forward pass does not have.
fn supported(schedule: &Schedule) -> Result<Format, Refused> {
    if schedule.row_sum == RowSum::TensorCore {
        return Err(Refused::new("row_sum: tensor_core", "rows are summed by threads; say `row_sum: threads`"));
    }
    Format::of(schedule.element)
        .ok_or_else(|| Refused::new(format!("element: {}", schedule.element), "bf16 and f16 are lowered"))
}

impl Format {
    fn of(element: Element) -> Option<Format> {
        match element {
            Element::Bf16 => Some(Format::Bf16),
            Element::F16 => Some(Format::F16),
            _ => None,
        }
    }
}
