//! Shapes: what wgmma can multiply and what TMA can load in one box.

use super::{Field, Findings};
use crate::target::{WGMMA_DEPTH_BYTES, WGMMA_ROWS};
use crate::{Schedule, Target};

/// Head dimensions at which all rows have the same length.
const SAME: [u32; 5] = [64, 96, 128, 192, 256];

/// The step of the pair form.
const PAIR_STEP: u32 = 16;

pub(super) fn check(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    head_dim(schedule, target, findings);
    rows(schedule, target, findings);
    columns(schedule, target, findings);
}

/// Elements of one wgmma's depth, K.
fn depth(schedule: &Schedule) -> u32 {
    WGMMA_DEPTH_BYTES / schedule.element.bytes() as u32
}

fn head_dim(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    let (qk, v) = (schedule.head_dim.qk, schedule.head_dim.v);
    let widest = target.wgmma_columns_max;
    if qk == v && !SAME.contains(&qk) {
        let known = SAME.map(|length| length.to_string()).join(", ");
        findings.push(
            Field::HeadDimQk,
            format_args!(
                "{qk} is none of {known}; a pair such as (192, 128) takes multiples of {PAIR_STEP} up to {widest}"
            ),
        );
        return;
    }
    for (field, length) in [(Field::HeadDimQk, qk), (Field::HeadDimV, v)] {
        if length == 0 || length > widest || !length.is_multiple_of(PAIR_STEP) {
            findings
                .push(field, format_args!("{length} is not a multiple of {PAIR_STEP} from {PAIR_STEP} to {widest}"));
        }
    }
    let depth = depth(schedule);
    if qk.is_multiple_of(PAIR_STEP) && !qk.is_multiple_of(depth) {
        findings.push(
            Field::HeadDimQk,
            format_args!("{qk} is not a multiple of {depth}, the depth of one wgmma of {}", schedule.element),
        );
    }
}

fn rows(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    let rows = schedule.tile.rows;
    let warpgroups = schedule.roles.consumer.warpgroups;
    if rows == 0 || !rows.is_multiple_of(WGMMA_ROWS) {
        findings.push(Field::TileRows, format_args!("{rows} is not a multiple of {WGMMA_ROWS}, the rows of one wgmma"));
    } else if u64::from(rows) != u64::from(WGMMA_ROWS) * u64::from(warpgroups) {
        findings.push(
            Field::TileRows,
            format_args!(
                "{rows} rows need {} consumer warpgroups of {WGMMA_ROWS} rows each, the schedule has {warpgroups}",
                rows / WGMMA_ROWS
            ),
        );
    }
    if rows > target.tma_box_max {
        findings
            .push(Field::TileRows, format_args!("{rows} is more than the {} rows of one TMA box", target.tma_box_max));
    }
}

fn columns(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    let columns = schedule.tile.columns;
    let depth = depth(schedule);
    if columns == 0 || !columns.is_multiple_of(depth) {
        findings.push(
            Field::TileColumns,
            format_args!(
                "{columns} is not a multiple of {depth}, the depth of one wgmma of {} in the second product",
                schedule.element
            ),
        );
    }
    let widest = target.wgmma_columns_max.min(target.tma_box_max);
    if columns > widest {
        findings.push(
            Field::TileColumns,
            format_args!("{columns} is more than {widest}, the widest wgmma and the longest TMA box"),
        );
    }
}
