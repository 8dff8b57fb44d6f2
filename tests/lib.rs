//! Tests across crates: what the suites share. The suites themselves stand in `tests/`.

pub mod gpu;

/// The README, whose Rust must compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
