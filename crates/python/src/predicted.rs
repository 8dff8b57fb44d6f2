//! A prediction as a Python value.

use pyo3::prelude::*;
use tilewright::Plan;

/// What a launch is predicted to take, and by which schedule. A model of an H200: no measurement.
#[pyclass(frozen, get_all, module = "tilewright._native")]
pub struct Prediction {
    /// The name of the schedule.
    schedule: String,
    /// Time of a launch in a burst.
    seconds: f64,
    /// The least time that the units' rates or the bytes that must move allow.
    bound: f64,
    /// What takes the largest share.
    binds: String,
    /// Floating-point operations of what the mask leaves.
    flops: f64,
    /// Whether the model was held against measurements of such schedules.
    calibrated: bool,
}

impl Prediction {
    /// Of a plan.
    pub fn of(plan: &Plan) -> Self {
        let found = plan.estimate();
        Self {
            schedule: plan.schedule().name.clone(),
            seconds: found.seconds,
            bound: found.bound,
            binds: found.binds.to_owned(),
            flops: found.flops,
            calibrated: found.calibrated,
        }
    }
}

#[pymethods]
impl Prediction {
    /// Predicted rate, 10^12 floating-point operations a second.
    #[getter]
    fn tflops(&self) -> f64 {
        self.flops / self.seconds / 1e12
    }

    fn __repr__(&self) -> String {
        let Self { schedule, seconds, binds, .. } = self;
        format!("<tilewright prediction: {schedule}, {:.1} us, binds: {binds}>", seconds * 1e6)
    }
}
