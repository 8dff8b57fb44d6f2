//! What only 8-bit elements have, and what it asks of the other fields.

use super::{Field, Findings};
use crate::{Accumulate, Exponential, Probabilities, RowSum, Schedule, Values};

/// Quarters of P that may be linear, and eighths that polynomials may make.
const PARTS: std::ops::RangeInclusive<u32> = 1..=4;

/// Columns of V that the transposition of a tile moves together: two warps of 16 each.
const TRANSPOSED_COLUMNS: u32 = 32;

pub(super) fn check(schedule: &Schedule, findings: &mut Findings) {
    let element = schedule.element;
    let Some(fp8) = schedule.fp8 else {
        if element.is_fp8() {
            findings.push(Field::Element, format_args!("{element} needs an output type, scales and an order of V"));
        }
        return;
    };
    if !element.is_fp8() {
        findings.push(
            Field::Element,
            format_args!(
                "{element} has no output, scales, values, accumulate or exponential: they are of 8-bit elements"
            ),
        );
        return;
    }
    if let Accumulate::Every(tiles) = fp8.accumulate
        && !tiles.is_power_of_two()
    {
        findings.push(
            Field::Accumulate,
            format_args!("every({tiles}): which key tile adds up is read off its first key, for powers of two"),
        );
    }
    exponential(schedule, fp8.exponential, findings);
    let v = schedule.head_dim.v;
    if fp8.values == Values::Rows && !v.is_multiple_of(TRANSPOSED_COLUMNS) {
        findings.push(
            Field::HeadDimV,
            format_args!(
                "{v} is not a multiple of {TRANSPOSED_COLUMNS}, the columns that values: rows transposes together"
            ),
        );
    }
}

fn exponential(schedule: &Schedule, exponential: Exponential, findings: &mut Findings) {
    let (number, parts) = match exponential {
        Exponential::Unit => return,
        Exponential::Linear(quarters) => (quarters, "quarters"),
        Exponential::Polynomial(eighths) => (eighths, "eighths"),
    };
    if !PARTS.contains(&number) {
        findings.push(
            Field::Exponential,
            format_args!("{number} {parts} of P are not from {} to {}", PARTS.start(), PARTS.end()),
        );
    }
    let linear = !exponential.is_exact();
    if linear && schedule.row_sum == RowSum::Threads {
        findings.push(
            Field::Exponential,
            "linear makes bytes and no floats that threads could sum; it needs row_sum: tensor_core",
        );
    }
    if linear && schedule.probabilities == Probabilities::Shared {
        findings.push(Field::Exponential, "linear makes P in registers; it needs probabilities: registers");
    }
    if !linear && !schedule.goes_by_maxima_at_hand() {
        findings.push(
            Field::Exponential,
            "polynomial is for blocks that go by the maxima at hand; it needs rescale: above and overlap: within_warpgroup",
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::feasible::Field;
    use crate::feasible::tests::{above, base, e4m3, fails_on, passes};
    use crate::{Accumulate, Exponential, Fp8, HeadDim, Probabilities, Rescale, RowSum, Schedule, Values};

    /// 128 x 128 in e4m3 with sums by the tensor cores.
    fn eight() -> Schedule {
        let mut schedule = base();
        e4m3(&mut schedule);
        schedule.row_sum = RowSum::TensorCore;
        schedule
    }

    fn with(change: impl FnMut(&mut Fp8)) -> impl FnOnce(&mut Schedule) {
        |schedule| schedule.fp8.iter_mut().for_each(change)
    }

    #[test]
    fn elements_have_what_is_theirs() {
        fails_on(Field::Element, eight(), |s| s.fp8 = None);
        fails_on(Field::Element, base(), |s| s.fp8 = Some(Fp8::default()));
    }

    #[test]
    fn polynomials_are_for_blocks_that_go_by_the_maxima_at_hand() {
        let polynomial = |eighths| with(move |fp8| fp8.exponential = Exponential::Polynomial(eighths));
        let mut schedule = eight();
        (schedule.rescale, schedule.overlap.within_warpgroup) = (above(3.8), true);
        polynomial(1)(&mut schedule);
        passes(&schedule);
        fails_on(Field::Exponential, schedule.clone(), |s| s.rescale = Rescale::Always);
        fails_on(Field::Exponential, schedule.clone(), |s| s.overlap.within_warpgroup = false);
        fails_on(Field::Exponential, schedule.clone(), polynomial(0));
        fails_on(Field::Exponential, schedule, polynomial(5));
    }

    #[test]
    fn linear_makes_bytes() {
        let linear = |quarters| with(move |fp8| fp8.exponential = Exponential::Linear(quarters));
        let mut schedule = eight();
        linear(4)(&mut schedule);
        passes(&schedule);
        fails_on(Field::Exponential, schedule.clone(), |s| s.row_sum = RowSum::Threads);
        fails_on(Field::Exponential, schedule, |s| s.probabilities = Probabilities::Shared);
        fails_on(Field::Exponential, eight(), linear(0));
        fails_on(Field::Exponential, eight(), linear(5));
    }

    #[test]
    fn partial_sums_are_added_and_counted() {
        let every = |tiles| with(move |fp8| fp8.accumulate = Accumulate::Every(tiles));
        let mut schedule = eight();
        schedule.tile.columns = 96;
        every(1)(&mut schedule);
        passes(&schedule);
        fails_on(Field::Accumulate, schedule.clone(), every(0));
        // Of 128 columns, registers would have to hold S 64 + P 16 + O 68 + partial O 68 + working 28 = 244: the total goes
        // to shared memory, where it is counted.
        schedule.tile.columns = 128;
        passes(&schedule);
        let message = fails_on(Field::StagesKv, schedule, |s| s.stages.kv = 3);
        assert!(message.contains("+ sums 69 +"), "{message}");
    }

    #[test]
    fn every_warp_transposes() {
        let rows = || with(|fp8| fp8.values = Values::Rows);
        let message = fails_on(Field::ProducerWarps, eight(), rows());
        assert!(message.contains("1 is not 4"), "{message}");
        let mut schedule = eight();
        schedule.roles.producer.warps = 4;
        rows()(&mut schedule);
        passes(&schedule);
        fails_on(Field::HeadDimV, schedule, |s| s.head_dim = HeadDim { qk: 128, v: 112 });
    }
}
