//! The numbers of one device, which the driver tells, unlike those of the architecture.

/// A GPU, as far as time depends on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Clock of the SMs in a burst, Hz.
    pub clock: f64,
    /// Bytes of L2.
    pub l2_bytes: u64,
    /// Bytes that all SMs together read from L2 in a clock.
    pub l2_bandwidth: f64,
    /// Bytes a second of device memory, as a copy reaches.
    pub memory_bandwidth: f64,
}

/// H200 SXM: 132 SMs, 1.755 GHz in a burst of tensor-core work, 50 MiB of L2 at 40 bytes a clock and SM, 4.2 TB/s
/// (measured).
pub const H200: Device =
    Device { sms: 132, clock: 1.755e9, l2_bytes: 50 << 20, l2_bandwidth: 132.0 * 40.0, memory_bandwidth: 4.2e12 };

impl Device {
    /// The same with another number of SMs, of at least one; L2 bandwidth goes with it.
    #[must_use]
    pub fn with_sms(self, sms: u32) -> Self {
        let sms = sms.max(1);
        Self { sms, l2_bandwidth: self.l2_bandwidth / f64::from(self.sms.max(1)) * f64::from(sms), ..self }
    }
}
