//! Errors as Python exceptions: the message stays, the class says whose move it is.

use pyo3::prelude::*;
use tilewright::Error;

/// The classes live in Python, where one can have two bases.
mod classes {
    pyo3::import_exception!(tilewright.errors, InvalidArgument);
    pyo3::import_exception!(tilewright.errors, NotSupported);
    pyo3::import_exception!(tilewright.errors, ScheduleError);
    pyo3::import_exception!(tilewright.errors, DeviceError);
}

pub use classes::{DeviceError, InvalidArgument, NotSupported, ScheduleError};

/// What the crate says, as an exception.
pub fn raise(error: &Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::HeadDim { .. } | Error::NoSchedule { .. } | Error::Element { .. } => NotSupported::new_err(message),
        Error::Misaligned { .. }
        | Error::Stride { .. }
        | Error::Shape(_)
        | Error::Scale(_)
        | Error::Buffer { .. }
        | Error::WrongDevice { .. } => InvalidArgument::new_err(message),
        Error::Refused { .. } => ScheduleError::new_err(message),
        _ => DeviceError::new_err(message),
    }
}

/// A result for Python.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for tilewright::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| raise(&error))
    }
}
