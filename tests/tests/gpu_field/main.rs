//! The field cases: faults that users of other attention libraries reported in public, by id, with the right outcome of each.
//!
//! One file a family. A case that asks for what is not offered is held to being refused before any launch.

mod cache;
mod masks;
mod numerics;
mod order;
mod shapes;
mod sizes;
mod views;

use std::process::ExitCode;

use tilewright_tests::gpu::suite;

fn main() -> ExitCode {
    let families = [
        masks::cases(),
        shapes::cases(),
        numerics::cases(),
        views::cases(),
        sizes::cases(),
        order::cases(),
        cache::cases(),
    ];
    suite::main(families.into_iter().flatten().collect())
}
