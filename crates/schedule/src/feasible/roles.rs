//! Roles: how many there are, what they may overlap, the named barriers and threads that they take.

use super::{Field, Findings};
use crate::target::{WARP_THREADS, WARPGROUP_THREADS};
use crate::{Schedule, Target};

/// Consumer warpgroups that a block can be built of: a fourth would leave each 96 registers.
const WARPGROUPS: std::ops::RangeInclusive<u32> = 1..=3;

/// Warps of a warpgroup.
const WARPGROUP_WARPS: u32 = WARPGROUP_THREADS / WARP_THREADS;

/// Depths of the Q ring.
const Q_STAGES: std::ops::RangeInclusive<u32> = 1..=2;

/// A ring of K and V shorter than this cannot load beside the products.
const KV_STAGES_MIN: u32 = 2;

pub(super) fn check(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    counts(schedule, target, findings);
    overlap(schedule, findings);
    named_barriers(schedule, target, findings);
}

fn counts(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    let warps = schedule.roles.producer.warps;
    match schedule.transposes_values() {
        false if warps != 1 => {
            findings.push(Field::ProducerWarps, format_args!("{warps} is not 1: one thread issues every TMA load"));
        }
        true if warps != WARPGROUP_WARPS => findings.push(
            Field::ProducerWarps,
            format_args!(
                "{warps} is not {WARPGROUP_WARPS}: under values: rows every warp of the producer's transposes V"
            ),
        ),
        _ => {}
    }
    let warpgroups = schedule.roles.consumer.warpgroups;
    if !WARPGROUPS.contains(&warpgroups) {
        findings.push(
            Field::ConsumerWarpgroups,
            format_args!("{warpgroups} is not from {} to {}", WARPGROUPS.start(), WARPGROUPS.end()),
        );
    }
    let threads = schedule.threads();
    if threads > target.threads_per_block {
        findings.push(
            Field::ConsumerWarpgroups,
            format_args!(
                "{warpgroups} and the producer's are {threads} threads of {WARPGROUP_THREADS} a warpgroup, \
                 a block has at most {}",
                target.threads_per_block
            ),
        );
    }
    let q = schedule.stages.q;
    if !Q_STAGES.contains(&q) {
        findings.push(Field::StagesQ, format_args!("{q} is not {} or {}", Q_STAGES.start(), Q_STAGES.end()));
    }
    let kv = schedule.stages.kv;
    if kv < KV_STAGES_MIN {
        findings.push(
            Field::StagesKv,
            format_args!("{kv} is less than {KV_STAGES_MIN}: the next tile loads while this one is multiplied"),
        );
    }
}

fn overlap(schedule: &Schedule, findings: &mut Findings) {
    let overlap = schedule.overlap;
    let warpgroups = schedule.roles.consumer.warpgroups;
    if overlap.pingpong && warpgroups < 2 {
        findings.push(
            Field::Pingpong,
            format_args!("it takes turns between at least 2 consumer warpgroups, the schedule has {warpgroups}"),
        );
    } else if overlap.pingpong && !overlap.within_warpgroup && warpgroups != 2 {
        findings.push(
            Field::Pingpong,
            format_args!(
                "without within_warpgroup it takes turns between exactly 2 consumer warpgroups, \
                 the schedule has {warpgroups}"
            ),
        );
    }
    if overlap.across_tiles && !overlap.within_warpgroup {
        findings.push(Field::AcrossTiles, "it extends within_warpgroup over the end of a tile, and needs it");
    }
}

/// Barrier 0 is the whole block's; each consumer warpgroup has one for its epilogue and shared P, and with ping-pong
/// one for its turn.
fn named_barriers(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    let warpgroups = u64::from(schedule.roles.consumer.warpgroups);
    let turns = if schedule.overlap.pingpong { warpgroups } else { 0 };
    let needed = 2 + warpgroups + turns;
    if needed > u64::from(target.named_barriers) {
        findings.push(
            Field::ConsumerWarpgroups,
            format_args!(
                "{warpgroups} need {needed} named barriers (block 1 + consumers 1 + warpgroups {warpgroups} + turns {turns}), \
                 the target has {}",
                target.named_barriers
            ),
        );
    }
}
