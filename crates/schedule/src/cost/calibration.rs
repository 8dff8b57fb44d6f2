//! What cannot be had from a data sheet: counted in the instructions of assembled kernels, fitted to forward kernels
//! measured on an H200, or taken from an ablation.
//!
//! Counted are the constants of [`super::step`]: kernels of 64 scores a thread and step differ from the formula by less
//! than 5 %, those of head dimension 256 by less than 11 %. Fitted are the others, to 16-bit kernels alone: what they say of 8
//! bits follows from the same terms and was not held against a table.

use crate::{Rescale, Schedule};

/// Instructions of a score element: multiply-add, exponential, sum, half a conversion.
pub(super) const SLOTS: f64 = 3.5;

/// Of them, for the sum.
pub(super) const SUM_SLOTS: f64 = 1.0;

/// Instructions for the maximum of a row, a score element.
pub(super) const MAXIMUM_SLOTS: f64 = 1.0;

/// Instructions for the rescaling of O, an element of O.
pub(super) const RESCALE_SLOTS: f64 = 1.0;

/// Instructions that a mask adds, a score element: a comparison and a selection.
pub(super) const MASK_SLOTS: f64 = 2.1;

/// Instructions that 8 bits add, a score element: the scale, the reference that is subtracted apart from it, bytes brought
/// together.
pub(super) const EIGHT_BIT_SLOTS: f64 = 1.25;

/// Instructions of a score element in 8 bits for a maximum that is compared with the range of P alone: three at once.
pub(super) const RANGE_SLOTS: f64 = 0.5;

/// Instructions fewer where P is linear between powers of two.
pub(super) const LINEAR_SLOTS: f64 = 1.0;

/// Instructions more where a polynomial makes P.
pub(super) const POLYNOMIAL_SLOTS: f64 = 8.0;

/// Instructions of a warp in a step: barriers, turns, the ring's places.
pub(super) const STEP_INSTRUCTIONS: f64 = 40.0;

/// Instructions of a warp for a wgmma: itself and its descriptors.
pub(super) const WGMMA_INSTRUCTIONS: f64 = 3.0;

/// How well units hide each other where all overlap: clocks of a step are the p-norm of theirs for this p. One hides
/// nothing, infinity everything; what is between comes of queues, which are long where two units are equally busy.
pub(super) const HIDING: f64 = 3.3;

/// Clocks of a step that nothing hides: barriers, turns, a product's latency.
pub(super) const STEP_CLOCKS: f64 = 80.0;

/// Clocks of a step in which the second product waits for a row's maximum: a reduction over a quad, and O rescaled.
pub(super) const MAXIMUM_CLOCKS: f64 = 245.0;

/// Further ones with `across_tiles`, whose registers are fuller.
pub(super) const ACROSS_MAXIMUM_CLOCKS: f64 = 180.0;

/// Clocks of a tile's beginning and end: coordinates, the first loads and products, the row sums.
pub(super) const TILE_CLOCKS: f64 = 860.0;

/// Clocks of a tile's end for each byte-wide row piece that is stored: 128 threads take a row element each.
pub(super) const STORE_CLOCKS: f64 = 15.0;

/// Share of a tile's beginning and end that is left where the next tile's scores run beside it.
pub(super) const ACROSS_LEFT: f64 = 0.72;

/// Clocks of leaving a share and asking whether it is the last one: a fence, an atomic and two barriers. A guess.
pub(super) const JOIN_CLOCKS: f64 = 2500.0;

/// Bytes a clock at which a block reads the shares of a query tile back from L2. A guess.
pub(super) const JOIN_BYTES: f64 = 40.0;

/// Clocks of a tile's verdict whether it overflowed, and of its first block, whose maximum the others take over.
pub(super) const VERDICT_CLOCKS: f64 = 1780.0;

/// Clocks that a tile waits for its queries where they have one stage in shared memory and are read there to the end. A
/// verdict runs beside it.
pub(super) const QUERY_WAIT_CLOCKS: f64 = 3170.0;

/// Seconds of a launch.
pub(super) const LAUNCH: f64 = 5e-6;

/// A launch up to this long, in seconds, runs at the device's clock.
pub(super) const BURST: f64 = 1e-4;

/// Share of the clock that is lost to the power limit with each doubling of the time above [`BURST`].
pub(super) const SAG: f64 = 0.027;

/// The least share of the clock that is left.
pub(super) const SAG_MOST: f64 = 0.8;

/// Share of the clock that the power limit leaves to 8-bit products beside 16-bit ones: a large matrix product has 1.83
/// of its bf16 rate, with tensor cores of twice the rate.
pub(super) const EIGHT_BIT_CLOCK: f64 = 0.915;

/// Share of what the units could hide of each other that they do not. Two warpgroups or more hide each other's work, and
/// with `within_warpgroup` each its own too. Ping-pong alone is from FlashAttention-3's ablation (582 of 661 TFLOP/s); the
/// others are guesses between it and no overlap at all.
pub(super) fn exposed(schedule: &Schedule) -> f64 {
    let overlap = schedule.overlap;
    let company = schedule.roles.consumer.warpgroups > 1;
    match (overlap.within_warpgroup, overlap.pingpong, company) {
        (true, _, true) => 0.0,
        (false, true, _) => 0.18,
        (true, _, false) => 0.4,
        (false, false, true) => 0.6,
        (false, false, false) => 1.0,
    }
}

/// Clocks that a step waits for the maximum of its own scores. In 8 bits a threshold leaves a comparison, which most rows
/// pass.
pub(super) fn maximum_wait(schedule: &Schedule, rescale: Rescale) -> f64 {
    let across = if schedule.overlap.across_tiles { ACROSS_MAXIMUM_CLOCKS } else { 0.0 };
    match rescale {
        Rescale::OnOverflow => 0.0,
        Rescale::Above(_) if schedule.element.is_fp8() => 0.0,
        Rescale::Above(_) | Rescale::Always => MAXIMUM_CLOCKS + across,
    }
}
