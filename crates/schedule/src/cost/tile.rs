//! One query tile of a block: its steps, the masks on some of them, its beginning and end.

use super::Work;
use super::calibration::{
    ACROSS_LEFT, HIDING, MASK_SLOTS, QUERY_WAIT_CLOCKS, STEP_CLOCKS, STORE_CLOCKS, TILE_CLOCKS, VERDICT_CLOCKS,
    exposed, maximum_wait,
};
use super::step::{Cost, rescaled, step};
use crate::{Queries, Rescale, Schedule, Target, Variant};

/// One block's query tile against `keys` keys that it sees: whole steps, each unit by its rate.
pub fn tile(schedule: &Schedule, target: &Target, keys: u64) -> Cost {
    step(schedule, target).times(keys.div_ceil(u64::from(schedule.tile.columns.max(1))) as f64)
}

/// Steps of a query tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Steps {
    /// All.
    pub(super) all: f64,
    /// Those with a mask.
    pub(super) masked: f64,
}

impl Steps {
    /// Of query tile number `tile`.
    pub(super) fn of(schedule: &Schedule, work: &Work, tile: u64) -> Self {
        let (rows, columns) = (u64::from(schedule.tile.rows.max(1)), u64::from(schedule.tile.columns.max(1)));
        let causal = schedule.variant == Variant::Causal;
        let first = tile * rows;
        let last = (first + rows).min(work.queries).saturating_sub(1);
        let all = work.visible(last, causal).div_ceil(columns);
        let whole = work.visible(first.min(last), causal) / columns;
        Self { all: all as f64, masked: all.saturating_sub(whole) as f64 }
    }
}

impl Steps {
    /// Of the longest of so many shares; one without a key goes through a masked step all the same.
    pub(super) fn of_share(self, shares: u64) -> Self {
        match shares {
            0 | 1 => self,
            _ => Self { all: (self.all / shares as f64).ceil().max(1.0), masked: self.masked.max(1.0) },
        }
    }
}

/// Clocks of the parts of a tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parts {
    /// The busiest unit of one step.
    pub(super) busiest: f64,
    /// One step, with what the units do not hide of each other.
    pub(super) step: f64,
    /// What a mask adds to a step.
    pub(super) mask: f64,
    /// The tile's beginning and end.
    pub(super) edges: f64,
}

impl Parts {
    pub(super) fn of(schedule: &Schedule, target: &Target) -> Self {
        let cost = step(schedule, target);
        let plain = clocks(schedule, &cost) + maximum_wait(schedule, schedule.rescale);
        // Where a mask hides something, no reference stands: a masked step takes its own maximum.
        let rescale = if schedule.rescale == Rescale::OnOverflow { Rescale::Always } else { schedule.rescale };
        let mut masked = rescaled(schedule, rescale, target);
        let (rows, columns) = (f64::from(schedule.tile.rows), f64::from(schedule.tile.columns));
        masked.issue += MASK_SLOTS * rows * columns / target.lanes as f64;
        Self {
            busiest: cost.bound().1,
            step: plain,
            mask: clocks(schedule, &masked) + maximum_wait(schedule, rescale) - plain,
            edges: edges(schedule, target),
        }
    }

    /// Clocks of a tile.
    pub(super) fn clocks(&self, steps: Steps) -> f64 {
        steps.all * self.step + steps.masked * self.mask + self.edges
    }
}

/// Clocks of a step whose units take so many each. Shared memory feeds the tensor cores, which wait for it clock by clock;
/// the exponential unit and the issue of instructions belong to the softmax.
fn clocks(schedule: &Schedule, cost: &Cost) -> f64 {
    let products = cost.tensor.max(cost.shared);
    let hidden =
        [products, cost.exponential, cost.issue].map(|unit| unit.powf(HIDING)).iter().sum::<f64>().powf(1.0 / HIDING);
    let serial = products + cost.exponential + cost.issue;
    hidden + exposed(schedule) * (serial - hidden).max(0.0) + STEP_CLOCKS
}

/// Clocks of a tile's beginning and end.
fn edges(schedule: &Schedule, target: &Target) -> f64 {
    let pieces = f64::from(schedule.tile.rows) * f64::from(schedule.head_dim.v) / target.lanes as f64;
    let left = if schedule.overlap.across_tiles { ACROSS_LEFT } else { 1.0 };
    let verdict = if schedule.rescale == Rescale::OnOverflow { VERDICT_CLOCKS } else { 0.0 };
    let held = schedule.queries == Queries::Registers;
    let wait = if schedule.stages.q < 2 && !held { QUERY_WAIT_CLOCKS } else { 0.0 };
    (TILE_CLOCKS + STORE_CLOCKS * pieces) * left + wait.max(verdict)
}
