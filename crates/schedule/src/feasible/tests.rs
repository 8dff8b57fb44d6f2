//! Each rule with a schedule that breaks it and one that just keeps it.

use super::{Field, check};
use crate::*;

/// 128 x 128 at head dimension 128, two consumers: the middle of the road.
pub(crate) fn base() -> Schedule {
    Schedule {
        name: "base".into(),
        doc: String::new(),
        pass: Pass::Forward,
        element: Element::Bf16,
        variant: Variant::Full,
        head_dim: HeadDim::same(128),
        tile: Tile { rows: 128, columns: 128 },
        stages: Stages { q: 2, kv: 2 },
        roles: Roles {
            producer: Producer { warps: 1, registers: 24 },
            consumer: Consumer { warpgroups: 2, registers: 240 },
        },
        overlap: Overlap { within_warpgroup: true, pingpong: true, across_tiles: false },
        queries: crate::Queries::Shared,
        probabilities: Probabilities::Registers,
        rescale: Rescale::Always,
        row_sum: RowSum::Threads,
        fp8: None,
        split: Split::None,
        grid: Grid::default(),
    }
}

/// Makes 8-bit elements of a schedule's.
pub(crate) fn e4m3(schedule: &mut Schedule) {
    schedule.element = Element::E4m3;
    schedule.fp8 = Some(Fp8::default());
}

/// 192 x 80, three consumers.
fn three() -> Schedule {
    let mut schedule = base();
    schedule.tile = Tile { rows: 192, columns: 80 };
    schedule.stages.q = 1;
    schedule.roles.producer.registers = 32;
    schedule.roles.consumer = Consumer { warpgroups: 3, registers: 160 };
    schedule
}

/// 64 x 128, one consumer.
fn one() -> Schedule {
    let mut schedule = base();
    schedule.tile.rows = 64;
    schedule.roles.producer.registers = 56;
    schedule.roles.consumer.warpgroups = 1;
    schedule.overlap.pingpong = false;
    schedule
}

#[track_caller]
pub(crate) fn passes(schedule: &Schedule) {
    assert_eq!(check(schedule, &HOPPER), []);
}

/// The change breaks exactly one rule, on `field`; gives the message.
#[track_caller]
pub(crate) fn fails_on(field: Field, mut schedule: Schedule, change: impl FnOnce(&mut Schedule)) -> String {
    passes(&schedule);
    change(&mut schedule);
    let findings = check(&schedule, &HOPPER);
    assert_eq!(findings.iter().map(|finding| finding.field).collect::<Vec<_>>(), [field], "{findings:#?}");
    findings[0].message.clone()
}

pub(super) fn above(threshold: f32) -> Rescale {
    Threshold::new(threshold).map_or(Rescale::Always, Rescale::Above)
}

#[test]
fn the_bases_pass() {
    passes(&base());
    passes(&three());
    passes(&one());
}

#[test]
fn shared_memory_names_the_stages_and_the_arithmetic() {
    let message = fails_on(Field::StagesKv, base(), |s| s.stages.kv = 3);
    assert_eq!(
        message,
        "stages kv: 3 needs 256.3 KiB of shared memory (q 64 + k 96 + v 96 + barriers 0.2 + tiles 0.1), the target has 227 KiB"
    );
}

#[test]
fn shared_memory_blames_what_would_mend_it() {
    fails_on(Field::StagesQ, base(), |s| {
        s.tile.columns = 176;
    });
    fails_on(Field::TileColumns, three(), |s| {
        s.head_dim.qk = 256;
        s.tile.columns = 96;
        s.probabilities = Probabilities::Shared;
    });
}

#[test]
fn head_dimensions() {
    fails_on(Field::HeadDimQk, base(), |s| s.head_dim = HeadDim::same(80));
    fails_on(Field::HeadDimQk, base(), |s| s.head_dim.qk = 72);
    fails_on(Field::HeadDimV, base(), |s| s.head_dim.v = 0);
    fails_on(Field::HeadDimQk, base(), |s| {
        e4m3(s);
        s.head_dim.qk = 80;
    });
    let mut pair = base();
    pair.head_dim = HeadDim { qk: 80, v: 64 };
    passes(&pair);
}

#[test]
fn tile_rows() {
    fails_on(Field::TileRows, base(), |s| s.tile.rows = 100);
    fails_on(Field::TileRows, base(), |s| s.tile.rows = 64);
    let findings = check(&Schedule { tile: Tile { rows: 320, columns: 16 }, ..base() }, &HOPPER);
    assert!(findings.iter().any(|finding| finding.message.contains("TMA box")), "{findings:#?}");
}

#[test]
fn tile_columns() {
    fails_on(Field::TileColumns, base(), |s| s.tile.columns = 120);
    fails_on(Field::TileColumns, base(), |s| {
        e4m3(s);
        s.tile.columns = 112;
    });
    fails_on(Field::TileColumns, base(), |s| {
        s.head_dim = HeadDim::same(64);
        s.tile.columns = 272;
        s.overlap = Overlap::default();
        s.stages.q = 1;
    });
    let mut eight_bit = base();
    e4m3(&mut eight_bit);
    eight_bit.tile.columns = 96;
    passes(&eight_bit);
}

#[test]
fn stages_and_roles() {
    fails_on(Field::StagesKv, base(), |s| s.stages.kv = 1);
    fails_on(Field::StagesQ, one(), |s| s.stages.q = 3);
    fails_on(Field::ProducerWarps, base(), |s| s.roles.producer.warps = 4);
    for warpgroups in [0, 4, 9, u32::MAX] {
        let mut schedule = base();
        schedule.roles.consumer.warpgroups = warpgroups;
        let findings = check(&schedule, &HOPPER);
        assert!(findings.iter().any(|finding| finding.field == Field::ConsumerWarpgroups), "{findings:#?}");
    }
}

#[test]
fn overlap_needs_its_partners() {
    fails_on(Field::Pingpong, one(), |s| s.overlap.pingpong = true);
    fails_on(Field::Pingpong, three(), |s| s.overlap.within_warpgroup = false);
    fails_on(Field::AcrossTiles, one(), |s| {
        s.overlap = Overlap { across_tiles: true, ..Overlap::default() };
    });
    let mut without = base();
    without.overlap.within_warpgroup = false;
    passes(&without);
    let mut across = one();
    across.overlap.across_tiles = true;
    passes(&across);
}

#[test]
fn named_barriers_and_transactions_of_a_smaller_target() {
    let small = Target { named_barriers: 4, transaction_max: 1 << 14, ..HOPPER };
    let findings = check(&base(), &small);
    let fields: Vec<Field> = findings.iter().map(|finding| finding.field).collect();
    assert_eq!(fields, [Field::ConsumerWarpgroups, Field::TileRows, Field::TileColumns, Field::TileColumns]);
}

#[test]
fn register_counts() {
    for bad in [0, 16, 25, 264] {
        fails_on(Field::ConsumerRegisters, base(), |s| s.roles.consumer.registers = bad);
        fails_on(Field::ProducerRegisters, base(), |s| s.roles.producer.registers = bad);
    }
    let mut most = one();
    most.roles.consumer.registers = 256;
    passes(&most);
}

#[test]
fn the_pool() {
    let message = fails_on(Field::ConsumerRegisters, base(), |s| s.roles.producer.registers = 32);
    assert_eq!(
        message,
        "consumer registers: 2 x 240 and the producer's 32 are 512 registers, 384 threads hold 3 x 168 = 504 (65536 in the file)"
    );
    fails_on(Field::ConsumerRegisters, three(), |s| s.roles.consumer.registers = 168);
    let findings = check(
        &{
            let mut s = one();
            s.roles.producer.registers = 248;
            s
        },
        &HOPPER,
    );
    assert!(findings.iter().any(|finding| finding.field == Field::ProducerRegisters), "{findings:#?}");
}

#[test]
fn consumer_threads() {
    let message = fails_on(Field::ConsumerRegisters, three(), |s| s.tile.columns = 96);
    assert_eq!(
        message,
        "consumer registers: 160 hold no 192 x 96 tile at head dimension 128: S 48 + P 24 + O 64 + Q 0 + working 28 = 164"
    );
    let mut apart = three();
    apart.overlap = Overlap::default();
    apart.tile.columns = 96;
    passes(&apart);
}

#[test]
fn one_wgmma_must_fit_the_entry_count() {
    fails_on(Field::HeadDimV, three(), |s| {
        s.head_dim.v = 208;
        s.tile = Tile { rows: 192, columns: 32 };
        s.overlap.within_warpgroup = false;
        s.overlap.pingpong = false;
    });
}

#[test]
fn thresholds_and_sections() {
    fails_on(Field::Rescale, base(), |s| s.rescale = above(8.5));
    fails_on(Field::Rescale, base(), |s| {
        e4m3(s);
        s.rescale = above(4.5);
    });
    let saturates = fails_on(Field::Rescale, base(), |s| {
        e4m3(s);
        s.rescale = Rescale::OnOverflow;
    });
    assert!(saturates.contains("saturates at 448"), "{saturates}");
    fails_on(Field::Order, base(), |s| s.grid.order = Order::LongestFirst { l2_bytes: 0, heads: None });
    fails_on(Field::Order, base(), |s| s.grid.order = Order::LongestFirst { l2_bytes: 1000, heads: None });
    let mut schedule = base();
    schedule.rescale = above(8.0);
    schedule.grid.order = Order::LongestFirst { l2_bytes: 32 << 20, heads: None };
    passes(&schedule);
}

#[test]
fn row_sums_go_beside_the_longest_rows_of_v() {
    let mut wide = base();
    e4m3(&mut wide);
    wide.head_dim = HeadDim::same(256);
    wide.stages.q = 1;
    wide.row_sum = RowSum::TensorCore;
    passes(&wide);
}

#[test]
fn absurd_numbers_are_refused_without_a_panic() {
    let mut absurd = base();
    absurd.head_dim = HeadDim { qk: u32::MAX, v: u32::MAX - 15 };
    absurd.tile = Tile { rows: u32::MAX, columns: u32::MAX };
    absurd.stages = Stages { q: u32::MAX, kv: u32::MAX };
    absurd.roles.consumer = Consumer { warpgroups: u32::MAX, registers: 240 };
    assert!(!check(&absurd, &HOPPER).is_empty());
}
