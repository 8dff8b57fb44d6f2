//! What the GPU suites share: the harness, a GPU with guarded buffers, data, calls and comparisons.
//!
//! Knows the facade and the driver, and nothing of how a kernel is made.

pub mod call;
pub mod compare;
pub mod data;
pub mod device;
pub mod suite;
