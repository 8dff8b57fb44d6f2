//! Which of several eligible schedules is the fastest: a first-order estimate, for lack of a measurement.

use std::fmt;

use schedule::{HOPPER, Schedule, cost};

use crate::Problem;

/// A later schedule of the registry is preferred only below this share of the earlier one's estimate: the estimate
/// knows nothing of latency and memory, the registry's author does.
pub const MARGIN: f64 = 0.8;

/// Query tiles that are looked at for the average of a masked problem.
const SAMPLES: u64 = 64;

/// What a problem is estimated to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Clocks of the busiest SM.
    pub clocks: f64,
    /// Tiles of that SM.
    pub tiles_per_sm: u64,
    /// Key tiles of an average query tile.
    pub steps: f64,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clocks, tiles_per_sm, steps } = self;
        write!(f, "about {clocks:.0} clocks ({tiles_per_sm} tiles an SM, {steps:.1} key tiles each)")
    }
}

/// Clocks for a problem: the tiles of the busiest SM, each at its average number of steps. A step takes as long as its
/// busiest unit where the schedule overlaps softmax and products, and as long as tensor cores and exponentials one
/// after another where it does not.
pub fn estimate(schedule: &Schedule, problem: &Problem, sms: u32) -> Estimate {
    let (rows, columns) = (u64::from(schedule.tile.rows.max(1)), u64::from(schedule.tile.columns.max(1)));
    let query_tiles = problem.queries().div_ceil(rows).max(1);
    let samples = query_tiles.min(SAMPLES);
    let steps: u64 = (0..samples)
        .map(|sample| {
            let tile = sample * query_tiles / samples;
            let last = ((tile + 1) * rows).min(problem.queries()).saturating_sub(1);
            problem.visible(last).div_ceil(columns)
        })
        .sum();
    let steps = steps as f64 / samples as f64;
    let step = cost::step(schedule, &HOPPER);
    let overlaps = schedule.overlap.within_warpgroup || schedule.overlap.pingpong;
    let clocks = if overlaps { step.bound().1 } else { step.tensor + step.exponential };
    let tiles = u128::from(query_tiles) * u128::from(problem.batch()) * u128::from(problem.heads());
    let tiles_per_sm = tiles.div_ceil(u128::from(sms.max(1))) as u64;
    Estimate { clocks: tiles_per_sm as f64 * steps * clocks, tiles_per_sm, steps }
}
