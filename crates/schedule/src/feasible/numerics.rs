//! Numerics: thresholds that the element type can carry, and sizes that text can name.

use super::{Field, Findings};
use crate::{Order, Rescale, Schedule};

/// Largest rescale threshold for 16-bit P, in base-2 exponent units: P stays below 2^8 and its row sums exact enough in
/// f32.
const THRESHOLD_16: f32 = 8.0;

/// The same for 8-bit P, which is e4m3: above it, what the offset leaves of its 17 binades is less than 13.
const THRESHOLD_8: f32 = 4.0;

pub(super) fn check(schedule: &Schedule, findings: &mut Findings) {
    if let Rescale::Above(threshold) = schedule.rescale {
        let (most, why) = match schedule.element.is_fp8() {
            true => (THRESHOLD_8, "P is e4m3, which ends at 448 = 2^8.8, and the threshold is taken off its range"),
            false => (THRESHOLD_16, "P and its sums grow by 2 to this power"),
        };
        if threshold.get() > most {
            findings.push(
                Field::Rescale,
                format_args!("above({threshold}) is more than {most:?} for {}: {why}", schedule.element),
            );
        }
    }
    if schedule.rescale == Rescale::OnOverflow && schedule.element.is_fp8() {
        findings.push(
            Field::Rescale,
            "on_overflow needs P to overflow to infinity, and 8-bit P is e4m3, which has none: it saturates at 448",
        );
    }
    if let Order::LongestFirst { l2_bytes, .. } = schedule.grid.order {
        if l2_bytes == 0 {
            findings.push(Field::Order, "a section of 0 bytes of L2 holds no head");
        } else if !l2_bytes.is_multiple_of(1024) {
            findings.push(Field::Order, format_args!("{l2_bytes} bytes of L2 is not a whole number of KiB"));
        }
    }
}
