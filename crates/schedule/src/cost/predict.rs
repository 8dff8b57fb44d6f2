//! The time of a whole problem: tiles over SMs, memory beside them, what binds.

use super::calibration::{BURST, EIGHT_BIT_CLOCK, LAUNCH, SAG, SAG_MOST};
use super::split::{best, join_clocks, part_bytes};
use super::tile::{Parts, Steps};
use super::{Device, Work, step};
use crate::{Order, Schedule, Scheduler, Target, Variant};
use std::fmt;

/// Query tiles of a head that are looked at one by one; of more, this many are taken evenly.
const SAMPLES: u64 = 512;

/// What a schedule is predicted to take for a problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Time of a launch.
    pub seconds: f64,
    /// The least that it can take: the busiest unit's steps spread evenly over all SMs, or the bytes that must move.
    pub bound: f64,
    /// What takes the largest share: a unit, `tile edges`, `idle SMs`, `L2`, `memory` or `launch`.
    pub binds: &'static str,
    /// Query tiles of the busiest SM, each share of one counted by itself.
    pub tiles_per_sm: u64,
    /// Key tiles of an average one.
    pub steps: f64,
    /// Floating-point operations of what the mask leaves.
    pub flops: f64,
    /// Whether measurements of such schedules were fitted: not of 8-bit elements.
    pub calibrated: bool,
}

impl Prediction {
    /// Predicted rate, 10^12 floating-point operations a second.
    pub fn tflops(&self) -> f64 {
        self.flops / self.seconds / 1e12
    }
}

/// `about 211.0 us, 652 TFLOP/s (bound 151.2 us, binds: tensor; 16 tiles an SM, 8.0 key tiles each)`
impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, bound, binds, tiles_per_sm, steps, calibrated, .. } = self;
        write!(
            f,
            "about {:.1} us, {:.0} TFLOP/s (bound {:.1} us, binds: {binds}; {tiles_per_sm} tiles an SM, {steps:.1} key \
             tiles each)",
            seconds * 1e6,
            self.tflops(),
            bound * 1e6
        )?;
        if *calibrated { Ok(()) } else { f.write_str(", not calibrated for 8 bits") }
    }
}

/// Clocks of the query tiles of one head, or of their shares.
struct Tiles {
    /// How many.
    count: f64,
    mean: f64,
    least: f64,
    most: f64,
    /// Steps of an average one.
    steps: f64,
}

impl Tiles {
    fn of(schedule: &Schedule, work: &Work, parts: &Parts, shares: u64) -> Self {
        let count = work.queries.div_ceil(u64::from(schedule.tile.rows.max(1))).max(1);
        let samples = if schedule.variant == Variant::Causal { count.min(SAMPLES) } else { 1 };
        let mut tiles = Self { count: (count * shares) as f64, mean: 0.0, least: f64::INFINITY, most: 0.0, steps: 0.0 };
        for sample in 0..samples {
            // Of the last tile at least, and of none beyond it.
            let tile = (sample + 1) * count / samples - 1;
            let steps = Steps::of(schedule, work, tile).of_share(shares);
            let clocks = parts.clocks(steps);
            tiles.mean += clocks / samples as f64;
            tiles.steps += steps.all / samples as f64;
            tiles.least = tiles.least.min(clocks);
            tiles.most = tiles.most.max(clocks);
        }
        tiles
    }

    /// Clocks until the last SM is done.
    fn makespan(&self, schedule: &Schedule, heads: f64, sms: f64) -> f64 {
        let count = self.count * heads;
        let busiest = (count / sms).ceil();
        match (schedule.grid.scheduler, schedule.grid.order) {
            _ if count <= sms => self.most,
            (Scheduler::Dynamic, Order::LongestFirst { .. }) if self.least < self.most => {
                (count / sms * self.mean + self.least).max(self.most)
            }
            (Scheduler::Dynamic, _) => busiest * self.mean + (self.most - self.mean) / 2.0,
            (Scheduler::Static, _) => busiest * self.mean + (self.most - self.mean),
        }
    }
}

/// Predicts the time of a problem under a schedule, with as many shares as are best where it splits query tiles.
pub fn predict(schedule: &Schedule, work: &Work, target: &Target, device: &Device) -> Prediction {
    best(schedule, work, target, device).1
}

/// The same with so many shares of each query tile.
pub(super) fn with_shares(
    schedule: &Schedule,
    work: &Work,
    target: &Target,
    device: &Device,
    shares: u64,
) -> Prediction {
    let sms = f64::from(device.sms.max(1));
    let clock = if schedule.element.is_fp8() { device.clock * EIGHT_BIT_CLOCK } else { device.clock };
    let heads = work.heads_total();
    let parts = Parts::of(schedule, target);
    let tiles = Tiles::of(schedule, work, &parts, shares);
    let (memory, l2) = traffic(schedule, work, &tiles, shares);
    let (memory, l2) = (memory / device.memory_bandwidth, l2 / device.l2_bandwidth / clock);
    let count = tiles.count * heads;
    let even = |clocks: f64| clocks * count / sms / clock;

    let compute = match count > 0.0 {
        true => (tiles.makespan(schedule, heads, sms) + join_clocks(schedule, work, shares)) / clock,
        false => 0.0,
    };
    let busy = compute.max(memory).max(l2);
    let seconds = busy / sagged(busy) + LAUNCH;
    let units = even(tiles.steps * parts.busiest);
    let shares = [
        (step(schedule, target).bound().0, even(tiles.steps * parts.step)),
        ("tile edges", even(parts.edges)),
        ("idle SMs", compute - even(tiles.mean)),
        ("launch", LAUNCH),
        ("memory", if memory >= busy { memory } else { 0.0 }),
        ("L2", if l2 >= busy { l2 } else { 0.0 }),
    ];
    let (binds, _) =
        shares.into_iter().fold(("launch", 0.0), |most, share| if share.1 >= most.1 { share } else { most });
    let row = f64::from(schedule.head_dim.qk) + f64::from(schedule.head_dim.v);
    Prediction {
        seconds,
        bound: units.max(memory),
        binds,
        tiles_per_sm: (count / sms).ceil() as u64,
        steps: tiles.steps,
        flops: 2.0 * row * work.scores(schedule.variant == Variant::Causal),
        calibrated: !schedule.element.is_fp8(),
    }
}

/// Bytes that must come from and go to device memory, each tensor once, and bytes that go to and come from L2.
fn traffic(schedule: &Schedule, work: &Work, tiles: &Tiles, shares: u64) -> (f64, f64) {
    let (qk, v) = (f64::from(schedule.head_dim.qk), f64::from(schedule.head_dim.v));
    let element = schedule.element.bytes() as f64;
    let heads = work.heads_total();
    let rows = heads * work.queries as f64;
    let queries = rows * qk * element;
    let output = rows * v * schedule.element.output_bytes() as f64;
    let key_rows = heads / work.group.max(1) as f64 * work.keys as f64;
    let step = f64::from(schedule.tile.columns) * (qk + v) * element;
    let left = if shares > 1 { 2.0 * heads * tiles.count * part_bytes(schedule, work) } else { 0.0 };
    (queries + output + key_rows * (qk + v) * element, queries + heads * tiles.count * tiles.steps * step + left)
}

/// The share of the clock that is left after so many seconds under load.
fn sagged(seconds: f64) -> f64 {
    (1.0 - SAG * (seconds / BURST).max(1.0).log2()).max(SAG_MOST)
}
