//! The quantizer: Q, K and V of 16 bits to e4m3 with their scales, in one persistent launch.
//!
//! ```text
//! producers: one for each warpgroup, which is dealt V's tiles, then draws items, and loads their tiles into its ring
//! consumers: each warpgroup works through its own ring by itself
//!   Q, K:  tile * rotation (a product) -> largest magnitude -> scale -> e4m3, 16 bytes a store
//!   V:     tile -> scale of its head -> e4m3, transposed in registers -> 16 keys a store
//! ```
//!
//! The rotation is a product: rows times a matrix of plus and minus one in shared memory (`rotation`), on the tensor
//! cores, which are idle otherwise. Its columns are stored in an order that leaves each lane with neighbouring columns of
//! the result, so that no lane needs another's elements before it stores. Without a rotation the matrix is the identity,
//! by which products are exact.
//!
//! A scale of a block is known when its tile is; rows that do not stay in registers are multiplied a second time, which
//! costs less than keeping them. A scale of a head or of a tensor is known only after all its tiles were read.
//!
//! V is read once where the grid's warpgroups can hold all tiles of a scale, one each. Its tiles are dealt in rounds: to a
//! round belong whole heads, and to a warpgroup at most one tile, which it keeps in registers (`blocks`) while it tells the
//! others its maximum and waits for theirs (`held`). Other tiles are two items each, one that takes the maximum into global
//! memory (`shares`) and one that rounds. `order` puts the two a few megabytes apart, so that the second reads from the L2
//! cache and does not wait. The launch's numbers say which of the two it is.
//!
//! Nothing can hang, whatever else is on the device:
//!
//! - Items are drawn from a counter, in order, by blocks that run. So what an item waits for was drawn before by a block
//!   that runs.
//! - A warpgroup goes through the rounds in order, before all drawn items, and tells a round's maximum before it waits for
//!   one of that round; a producer issues a round's loads when tiles of rounds before have left their slots. So in the
//!   earliest round that anybody waits in, all is told, if all blocks run at the same time: a launch with rounds starts
//!   them all or none (a cooperative launch).

mod abi;
mod blocks;
mod consumer;
mod format;
mod held;
mod memory;
mod order;
mod producer;
mod rotation;
mod rows;
mod scale;
mod shares;
mod values;

use ptx::qual::{Cmp, Num};
use schedule::Quantize;
use tile::{Program, Threads};

use crate::Refused;
use abi::Abi;
use format::Format;
use memory::Memory;

/// What every part of the kernel needs to know.
struct Quantizer<'a> {
    schedule: &'a Quantize,
    format: Format,
    abi: Abi,
    memory: Memory,
    threads: Threads,
}

pub(crate) fn lower(schedule: &Quantize) -> Result<ptx::Module, Refused> {
    let format = Format::of(schedule.element)
        .ok_or_else(|| Refused::new(format!("element: {}", schedule.element), "bf16 and f16 are read"))?;
    let groups = schedule.roles.consumer.warpgroups;
    let header = crate::heading(&schedule.name, schedule.hash(), &schedule.to_string());
    let mut program = Program::new(&schedule.name, header, 1 + groups);
    let memory = Memory::new(&mut program.layout, schedule, format)?;
    program.asm.comment("every thread: who it is, the parameters");
    let threads = program.threads();
    let abi = Abi::declare(&mut program, schedule, &memory);
    let quantizer = Quantizer { schedule, format, abi, memory, threads };

    program.initialise(&threads, |asm| {
        for ring in &quantizer.memory.rings {
            ring.init(asm, threads.smem);
        }
        for tensor in quantizer.abi.tensors() {
            asm.emit(ptx::op::prefetch_tensormap(ptx::Operand::at(tensor.map, 0)));
        }
    });
    program.join();
    let consumers = program.asm.label("CONSUMER");
    let consumes = program.asm.compare(Cmp::Ne, Num::U32, threads.warpgroup, 0);
    program.asm.jump_if(consumes, &consumers);

    producer::emit(&mut program, &quantizer);
    consumer::emit(&mut program, &quantizer, &consumers);
    Ok(program.finish())
}
