//! What the machine has: every hardware number of the house, once, with its source.
//!
//! Numbers that differ between devices of one architecture (how many SMs, clocks, memory) are not here: the driver
//! tells them. Sources: "PTX ISA" is NVIDIA's Parallel Thread Execution manual, "CUDA guide" the compute capability
//! table of the CUDA programming guide, "tuning guide" the Hopper tuning guide; "ptxas" is what the assembler was seen
//! to accept.

/// Threads of a warp (PTX ISA, `WARP_SZ`).
pub const WARP_THREADS: u32 = 32;

/// Threads of a warpgroup: four warps that issue one wgmma together (PTX ISA, wgmma).
pub const WARPGROUP_THREADS: u32 = 128;

/// Rows of one wgmma, M (PTX ISA, wgmma shapes).
pub const WGMMA_ROWS: u32 = 64;

/// Bytes of the depth of one wgmma, K: 16 elements of 16 bits or 32 of 8 (PTX ISA, wgmma shapes).
pub const WGMMA_DEPTH_BYTES: u32 = 32;

/// Bytes of one mbarrier object (PTX ISA, mbarrier).
pub const MBARRIER_BYTES: u64 = 8;

/// The limits of an architecture.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Target {
    /// The `.target` directive.
    pub name: &'static str,
    /// Shared memory that one block may have, bytes (CUDA guide: 227 KiB).
    pub shared_bytes: u64,
    /// Alignment of a swizzled tile in shared memory, bytes: the repeat of the 128-byte swizzle (PTX ISA, swizzling
    /// modes).
    pub tile_align: u64,
    /// 32-bit registers of an SM (CUDA guide).
    pub registers: u32,
    /// Registers that one thread can name (CUDA guide).
    pub registers_per_thread: u32,
    /// Registers per thread are allocated and changed in steps of this (PTX ISA, setmaxnreg).
    pub register_step: u32,
    /// Smallest count that setmaxnreg takes (PTX ISA, setmaxnreg).
    pub setmaxnreg_min: u32,
    /// Largest count that setmaxnreg takes; 255 of them can be named (PTX ISA, setmaxnreg).
    pub setmaxnreg_max: u32,
    /// Threads of a block (CUDA guide).
    pub threads_per_block: u32,
    /// Named barriers of a block, barrier 0 included (PTX ISA, bar).
    pub named_barriers: u32,
    /// Narrowest wgmma, N (PTX ISA, wgmma shapes).
    pub wgmma_columns_min: u32,
    /// Widest wgmma, N (PTX ISA, wgmma shapes).
    pub wgmma_columns_max: u32,
    /// Step of N (PTX ISA, wgmma shapes).
    pub wgmma_columns_step: u32,
    /// Registers that a wgmma with both operands in shared memory needs beside its N/2 accumulators (ptxas, C7602).
    pub wgmma_shared_overhead: u32,
    /// The same with the A operand in registers (ptxas, C7602).
    pub wgmma_register_overhead: u32,
    /// Largest edge of a TMA box, elements (CUDA driver API, cuTensorMapEncodeTiled).
    pub tma_box_max: u32,
    /// Largest pending transaction count of an mbarrier, bytes (PTX ISA, mbarrier tx-count range).
    pub transaction_max: u64,
    /// L2 of the full die, bytes (tuning guide; devices with five memory stacks have 50 MiB: ask the driver).
    pub l2_bytes: u64,
    /// Dense 16-bit tensor-core rate, floating-point operations per clock and SM (H100 data sheet: 989 TFLOP/s at 1.83
    /// GHz, 132 SMs).
    pub tensor_flops_16: u64,
    /// Dense 8-bit tensor-core rate, the same unit (H100 data sheet: 1979 TFLOP/s).
    pub tensor_flops_8: u64,
    /// Base-2 exponentials per clock and SM (CUDA guide, arithmetic throughput).
    pub exponentials: u64,
    /// Threads whose instructions an SM issues in a clock: four schedulers of one warp each (CUDA guide).
    pub lanes: u64,
    /// Shared-memory bandwidth, bytes per clock and SM: 32 banks of 4 bytes (CUDA guide).
    pub shared_bandwidth: u64,
}

/// sm_90a: H100, H200, GH200.
pub const HOPPER: Target = Target {
    name: "sm_90a",
    shared_bytes: 232_448,
    tile_align: 1024,
    registers: 65_536,
    registers_per_thread: 255,
    register_step: 8,
    setmaxnreg_min: 24,
    setmaxnreg_max: 256,
    threads_per_block: 1024,
    named_barriers: 16,
    wgmma_columns_min: 8,
    wgmma_columns_max: 256,
    wgmma_columns_step: 8,
    wgmma_shared_overhead: 26,
    wgmma_register_overhead: 30,
    tma_box_max: 256,
    transaction_max: (1 << 20) - 1,
    l2_bytes: 60 << 20,
    tensor_flops_16: 4096,
    tensor_flops_8: 8192,
    exponentials: 16,
    lanes: 128,
    shared_bandwidth: 128,
};

impl Target {
    /// Registers per thread that are allocated when a block of `threads` starts with the whole register file to itself:
    /// the file shared out, rounded down to the allocation step, at most what setmaxnreg takes. 256 threads: 256, 384:
    /// 168, 512: 128.
    pub const fn entry_allocation(&self, threads: u32) -> u32 {
        if threads == 0 {
            return 0;
        }
        let share = self.registers / WARPGROUP_THREADS / threads.div_ceil(WARPGROUP_THREADS);
        let share = share - share % self.register_step;
        if share < self.setmaxnreg_max { share } else { self.setmaxnreg_max }
    }

    /// Registers per thread that code can name at entry: [`Self::entry_allocation`], but never more than a thread can
    /// name. 256 threads: 255, 384: 168, 512: 128 (ptxas, "Used N registers" under `.minnctapersm 1`).
    pub const fn entry_registers(&self, threads: u32) -> u32 {
        let allocation = self.entry_allocation(threads);
        if allocation < self.registers_per_thread { allocation } else { self.registers_per_thread }
    }
}

#[cfg(test)]
mod tests {
    use super::HOPPER;

    #[test]
    fn entry_registers_are_what_the_assembler_reports() {
        let seen = [128, 256, 288, 384, 416, 512, 640].map(|threads| HOPPER.entry_registers(threads));
        assert_eq!(seen, [255, 255, 168, 168, 128, 128, 96]);
        assert_eq!(HOPPER.entry_allocation(256), 256);
    }
}
