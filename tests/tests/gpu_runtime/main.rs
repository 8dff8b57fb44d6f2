//! The runtime on a GPU: compile times, refusals that leave the context whole, strides, threads and streams, memory that runs out.
//!
//! Times are told and not judged: only that each was measured is held.

mod concurrent;
mod memory;
mod refused;
mod times;

use std::process::ExitCode;

use tilewright_tests::gpu::suite;

fn main() -> ExitCode {
    if times::is_child() {
        return times::child();
    }
    // What fills the device's memory comes last.
    let families = [times::cases(), refused::cases(), concurrent::cases(), memory::cases()];
    suite::main(families.into_iter().flatten().collect())
}
