//! Into how many shares query tiles are best split, and what putting them together takes.

use super::calibration::{JOIN_BYTES, JOIN_CLOCKS};
use super::predict::with_shares;
use super::{Device, Prediction, Work};
use crate::target::WGMMA_ROWS;
use crate::{Schedule, Target};

/// Rounds of blocks over the SMs that are tried.
const ROUNDS: u64 = 3;

/// Rows of O that are left and taken in together: all of them, if one is a row of Q.
const ROWS: u64 = WGMMA_ROWS as u64 / 8;

/// Shares that each query tile's keys are predicted to be best split into: 1 if the schedule does not split them.
///
/// Whatever the shares, they fit into three rounds over the SMs, and none is without a key tile where all rows see all keys.
pub fn shares(schedule: &Schedule, work: &Work, target: &Target, device: &Device) -> u64 {
    best(schedule, work, target, device).0
}

/// The best number of shares with its prediction.
pub(super) fn best(schedule: &Schedule, work: &Work, target: &Target, device: &Device) -> (u64, Prediction) {
    let whole = (1, with_shares(schedule, work, target, device, 1));
    if !schedule.splits() {
        return whole;
    }
    let rows = u64::from(schedule.tile.rows.max(1));
    let tiles = work.queries.div_ceil(rows).saturating_mul(work.batch).saturating_mul(work.heads).max(1);
    let blocks = work.keys.div_ceil(u64::from(schedule.tile.columns.max(1)));
    let filling = (1..=ROUNDS).map(|rounds| rounds * u64::from(device.sms) / tiles);
    let tried = filling.flat_map(|most| [most, most * 3 / 4, most / 2, most / 4]).map(|shares| shares.min(blocks));
    tried.filter(|&shares| shares > 1).fold(whole, |best, shares| {
        let found = with_shares(schedule, work, target, device, shares);
        if found.seconds < best.1.seconds { (shares, found) } else { best }
    })
}

/// Bytes of O that one share of one query tile leaves in the workspace.
pub(super) fn part_bytes(schedule: &Schedule, work: &Work) -> f64 {
    let rows = work.queries.next_multiple_of(ROWS).min(u64::from(schedule.tile.rows));
    rows as f64 * f64::from(schedule.head_dim.v) * 4.0
}

/// Clocks that the last share of a query tile takes to put all of them together.
pub(super) fn join_clocks(schedule: &Schedule, work: &Work, shares: u64) -> f64 {
    match shares {
        0 | 1 => 0.0,
        _ => JOIN_CLOCKS + (shares + 1) as f64 * part_bytes(schedule, work) / JOIN_BYTES,
    }
}
