//! What the GPU suites share: the harness, a GPU with guarded buffers, data, calls and comparisons, and small
//! programs that the machine runs as well.
//!
//! Knows the facade, the driver and the machine's launch, and nothing of how a kernel is made.

pub mod call;
pub mod compare;
pub mod data;
pub mod device;
pub mod eight;
pub mod program;
pub mod suite;
