//! A verified module on a device: printed, compiled by the driver with its log kept, looked at, ready to launch.

use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use check::Verified;
use cudarc::driver::sys::{
    self, CUfunction, CUfunction_attribute as Attribute, CUjit_option as Option_, CUmodule, CUresult,
};
use ptx::{Param, Proven};

use crate::argument::{Argument, Block};
use crate::driver::{Current, Relaxed, ok, text};
use crate::judge::{self, LoadAnswer, Resources};
use crate::{Device, Error, Prepared, Result};

/// Bytes of each log that are kept.
const LOG_BYTES: usize = 64 << 10;

/// How loading went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadReport {
    /// The kernel.
    pub kernel: String,
    /// Printing, compiling and uploading. Half a millisecond when the driver's compute cache had it.
    pub duration: Duration,
    /// Registers of a thread at entry.
    pub registers: u32,
    /// Shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// What the compiler said; empty when the compute cache had the kernel.
    pub log: String,
}

impl LoadReport {
    /// Whether it took longer than a second, as only a cold compile does.
    pub fn is_slow(&self) -> bool {
        self.duration > judge::SLOW_LOAD
    }
}

/// `forward_bf16_d128: loaded in 470 ms, 168 registers, 213.0 KiB of shared memory`
impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, duration, registers, shared_bytes, .. } = self;
        let (ms, kib) = (duration.as_secs_f64() * 1e3, f64::from(*shared_bytes) / 1024.0);
        write!(f, "{kernel}: loaded in {ms:.1} ms, {registers} registers, {kib:.1} KiB of shared memory")
    }
}

/// A loaded kernel. Unloaded from its context when dropped.
#[derive(Debug)]
pub struct Kernel {
    device: Device,
    module: CUmodule,
    function: CUfunction,
    name: String,
    params: Vec<Param>,
    threads: u32,
    shared_bytes: u32,
    report: LoadReport,
}

// SAFETY: module and function are handles of the driver, which may be used from any thread; `Kernel` never changes
// after it was made.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// Compiles and loads a verified module. Takes half a second where the driver's compute cache does not have it.
    ///
    /// The dynamic shared memory of the function is opened to its own need once, here, so that no launch changes it for
    /// another.
    ///
    /// # Errors
    /// [`Error::SharedMemory`] before anything is compiled; [`Error::DriverTooOld`] with the PTX version needed;
    /// [`Error::Jit`] with the compiler's log; [`Error::Spilled`] and [`Error::Serialized`] for a kernel that this
    /// driver's compiler spoilt; the driver's answer.
    pub fn load(device: &Device, verified: &Verified) -> Result<Self> {
        let source = verified.module();
        let kernel = &source.kernel;
        let shared_bytes = kernel.shared_bytes();
        let wanted = Resources { registers: 0, local_bytes: 0, shared_bytes };
        judge::resources(&kernel.name, wanted, device.shared_limit(), "")?;

        let start = Instant::now();
        let _current = Current::enter(device.context().cu_ctx())?;
        let _relaxed = Relaxed::enter()?;
        let (module, log) = compile(device, source, ptx::print(verified))?;
        // From here on a drop unloads the module.
        let mut loaded = Self {
            device: device.clone(),
            module,
            function: std::ptr::null_mut(),
            name: kernel.name.clone(),
            params: kernel.params.clone(),
            threads: kernel.threads,
            shared_bytes,
            report: LoadReport {
                kernel: kernel.name.clone(),
                duration: Duration::ZERO,
                registers: 0,
                shared_bytes,
                log,
            },
        };
        loaded.look_up()?;
        let found = Resources {
            registers: loaded.attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: loaded.attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            shared_bytes: shared_bytes + loaded.attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
        };
        judge::resources(&loaded.name, found, device.shared_limit(), &loaded.report.log)?;
        let opt_in = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function was looked up above in the current context.
        ok("cuFuncSetAttribute", unsafe { sys::cuFuncSetAttribute(loaded.function, opt_in, shared_bytes as i32) })?;
        loaded.report.registers = found.registers;
        loaded.report.shared_bytes = found.shared_bytes;
        loaded.report.duration = start.elapsed();
        Ok(loaded)
    }

    /// Finds the kernel's entry in its module.
    fn look_up(&mut self) -> Result<()> {
        let name = CString::new(self.name.as_str())
            .map_err(|_| Error::Shape(format!("kernel name {:?} has a NUL in it", self.name)))?;
        // SAFETY: the module was loaded in the current context; name and function outlive the call.
        ok("cuModuleGetFunction", unsafe { sys::cuModuleGetFunction(&mut self.function, self.module, name.as_ptr()) })
    }

    fn attribute(&self, attribute: Attribute) -> Result<u32> {
        let mut value = 0;
        // SAFETY: the function belongs to the loaded module; `value` outlives the call.
        ok("cuFuncGetAttribute", unsafe { sys::cuFuncGetAttribute(&mut value, attribute, self.function) })?;
        Ok(value.try_into().unwrap_or(0))
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is loaded.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its parameters in order.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Dynamic shared memory of a block, bytes.
    pub fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }

    /// How loading went.
    pub fn report(&self) -> &LoadReport {
        &self.report
    }

    /// The driver's handle, alive as long as this is.
    pub fn function(&self) -> CUfunction {
        self.function
    }

    /// Matches named arguments against the parameters and keeps them for any number of launches of that many blocks.
    ///
    /// # Errors
    /// [`Error::ArgumentMismatch`]; [`Error::Shape`] for a grid outside of 1 ..= 2^31 - 1 by 65535 by 65535 blocks.
    pub fn prepare(self: &Arc<Self>, grid: [u32; 3], arguments: &[(&str, Argument)]) -> Result<Prepared> {
        let block = Block::new(&self.name, &self.params, arguments)?;
        Prepared::new(self.clone(), grid, block)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let Ok(_current) = Current::enter(self.device.context().cu_ctx()) else { return };
        // SAFETY: loaded in this context by `load`, unloaded only here.
        let _ = unsafe { sys::cuModuleUnload(self.module) };
    }
}

/// Gives the text to the driver with both log buffers, verbosely. The context must be current.
fn compile(device: &Device, source: &ptx::Module, mut program: String) -> Result<(CUmodule, String)> {
    // The driver reads up to the first NUL.
    program.push('\0');
    let (mut info, mut errors) = (vec![0_u8; LOG_BYTES], vec![0_u8; LOG_BYTES]);
    let mut options = [
        Option_::CU_JIT_INFO_LOG_BUFFER,
        Option_::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        Option_::CU_JIT_ERROR_LOG_BUFFER,
        Option_::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        Option_::CU_JIT_LOG_VERBOSE,
    ];
    // Numbers are passed in the pointers themselves. One byte of each log stays zero, so that it always ends.
    let number = |value: usize| std::ptr::without_provenance_mut::<c_void>(value);
    let mut values = [
        info.as_mut_ptr().cast::<c_void>(),
        number(LOG_BYTES - 1),
        errors.as_mut_ptr().cast::<c_void>(),
        number(LOG_BYTES - 1),
        number(1),
    ];
    let mut module = std::ptr::null_mut();
    // SAFETY: the text ends in NUL; options and values have the same length and the logs are as long as told; all
    // outlive the call.
    let code = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            program.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    if code == CUresult::CUDA_SUCCESS {
        return Ok((module, until_nul(&info)));
    }
    let log = until_nul(&errors);
    Err(judge::load(&LoadAnswer {
        kernel: &source.kernel.name,
        needed: source.version(),
        cuda: device.cuda(),
        code: code as u32,
        text: &text(code),
        log: &log,
    }))
}

/// The text of a log buffer.
fn until_nul(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_ends_at_its_nul_or_its_buffer() {
        assert_eq!(until_nul(b" info : Used 168 registers\n\0\0rest"), "info : Used 168 registers");
        assert_eq!(until_nul(b"full"), "full");
        assert_eq!(until_nul(b""), "");
    }

    #[test]
    fn kernels_go_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Kernel>();
        shared::<Prepared>();
        shared::<Device>();
    }

    #[test]
    fn only_a_cold_compile_is_slow() {
        let report = |ms| LoadReport {
            kernel: "k".into(),
            duration: Duration::from_millis(ms),
            registers: 168,
            shared_bytes: 218_112,
            log: String::new(),
        };
        assert!(report(1001).is_slow() && !report(470).is_slow());
        assert_eq!(report(470).to_string(), "k: loaded in 470.0 ms, 168 registers, 213.0 KiB of shared memory");
    }
}
