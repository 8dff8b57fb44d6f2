//! Which of several eligible schedules is the fastest: the cost model's prediction, for lack of a measurement.

use schedule::cost::{self, H200, Prediction, Work};
use schedule::{HOPPER, Schedule};

use crate::Problem;

/// A later schedule of the registry is preferred only below this share of the earlier one's predicted time: the model
/// errs, and the registry's author knows more.
pub const MARGIN: f64 = 0.8;

/// A problem as the cost model takes it.
pub fn work(problem: &Problem) -> Work {
    Work {
        batch: problem.batch(),
        queries: problem.queries(),
        keys: problem.keys(),
        heads: problem.heads(),
        group: problem.group(),
    }
}

/// What a problem is predicted to take on an H200 with so many SMs.
pub fn estimate(schedule: &Schedule, problem: &Problem, sms: u32) -> Prediction {
    cost::predict(schedule, &work(problem), &HOPPER, &H200.with_sms(sms))
}
