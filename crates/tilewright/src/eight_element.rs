//! The 8-bit element types as Rust has them: bits alone.

use cudarc::driver::{DeviceRepr, ValidAsZeroBits};
use schedule::Element;

/// An 8-bit float with 4 bits of exponent and 3 of fraction: largest 448, no infinity ([`crate::reference::e4m3`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct E4m3(pub u8);

/// An 8-bit float with 5 bits of exponent and 2 of fraction: the upper byte of an f16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct E5m2(pub u8);

mod sealed {
    /// Closed: a kernel exists for these types only.
    pub trait Sealed {}
    impl Sealed for super::E4m3 {}
    impl Sealed for super::E5m2 {}
    impl Sealed for u8 {}
}

/// What 8-bit Q, K and V can be made of.
pub trait Eight: sealed::Sealed + DeviceRepr + Copy + Send + Sync + 'static {
    /// Its name in schedules; none: bytes, of whichever the problem says.
    const ELEMENT: Option<Element>;
}

// SAFETY: a byte without padding, every pattern of which is a value.
unsafe impl DeviceRepr for E4m3 {}
// SAFETY: as above.
unsafe impl DeviceRepr for E5m2 {}
// SAFETY: zero bits are the number zero.
unsafe impl ValidAsZeroBits for E4m3 {}
// SAFETY: as above.
unsafe impl ValidAsZeroBits for E5m2 {}

impl Eight for E4m3 {
    const ELEMENT: Option<Element> = Some(Element::E4m3);
}

impl Eight for E5m2 {
    const ELEMENT: Option<Element> = Some(Element::E5m2);
}

impl Eight for u8 {
    const ELEMENT: Option<Element> = None;
}
