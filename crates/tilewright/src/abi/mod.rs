//! The contract between a lowered kernel and its launch: parameter names, what they mean, and the grid. One file a
//! pass.

pub mod forward;
pub mod quantize;
