//! What the driver's answers mean: plain functions from what it said to an error that tells the user what to do.
//!
//! Nothing here calls the driver, so that every answer can be tested without one.

use ptx::Version;

use crate::{Error, Result};

/// The oldest CUDA version whose driver has tensor maps and extended launches: 12.0.
pub const OLDEST_CUDA: i32 = 12_000;

/// A compile that takes longer is worth telling about.
pub const SLOW_LOAD: std::time::Duration = std::time::Duration::from_secs(1);

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: u32 = 2;
/// `CUDA_ERROR_STUB_LIBRARY`: the toolkit's stand-in for libcuda was opened.
const STUB_LIBRARY: u32 = 34;
/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: u32 = 100;
/// `CUDA_ERROR_NO_BINARY_FOR_GPU`.
const NO_BINARY: u32 = 209;
/// `CUDA_ERROR_INVALID_PTX`.
const INVALID_PTX: u32 = 218;
/// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`.
const UNSUPPORTED_PTX_VERSION: u32 = 222;

/// A CUDA version as it is written: 13000 is `CUDA 13.0`.
pub fn cuda_name(version: i32) -> String {
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}

/// The newest PTX ISA version that a driver of this CUDA version compiles (PTX ISA, release notes).
pub fn newest_ptx(cuda: i32) -> Version {
    let (major, minor) = (cuda / 1000, cuda % 1000 / 10);
    let (major, minor) = match (major, minor) {
        (..=11, _) => (7, 8),
        (12, 0..=5) => (8, minor),
        (12, _) => (8, minor - 1),
        _ => (major - 4, minor),
    };
    Version { major: u8::try_from(major).unwrap_or(u8::MAX), minor: u8::try_from(minor).unwrap_or(u8::MAX) }
}

/// What a failed call means, where nothing more is known.
pub fn answer(call: &'static str, code: u32, text: &str) -> Error {
    match code {
        OUT_OF_MEMORY => Error::OutOfMemory { what: call.into(), bytes: 0 },
        _ => Error::Driver { call, code, text: text.into() },
    }
}

/// What a failed initialisation means.
pub fn init(code: u32, text: &str) -> Error {
    match code {
        STUB_LIBRARY => Error::NoDriver,
        NO_DEVICE => Error::NoDevice { ordinal: 0, count: 0 },
        _ => answer("cuInit", code, text),
    }
}

/// Whether the driver is new enough for anything here.
///
/// # Errors
/// [`Error::DriverTooOld`].
pub fn driver_version(found: i32) -> Result<()> {
    if found >= OLDEST_CUDA {
        return Ok(());
    }
    Err(Error::DriverTooOld { needed: cuda_name(OLDEST_CUDA), found: cuda_name(found) })
}

/// Whether the device runs sm_90a code: compute capability 9.0 and no other.
///
/// # Errors
/// [`Error::NotHopper`].
pub fn capability(major: i32, minor: i32) -> Result<()> {
    if (major, minor) == (9, 0) { Ok(()) } else { Err(Error::NotHopper { major, minor }) }
}

/// What the driver said when it was given a kernel.
#[derive(Debug, Clone, Copy)]
pub struct LoadAnswer<'a> {
    /// The kernel.
    pub kernel: &'a str,
    /// The PTX ISA version at the head of its text.
    pub needed: Version,
    /// The driver's CUDA version, as 13000.
    pub cuda: i32,
    /// The answer.
    pub code: u32,
    /// The driver's words for it.
    pub text: &'a str,
    /// The compiler's error log.
    pub log: &'a str,
}

/// What a failed load means.
pub fn load(answer: &LoadAnswer<'_>) -> Error {
    let LoadAnswer { kernel, needed, cuda, code, text, log } = *answer;
    match code {
        UNSUPPORTED_PTX_VERSION => Error::DriverTooOld {
            needed: format!("PTX ISA {needed} for kernel {kernel}"),
            found: format!("PTX ISA {} ({})", newest_ptx(cuda), cuda_name(cuda)),
        },
        INVALID_PTX | NO_BINARY => Error::Jit { kernel: kernel.into(), code, log: told(log, text) },
        OUT_OF_MEMORY => Error::OutOfMemory { what: format!("loading kernel {kernel}"), bytes: 0 },
        _ if !log.trim().is_empty() => Error::Jit { kernel: kernel.into(), code, log: told(log, text) },
        _ => Error::Driver { call: "cuModuleLoadDataEx", code, text: text.into() },
    }
}

/// The log, or the driver's words where it is empty.
fn told(log: &str, text: &str) -> String {
    if log.trim().is_empty() { format!("{text} (the compiler left no log)") } else { log.trim().into() }
}

/// What the driver says a loaded kernel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread at entry.
    pub registers: u32,
    /// Local memory of a thread, bytes: more than 0 means spills.
    pub local_bytes: u32,
    /// Dynamic and static shared memory of a block, bytes.
    pub shared_bytes: u32,
}

/// Whether a loaded kernel is what was generated: nothing spilled, nothing serialised, its shared memory within the
/// device's.
///
/// # Errors
/// [`Error::SharedMemory`], [`Error::Spilled`], [`Error::Serialized`].
pub fn resources(kernel: &str, found: Resources, shared_limit: u32, log: &str) -> Result<()> {
    if found.shared_bytes > shared_limit {
        return Err(Error::SharedMemory { kernel: kernel.into(), needed: found.shared_bytes, found: shared_limit });
    }
    if found.local_bytes > 0 {
        let Resources { registers, local_bytes, .. } = found;
        return Err(Error::Spilled { kernel: kernel.into(), local_bytes, registers, log: log.trim().into() });
    }
    let notes: Vec<&str> = log.lines().filter(|line| gives_up_speed(line)).map(str::trim).collect();
    if notes.is_empty() {
        return Ok(());
    }
    Err(Error::Serialized { kernel: kernel.into(), notes: notes.join("; ") })
}

/// Whether a line of the compiler's log has a C75xx code: wgmma serialised, or setmaxnreg ignored.
fn gives_up_speed(line: &str) -> bool {
    line.match_indices("C75")
        .any(|(at, _)| line.as_bytes().get(at + 3..at + 5).is_some_and(|code| code.iter().all(u8::is_ascii_digit)))
}

#[cfg(test)]
mod tests;
