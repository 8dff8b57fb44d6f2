//! What several blocks that share a query tile ask of the other fields.

use super::{Field, Findings};
use crate::{Rescale, Schedule};

pub(super) fn check(schedule: &Schedule, findings: &mut Findings) {
    if !schedule.splits() {
        return;
    }
    if schedule.overlap.across_tiles {
        findings.push(
            Field::Split,
            "the last block puts the shares together in the registers of S, which across_tiles fills with the next tile's",
        );
    }
    if schedule.rescale == Rescale::OnOverflow {
        findings.push(
            Field::Split,
            "a share of an overflowed tile would be put together with others before it is done again; it needs rescale: \
             always or above",
        );
    }
    if schedule.element.is_fp8() {
        findings.push(
            Field::Split,
            format_args!("it is of 16-bit elements: blocks of {} may have scales of their own", schedule.element),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::feasible::Field;
    use crate::feasible::tests::{base, e4m3, fails_on, passes};
    use crate::{Rescale, Schedule, Split};

    fn split() -> Schedule {
        Schedule { split: Split::Keys, ..base() }
    }

    #[test]
    fn shares_are_put_together_alone_and_once() {
        passes(&split());
        let message = fails_on(Field::Split, split(), |s| {
            s.tile.columns = 96;
            s.overlap.across_tiles = true;
        });
        assert!(message.contains("across_tiles"), "{message}");
        let message = fails_on(Field::Split, split(), |s| s.rescale = Rescale::OnOverflow);
        assert!(message.contains("rescale: always"), "{message}");
        let message = fails_on(Field::Split, split(), e4m3);
        assert!(message.contains("16-bit"), "{message}");
    }
}
