//! Launches: a kernel with its arguments and its grid, as often as wanted.

use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUstream,
};

use crate::argument::Block;
use crate::driver::{Current, ok};
use crate::{Error, Kernel, Result};

/// Blocks along the second and third dimension of a grid (CUDA guide, technical specifications).
const GRID_YZ_MAX: u32 = 65_535;

/// A kernel with its arguments. Owns their bytes, so that a launch is one driver call with nothing to build.
#[derive(Debug, Clone)]
pub struct Prepared {
    kernel: Arc<Kernel>,
    grid: [u32; 3],
    arguments: Block,
    all_at_once: bool,
}

impl Prepared {
    pub(crate) fn new(kernel: Arc<Kernel>, grid: [u32; 3], arguments: Block) -> Result<Self> {
        check_grid(kernel.name(), grid)?;
        Ok(Self { kernel, grid, arguments, all_at_once: false })
    }

    /// Starts all blocks of the grid at the same time, when there is room for all of them, so that they may wait for one
    /// another (a cooperative launch). A launch of more blocks than the device can run at a time is refused by the driver.
    pub fn all_at_once(self) -> Self {
        Self { all_at_once: true, ..self }
    }

    /// The kernel.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Blocks along each dimension.
    pub fn grid(&self) -> [u32; 3] {
        self.grid
    }

    /// Puts the kernel on the stream and returns; the work runs in the stream's order. May be recorded by a capture,
    /// which copies the arguments.
    ///
    /// # Errors
    /// The driver's answer, which may also be that of earlier work on the context.
    ///
    /// # Safety
    /// The stream must be alive and belong to the kernel's context. Every address among the arguments must be device
    /// memory that the kernel may read or write as its parameters mean, until the work is done, and nothing else may
    /// touch that memory meanwhile.
    pub unsafe fn launch(&self, stream: CUstream) -> Result<()> {
        let _current = Current::enter(self.kernel.device().context().cu_ctx())?;
        let [x, y, z] = self.grid;
        let mut cooperative = CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
            pad: [0; 4],
            value: CUlaunchAttributeValue { cooperative: 1 },
        };
        let config = CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: self.kernel.threads(),
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.kernel.shared_bytes(),
            hStream: stream,
            attrs: &raw mut cooperative,
            numAttrs: self.all_at_once.into(),
        };
        let mut pointers = self.arguments.pointers();
        // SAFETY: the pointers lead to as many values as the kernel has parameters, of their types and in their order
        // (`Block::new`), and the driver copies them before it returns; the caller vouches for the stream and for what
        // the addresses lead to.
        let code = unsafe {
            sys::cuLaunchKernelEx(&config, self.kernel.function(), pointers.as_mut_ptr(), std::ptr::null_mut())
        };
        ok("cuLaunchKernelEx", code)
    }
}

/// Holds a grid against the device's limits.
fn check_grid(kernel: &str, grid: [u32; 3]) -> Result<()> {
    let [x, y, z] = grid;
    if x >= 1 && x <= i32::MAX as u32 && (1..=GRID_YZ_MAX).contains(&y) && (1..=GRID_YZ_MAX).contains(&z) {
        return Ok(());
    }
    Err(Error::Shape(format!(
        "kernel {kernel}: a grid of {x} x {y} x {z} blocks is not within 1 ..= 2147483647 x 65535 x 65535"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_outside_of_the_limits_are_refused_by_kernel() {
        assert_eq!(check_grid("k", [132, 1, 1]), Ok(()));
        assert_eq!(check_grid("k", [i32::MAX as u32, 65_535, 65_535]), Ok(()));
        for grid in [[0, 1, 1], [1, 0, 1], [1, 65_536, 1], [1, 1, 65_536], [1 << 31, 1, 1]] {
            let error = check_grid("k", grid).expect_err("outside").to_string();
            assert!(error.contains("kernel k") && error.contains("65535"), "{error}");
        }
    }
}
