//! Shared memory: the whole layout against the block's limit, and one load against the transaction count of a barrier.

use super::{Field, Findings};
use crate::footprint::{shared_bytes, shared_memory};
use crate::{Schedule, Target};

pub(super) fn check(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    capacity(schedule, target, findings);
    transactions(schedule, target, findings);
}

fn capacity(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    let needed = shared_bytes(schedule);
    if needed <= target.shared_bytes {
        return;
    }
    let field = to_blame(schedule, target);
    let value = match field {
        Field::StagesKv => schedule.stages.kv,
        Field::StagesQ => schedule.stages.q,
        _ => schedule.tile.columns,
    };
    let items: Vec<String> =
        shared_memory(schedule).iter().map(|item| format!("{} {}", item.name, kib(item.bytes))).collect();
    findings.push(
        field,
        format_args!(
            "{value} needs {} KiB of shared memory ({}), the target has {} KiB",
            kib(needed),
            items.join(" + "),
            kib(target.shared_bytes)
        ),
    );
}

/// The one field whose reduction alone makes the schedule fit; the tile's columns if none does.
fn to_blame(schedule: &Schedule, target: &Target) -> Field {
    let fits = |change: fn(&mut Schedule)| {
        let mut smaller = schedule.clone();
        change(&mut smaller);
        shared_bytes(&smaller) <= target.shared_bytes
    };
    if schedule.stages.kv > 2 && fits(|smaller| smaller.stages.kv = 2) {
        Field::StagesKv
    } else if schedule.stages.q > 1 && fits(|smaller| smaller.stages.q = 1) {
        Field::StagesQ
    } else {
        Field::TileColumns
    }
}

fn transactions(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    let element = schedule.element.bytes();
    let bytes = |length: u32, row: u32| u64::from(length).saturating_mul(u64::from(row)).saturating_mul(element);
    let (tile, head_dim) = (schedule.tile, schedule.head_dim);
    for (field, load, bytes) in [
        (Field::TileRows, "Q", bytes(tile.rows, head_dim.qk)),
        (Field::TileColumns, "K", bytes(tile.columns, head_dim.qk)),
        (Field::TileColumns, "V", bytes(tile.columns, head_dim.v)),
    ] {
        if bytes > target.transaction_max {
            findings.push(
                field,
                format_args!(
                    "a tile of {load} is {bytes} bytes, a barrier counts at most {} in flight",
                    target.transaction_max
                ),
            );
        }
    }
}

/// Bytes in KiB, rounded up to a tenth, without a needless fraction.
fn kib(bytes: u64) -> String {
    let tenths = u128::from(bytes).saturating_mul(10).div_ceil(1024);
    if tenths.is_multiple_of(10) { (tenths / 10).to_string() } else { format!("{}.{}", tenths / 10, tenths % 10) }
}
