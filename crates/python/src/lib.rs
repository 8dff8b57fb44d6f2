//! The Python door: `tilewright._native`, which the Python sources of the package dress.
//!
//! It reads what tensors say of themselves ([`tensor`]), keeps a plan for every shape it has seen ([`plans`]) and launches it on the
//! caller's stream ([`call`], and [`fp8`] for 8 bits). It links neither torch nor any other framework: they are Python objects with attributes.
//!
//! # What this crate must not know
//!
//! Which schedules there are and how they are lowered. Defaults, layouts other than `[B, S, H, D]` and frameworks' conventions belong to
//! the Python side.

mod array;
mod call;
mod compiled;
mod engines;
mod error;
mod fp8;
mod plans;
mod predicted;
mod tensor;

use pyo3::prelude::*;

/// Functions and classes that the Python package is made of.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::array::DeviceArray;
    #[pymodule_export]
    use super::call::{explain, predict, run, warm_up};
    #[pymodule_export]
    use super::compiled::{Schedule, schedules};
    #[pymodule_export]
    use super::engines::{device_name, reserve_counters, tune, use_tuning};
    #[pymodule_export]
    use super::fp8::{Fp8Call, Quantizer, fp8_call, key_block, quantized_call, quantizer};
    #[pymodule_export]
    use super::predicted::Prediction;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("version", env!("CARGO_PKG_VERSION"))
    }
}
