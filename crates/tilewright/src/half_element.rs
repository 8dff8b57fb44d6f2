//! The 16-bit element types as Rust has them.

use cudarc::driver::DeviceRepr;
use half::{bf16, f16};
use schedule::Element;

mod sealed {
    /// Closed: a kernel exists for these types only.
    pub trait Sealed {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
}

/// A 16-bit float that Q, K, V and O can be made of.
pub trait Half: sealed::Sealed + DeviceRepr + Copy + Send + Sync + Into<f64> + 'static {
    /// Its name in schedules.
    const ELEMENT: Element;

    /// Rounded to nearest, ties to even.
    fn round(value: f32) -> Self;

    /// Without loss.
    fn widen(self) -> f32;
}

impl Half for bf16 {
    const ELEMENT: Element = Element::Bf16;

    fn round(value: f32) -> Self {
        Self::from_f32(value)
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}

impl Half for f16 {
    const ELEMENT: Element = Element::F16;

    fn round(value: f32) -> Self {
        Self::from_f32(value)
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}
