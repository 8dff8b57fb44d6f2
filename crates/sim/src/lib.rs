//! A Hopper SM in software: runs a verified module on the CPU with real numbers and adversarial timing.
//!
//! # What it is for
//!
//! On a GPU a race shows itself once in a million launches. Here every choice that the memory model leaves open is the
//! adversary's (`adversary`): which warp runs, and when a copy, a store or a product reads and writes. Whether two
//! accesses are ordered is not left to luck at all: it is read off vector clocks (`clock`, `knowledge`), so that a race
//! is found in any run that makes both accesses, even if the numbers come out right.
//!
//! # What it models
//!
//! | part | file |
//! |---|---|
//! | grid, CTAs, shrinking of failing runs | `machine` |
//! | scheduler, deadlock | `cta`, `explain` |
//! | warps, divergence, registers in flight | `warp`, `exec` |
//! | arithmetic, conversions | `exec::arith`, `exec::convert`, `float`, `float8` |
//! | shared and global memory with shadow | `shared`, `global`, `shadow` |
//! | mbarriers, named barriers | `barrier`, `exec::sync` |
//! | tensor copies, bulk groups | `engine`, `exec::copies`, `swizzle` |
//! | products from registers and matrix descriptors | `exec::products`, `exec::sums`, `swizzle` |
//! | a timeline for Perfetto | `trace` |
//! | launches of the forward pass | [`forward`] |
//! | spoiled kernels, and their trial | [`mutate`], [`trial`] |
//!
//! It models the documented semantics of PTX (each file cites the manual's section), not one chip's luck, and is stricter
//! in three places: a proxy fence must be the writing thread's own; memory that a product reads must be known to be
//! written by each of the four warps; and a CTA may not leave a barrier in the middle of a phase. Not modelled: clusters,
//! instructions that the table does not have, proxy fences for global memory, the hardware's order of sums within a
//! product of 16-bit elements ([`Sums`] says it of 8-bit ones) and its approximations to the bit, caches, and time.
//!
//! An instruction that it does not know is an error naming it. It knows nothing of lowering, schedules or the driver.

mod adversary;
mod barrier;
mod clock;
mod cta;
mod engine;
mod equivalent;
mod exec;
mod explain;
mod finding;
mod float;
mod float8;
pub mod forward;
mod global;
mod knowledge;
mod launch;
mod machine;
pub mod mutate;
mod program;
mod shadow;
mod shared;
mod swizzle;
mod trace;
pub mod trial;
mod warp;

pub use adversary::Policy;
pub use exec::Sums;
pub use finding::{Finding, Kind, Party, Place};
pub use float8::Float8;
pub use launch::{Launch, Tensor, Unrunnable};
pub use machine::{Failure, Found, Machine, Options, Report};
pub use trace::Trace;
