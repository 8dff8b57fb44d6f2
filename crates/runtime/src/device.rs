//! A GPU that was found fit to run what is generated here, and what it has.

use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

use crate::driver::{self, Current, ok};
use crate::home::Home;
use crate::one::One;
use crate::{Counters, Error, Result, Workspaces, judge};

/// A fit GPU with the context that kernels are loaded into. Cheap to clone.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    context: Home,
    cuda: i32,
    name: String,
    sms: u32,
    l2_bytes: u64,
    shared_limit: u32,
    counters: Counters,
    words: Counters,
    workspaces: Workspaces,
    one: One,
}

/// Pools of [`Device::words`], a quarter megabyte each.
const WORD_POOLS: usize = 64;

impl Device {
    /// The GPU of a context that exists already, as frameworks have.
    ///
    /// # Errors
    /// [`Error::NotHopper`], [`Error::DriverTooOld`], [`Error::OutOfMemory`] (a quarter megabyte of counters), the
    /// driver's answer.
    pub fn new(context: &Arc<CudaContext>) -> Result<Self> {
        let cuda = driver::init()?;
        let device = context.cu_device();
        fit(device)?;
        let inner = Inner {
            cuda,
            name: name(device)?,
            sms: unsigned(device, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            l2_bytes: unsigned(device, Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
            shared_limit: unsigned(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            counters: Counters::new(context)?,
            words: Counters::none_yet(context, WORD_POOLS),
            workspaces: Workspaces::new(context),
            one: One::new(context),
            context: Home::new(context),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The GPU of that number in its primary context. The caller's current context stays.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::NoDevice`], and those of [`Device::new`]. Never panics where there is no driver.
    pub fn open(ordinal: usize) -> Result<Self> {
        driver::init()?;
        let mut count = 0;
        // SAFETY: the driver is initialised; `count` outlives the call.
        ok("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
        let count = usize::try_from(count).unwrap_or(0);
        if ordinal >= count {
            return Err(Error::NoDevice { ordinal, count });
        }
        let mut device = 0;
        // SAFETY: the number is below the count; `device` outlives the call.
        ok("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal as i32) })?;
        fit(device)?;
        let before = driver::current()?;
        let context = CudaContext::new(ordinal);
        // SAFETY: `before` was current on this thread a moment ago; null is allowed and means none.
        ok("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(before) })?;
        let context = context.map_err(|error| driver::failed("cuDevicePrimaryCtxRetain", error.0))?;
        let home = Home::new(&context);
        drop(context);
        Self::new(&home)
    }

    /// The context that kernels are loaded into.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.inner.context
    }

    /// Makes the context current on this thread until the value is dropped; then the caller's is again.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn enter(&self) -> Result<Current> {
        Current::enter(self.inner.context.cu_ctx())
    }

    /// The device's number.
    pub fn ordinal(&self) -> usize {
        self.inner.context.ordinal()
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The driver's CUDA version, 13000 for 13.0.
    pub fn cuda(&self) -> i32 {
        self.inner.cuda
    }

    /// Streaming multiprocessors.
    pub fn sms(&self) -> u32 {
        self.inner.sms
    }

    /// Bytes of L2.
    pub fn l2_bytes(&self) -> u64 {
        self.inner.l2_bytes
    }

    /// Shared memory that a block can opt in to, bytes.
    pub fn shared_limit(&self) -> u32 {
        self.inner.shared_limit
    }

    /// The address of an f32 of 1 in device memory, there as long as the device is. The first call allocates it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], the driver's answer.
    pub fn one(&self) -> Result<u64> {
        self.inner.one.address()
    }

    /// The tile counters of the device.
    pub fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// What blocks of one launch tell one another, for kernels that take kilobytes of it and have memory of their own where
    /// there is none left. Apart from the tile counters, so that captures of such kernels leave those there; 16 MiB at most.
    pub fn words(&self) -> &Counters {
        &self.inner.words
    }

    /// Memory for launches that leave intermediate results.
    pub fn workspaces(&self) -> &Workspaces {
        &self.inner.workspaces
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `GPU 0 (NVIDIA H200, 132 SMs, CUDA 13.0)`
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { name, sms, cuda, .. } = &*self.inner;
        write!(f, "GPU {} ({name}, {sms} SMs, {})", self.ordinal(), judge::cuda_name(*cuda))
    }
}

/// Refuses other architectures before anything is created on them.
fn fit(device: sys::CUdevice) -> Result<()> {
    let major = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    judge::capability(major, minor)
}

fn attribute(device: sys::CUdevice, attribute: Attribute) -> Result<i32> {
    let mut value = 0;
    // SAFETY: the driver is initialised and the handle came from it; `value` outlives the call.
    ok("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) })?;
    Ok(value)
}

fn unsigned(device: sys::CUdevice, of: Attribute) -> Result<u32> {
    Ok(attribute(device, of)?.try_into().unwrap_or(0))
}

fn name(device: sys::CUdevice) -> Result<String> {
    let mut bytes = [0_u8; 128];
    // SAFETY: the driver writes at most as many bytes as told, NUL included, into an array that outlives the call.
    let code = unsafe { sys::cuDeviceGetName(bytes.as_mut_ptr().cast(), bytes.len() as i32, device) };
    ok("cuDeviceGetName", code)?;
    Ok(CStr::from_bytes_until_nul(&bytes).map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_gets_an_error_and_no_panic() {
        if crate::present() {
            return;
        }
        assert_eq!(Device::open(0).err(), Some(Error::NoDriver));
    }
}
