//! One query tile of a block: its steps, the masks on some of them, its beginning and end.

use super::Work;
use super::calibration::{ACROSS_LEFT, MASK_SLOTS, QUERY_WAIT_CLOCKS, STEP_CLOCKS, STORE_CLOCKS, TILE_CLOCKS, exposed};
use super::step::{Cost, step};
use crate::{Schedule, Target, Variant};

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
    /// One step, with what of its softmax is exposed.
    pub(super) step: f64,
    /// What a mask adds to a step.
    pub(super) mask: f64,
    /// The tile's beginning and end.
    pub(super) edges: f64,
}

impl Parts {
    pub(super) fn of(schedule: &Schedule, target: &Target) -> Self {
        let cost = step(schedule, target);
        let (rows, columns) = (f64::from(schedule.tile.rows), f64::from(schedule.tile.columns));
        let lanes = target.lanes as f64;
        let store = STORE_CLOCKS * rows * f64::from(schedule.head_dim.v) / lanes;
        let left = if schedule.overlap.across_tiles { ACROSS_LEFT } else { 1.0 };
        let wait = if schedule.stages.q < 2 { QUERY_WAIT_CLOCKS } else { 0.0 };
        let busiest = cost.bound().1;
        Self {
            busiest,
            step: busiest + exposed(schedule) * (cost.exponential + cost.issue) + STEP_CLOCKS,
            mask: MASK_SLOTS * rows * columns / lanes,
            edges: (TILE_CLOCKS + store) * left + wait,
        }
    }

    /// Clocks of a tile.
    pub(super) fn clocks(&self, steps: Steps) -> f64 {
        steps.all * self.step + steps.masked * self.mask + self.edges
    }
}
