//! What cannot be had from a data sheet: fitted to forward kernels measured on an H200, or taken from an ablation.

use crate::Schedule;

/// Issue slots of a score element beside the tensor cores: maximum, multiply-add, exponential, sum, half a conversion.
pub(super) const SLOTS: f64 = 4.5;

/// Issue slots of them for the maximum.
pub(super) const MAXIMUM_SLOTS: f64 = 1.0;

/// Issue slots of them for the sum.
pub(super) const SUM_SLOTS: f64 = 1.0;

/// Issue slots fewer where P is linear between powers of two: counted, not fitted.
pub(super) const LINEAR_SLOTS: f64 = 0.5;

/// Issue slots that a mask adds for each score element of a step.
pub(super) const MASK_SLOTS: f64 = 0.95;

/// Clocks of a step that nothing hides: barriers, turns, the first product's latency.
pub(super) const STEP_CLOCKS: f64 = 180.0;

/// Share of the softmax's clocks that `across_tiles` exposes beside [`exposed`]: its registers are fuller.
pub(super) const ACROSS_EXPOSED: f64 = 0.125;

/// Clocks of a tile's beginning and end: coordinates, the first loads and products, the row sums.
pub(super) const TILE_CLOCKS: f64 = 1750.0;

/// Clocks of a tile's end for each byte-wide row piece that is stored: 128 threads take a row element each.
pub(super) const STORE_CLOCKS: f64 = 6.0;

/// Share of a tile's beginning and end that is left where the next tile's scores run beside it.
pub(super) const ACROSS_LEFT: f64 = 0.7;

/// Clocks of leaving a share and asking whether it is the last one: a fence, an atomic and two barriers. A guess.
pub(super) const JOIN_CLOCKS: f64 = 2500.0;

/// Bytes a clock at which a block reads the shares of a query tile back from L2. A guess.
pub(super) const JOIN_BYTES: f64 = 40.0;

/// Clocks that a tile waits for its queries where they have one stage.
pub(super) const QUERY_WAIT_CLOCKS: f64 = 2650.0;

/// Seconds of a launch.
pub(super) const LAUNCH: f64 = 3e-6;

/// A launch up to this long, in seconds, runs at the device's clock.
pub(super) const BURST: f64 = 1e-4;

/// Share of the clock that is lost to the power limit with each doubling of the time above [`BURST`].
pub(super) const SAG: f64 = 0.0187;

/// The least share of the clock that is left.
pub(super) const SAG_MOST: f64 = 0.8;

/// Share of the softmax's clocks that the products do not hide. Two warpgroups or more hide each other's, and with
/// `within_warpgroup` each its own too: fitted. Ping-pong alone is from FlashAttention-3's ablation (582 of 661
/// TFLOP/s); the others are guesses between it and no overlap at all.
pub(super) fn exposed(schedule: &Schedule) -> f64 {
    let overlap = schedule.overlap;
    let company = schedule.roles.consumer.warpgroups > 1;
    match (overlap.within_warpgroup, overlap.pingpong, company) {
        (true, _, true) if overlap.across_tiles => 0.245 + ACROSS_EXPOSED,
        (true, _, true) => 0.245,
        (false, true, _) => 0.5,
        (true, _, false) => 0.6,
        (false, false, true) => 0.8,
        (false, false, false) => 1.0,
    }
}
