//! What can go wrong between a problem and its launch, in the user's words.
//!
//! A message says what is wrong, where (kernel, tensor, driver call), and what would do instead. It never names a Rust
//! type.

/// The one error of the runtime and of the crates above it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No driver library on this machine.
    #[error("no CUDA driver on this machine: libcuda was not found. Install the NVIDIA driver, 525.60 or newer")]
    NoDriver,

    /// The driver is there and sees no such GPU.
    #[error(
        "no GPU {ordinal}: the CUDA driver sees {count}. Check the device number, CUDA_VISIBLE_DEVICES and `nvidia-smi`"
    )]
    NoDevice {
        /// The device number asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },

    /// The GPU is of another architecture.
    #[error(
        "needs compute capability 9.0 (H100, H200, GH200), this GPU has {major}.{minor}: \
         code for sm_90a runs on no other, older or newer"
    )]
    NotHopper {
        /// Compute capability, before the point.
        major: i32,
        /// Compute capability, after the point.
        minor: i32,
    },

    /// The driver lacks something that a newer one has.
    #[error("the NVIDIA driver is too old: needs {needed}, this driver supports up to {found}. Update the driver")]
    DriverTooOld {
        /// What is needed.
        needed: String,
        /// The most that this driver has.
        found: String,
    },

    /// A base pointer that the copy engine cannot take.
    #[error("tensor {tensor}: base address {address:#x} breaks the rule: {rule}. Copy it to a fresh allocation")]
    Misaligned {
        /// The tensor as the call names it.
        tensor: String,
        /// Its base address.
        address: u64,
        /// The rule.
        rule: &'static str,
    },

    /// A stride that the copy engine cannot take.
    #[error("tensor {tensor}: stride of {dimension} is {bytes} bytes and breaks the rule: {rule}")]
    Stride {
        /// The tensor as the call names it.
        tensor: String,
        /// Which dimension.
        dimension: String,
        /// The stride in bytes.
        bytes: u64,
        /// The rule.
        rule: &'static str,
    },

    /// Extents that do not go together or pass a limit.
    #[error("{0}")]
    Shape(String),

    /// A head dimension that no schedule has.
    #[error("head dimension {asked} of {element} is not among the supported: {supported}")]
    HeadDim {
        /// As `128`, or `(192, 128)` where value rows have a length of their own.
        asked: String,
        /// Element type.
        element: String,
        /// The supported ones, listed.
        supported: String,
    },

    /// A softmax scale that means nothing.
    #[error("scale {0} is not usable: it must be finite, greater than 0 and within 2^-100 .. 2^100")]
    Scale(f64),

    /// An element type that is not offered here, or that differs from the problem's.
    #[error("element type {found}: {reason}")]
    Element {
        /// The one given.
        found: String,
        /// Why not, and what would do.
        reason: String,
    },

    /// A buffer that is shorter than its shape and strides reach.
    #[error("tensor {tensor}: needs {needed} elements from its base, the buffer has {found}")]
    Buffer {
        /// The tensor as the call names it.
        tensor: String,
        /// Elements that shape and strides reach.
        needed: u64,
        /// Elements that are there.
        found: u64,
    },

    /// A buffer or stream of another device or context.
    #[error("{what} belongs to {found}, the plan to {expected}. Make one plan for each device")]
    WrongDevice {
        /// The tensor or stream.
        what: String,
        /// Where the plan runs.
        expected: String,
        /// Where this is.
        found: String,
    },

    /// No shipped schedule can do this.
    #[error("no schedule for {problem}:\n{reasons}")]
    NoSchedule {
        /// The problem in words.
        problem: String,
        /// Each schedule and why not.
        reasons: String,
    },

    /// A schedule that the lowering does not have or that its proof rejects.
    #[error("schedule {schedule} makes no kernel: {reason}")]
    Refused {
        /// Its name.
        schedule: String,
        /// Why, and what would do instead.
        reason: String,
    },

    /// Device memory ran out.
    #[error("out of device memory: {what} needs {bytes} bytes")]
    OutOfMemory {
        /// What was to be allocated or loaded.
        what: String,
        /// How much.
        bytes: u64,
    },

    /// The driver's compiler refused the PTX.
    #[error("the driver's compiler refused kernel {kernel} (code {code}):\n{log}")]
    Jit {
        /// The kernel.
        kernel: String,
        /// The driver's code.
        code: u32,
        /// The compiler's error log.
        log: String,
    },

    /// The installed driver's compiler spilled registers.
    #[error(
        "kernel {kernel} has {local_bytes} bytes of local memory a thread ({registers} registers): this driver's compiler \
         spilled, which costs most of the speed. Use a smaller tile or another driver. Compiler log:\n{log}"
    )]
    Spilled {
        /// The kernel.
        kernel: String,
        /// Local memory of a thread, bytes.
        local_bytes: u32,
        /// Registers of a thread.
        registers: u32,
        /// The compiler's log.
        log: String,
    },

    /// The installed driver's compiler serialised wgmma or ignored setmaxnreg.
    #[error("kernel {kernel}: this driver's compiler gave up speed, in its own words: {notes}")]
    Serialized {
        /// The kernel.
        kernel: String,
        /// The lines of the log with C75xx codes.
        notes: String,
    },

    /// The device has less than the kernel takes.
    #[error("kernel {kernel} needs {needed} bytes of shared memory a block, this GPU gives {found}")]
    SharedMemory {
        /// The kernel.
        kernel: String,
        /// Its dynamic and static shared memory.
        needed: u32,
        /// The opt-in limit.
        found: u32,
    },

    /// Arguments that do not match the kernel's parameters.
    #[error("kernel {kernel}: {detail}")]
    ArgumentMismatch {
        /// The kernel.
        kernel: String,
        /// Which argument, and what the kernel asks for.
        detail: String,
    },

    /// A first use inside a stream capture.
    #[error(
        "kernel {kernel} is not loaded yet and the stream is capturing: loading cannot be recorded. \
         Call `warm_up` with this problem before the capture"
    )]
    CaptureCold {
        /// The kernel.
        kernel: String,
    },

    /// No scheduler counter is left for a launch under capture.
    #[error(
        "no tile counter is left for a launch recorded by stream capture (each takes one of {capacity}). \
         Call `reserve_counters` with the number of launches before the capture"
    )]
    CountersExhausted {
        /// Counters there are.
        capacity: usize,
    },

    /// Any other answer of the driver.
    #[error("{call} failed with code {code}: {text}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// Its answer.
        code: u32,
        /// The driver's words for it.
        text: String,
    },
}
