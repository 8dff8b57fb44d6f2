//! The only crate that talks to the CUDA driver: just-in-time compilation with its log, tensor maps, launches.
//!
//! # The road to a launch
//!
//! [`Device`] (a GPU that was found fit) -> [`Kernel::load`] (a `check::Verified` module, compiled and looked at) ->
//! [`Kernel::prepare`] (arguments by name, matched against the kernel's parameters) -> [`Prepared::launch`] (one driver
//! call).
//!
//! # Rules
//!
//! - Work goes to the caller's stream only; nothing is ever put on the legacy default stream, and no launch sets memory
//!   or waits; one that needs a workspace takes it in the stream's order.
//! - The caller's current context is the same after every call as before it.
//! - What cannot work is refused with an [`Error`] that names it before the driver is asked; what the driver answers is
//!   judged by the plain functions of [`judge`], which tests feed by hand.
//! - No machine without a driver panics: every entry point gives [`Error::NoDriver`].
//!
//! # What this crate must not know
//!
//! No schedules, no attention. It loads a verified module and passes it what its parameters ask for.

mod argument;
mod compute_cache;
mod counters;
mod device;
mod driver;
mod error;
mod home;
pub mod judge;
mod kernel;
mod launch;
mod one;
mod slots;
mod tensor_map;
mod workspaces;

pub use argument::Argument;
pub use compute_cache::compute_cache_note;
pub use counters::Counters;
pub use cudarc;
pub use cudarc::driver::sys::CUstream;
pub use device::Device;
pub use driver::{Current, is_capturing, present};
pub use error::Error;
pub use kernel::{Kernel, LoadReport};
pub use launch::Prepared;
pub use tensor_map::{Geometry, TensorMapArg, check_tensor};
pub use workspaces::{OwnWorkspace, Workspace, Workspaces};

/// What this crate's functions give.
pub type Result<T> = std::result::Result<T, Error>;
