//! Attention in 8 bits: every kind of problem over lengths and groups, against double precision over the numbers that are
//! coded; the joined roads against double precision over the numbers that were rounded; long contexts; the field cases.

mod field;
mod grid;
mod joined;
mod long;

use std::process::ExitCode;

use tilewright_tests::gpu::suite;

fn main() -> ExitCode {
    let mut cases = grid::cases();
    cases.extend(field::cases());
    cases.extend(joined::cases());
    cases.extend(long::cases());
    suite::main(cases)
}
