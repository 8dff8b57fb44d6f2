//! From all that is feasible to what is worth a measurement.

use std::collections::HashMap;

use schedule::Schedule;
use schedule::cost::Prediction;

use super::candidates::COLUMN_STEP;
use crate::Problem;
use crate::policy::{eligible, estimate};

/// Of the candidates that differ in what the model does not know (stages, scheduler), at most so many go on.
const ALIKE: usize = 1;

/// Of the candidates with one tile, at most so many go on.
const OF_A_TILE: usize = 3;

/// A schedule with what is predicted of it for one problem.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The schedule; under its shipped name if it is shipped.
    pub schedule: Schedule,
    /// Whether it is.
    pub shipped: bool,
    /// Its prediction.
    pub prediction: Prediction,
}

impl Candidate {
    /// A schedule with its prediction for a problem on a device of so many SMs.
    pub fn new(schedule: Schedule, shipped: bool, problem: &Problem, sms: u32) -> Self {
        let prediction = estimate(&schedule, problem, sms);
        Self { schedule, shipped, prediction }
    }
}

/// The `keep` most promising schedules for a problem, by prediction, and every shipped one that can compute it beside
/// them. Schedules that differ in nothing that the model knows are kept in their order.
pub fn prune(
    shipped: &[&Schedule],
    candidates: &[Schedule],
    problem: &Problem,
    sms: u32,
    keep: usize,
) -> Vec<Candidate> {
    let can = |schedule: &Schedule| eligible(schedule, problem).is_ok();
    let of = |schedule: &Schedule, shipped| Candidate::new(schedule.clone(), shipped, problem, sms);
    let is_shipped = |schedule: &Schedule| shipped.iter().any(|other| same(other, schedule));
    let mut kept: Vec<Candidate> = shipped.iter().filter(|s| can(s)).map(|s| of(s, true)).collect();
    let mut rest: Vec<Candidate> =
        candidates.iter().filter(|s| can(s) && !is_shipped(s)).map(|s| of(s, false)).collect();
    rest.sort_by(|a, b| a.prediction.seconds.total_cmp(&b.prediction.seconds));
    let mut alike = HashMap::new();
    rest.retain(|candidate| {
        let Schedule { tile, overlap, queries, rescale, .. } = candidate.schedule;
        let count = alike.entry((tile, Some((overlap, queries, rescale)))).or_insert(0_usize);
        *count += 1;
        let first = *count <= ALIKE;
        let of_tile = alike.entry((tile, None)).or_insert(0);
        *of_tile += usize::from(first);
        first && *of_tile <= OF_A_TILE
    });
    rest.truncate(keep);
    kept.append(&mut rest);
    kept.sort_by(|a, b| a.prediction.seconds.total_cmp(&b.prediction.seconds));
    kept
}

/// The candidates that differ from a schedule in one choice, or by one step of the tile's columns: what is tried once it
/// has won, for the sake of what the model does not know.
pub fn around(schedule: &Schedule, candidates: &[Schedule]) -> Vec<Schedule> {
    candidates.iter().filter(|other| differences(schedule, other) == 1).cloned().collect()
}

/// Choices in which two schedules differ.
fn differences(a: &Schedule, b: &Schedule) -> u32 {
    let tile = match a.tile.columns.abs_diff(b.tile.columns) {
        _ if a.tile.rows != b.tile.rows => 2,
        columns => columns.div_ceil(COLUMN_STEP),
    };
    let flags = [
        a.stages.q != b.stages.q,
        a.stages.kv != b.stages.kv,
        a.overlap.within_warpgroup != b.overlap.within_warpgroup,
        a.overlap.pingpong != b.overlap.pingpong,
        a.overlap.across_tiles != b.overlap.across_tiles,
        a.queries != b.queries,
        a.probabilities != b.probabilities,
        a.rescale != b.rescale,
        a.grid.scheduler != b.grid.scheduler,
        a.grid.order != b.grid.order,
    ];
    tile + flags.iter().filter(|differs| **differs).count() as u32
}

/// Whether two schedules differ in name and words alone.
pub fn same(a: &Schedule, b: &Schedule) -> bool {
    *a == Schedule { name: a.name.clone(), doc: a.doc.clone(), ..b.clone() }
}
