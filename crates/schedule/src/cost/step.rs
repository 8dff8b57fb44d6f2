//! One step of a block in clocks of each unit, by the data sheet's rates.

use super::calibration::{SLOTS, STANDING_SLOTS};
use crate::{Element, Probabilities, Queries, Rescale, Schedule, Target};
use std::fmt;

/// Clocks of one SM, by unit. The units run beside each other, so the largest is a lower bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Of the tensor cores, over both products.
    pub tensor: f64,
    /// Of the exponential unit.
    pub exponential: f64,
    /// Of shared memory, for the operands of wgmma and a shared P; what TMA writes is left out.
    pub shared: f64,
    /// Of the issue of instructions, 128 threads a clock.
    pub issue: f64,
}

impl Cost {
    /// The busiest unit and its clocks.
    pub fn bound(&self) -> (&'static str, f64) {
        let units = [
            ("tensor", self.tensor),
            ("exponential", self.exponential),
            ("shared", self.shared),
            ("issue", self.issue),
        ];
        units.into_iter().fold(("tensor", 0.0), |most, unit| if unit.1 > most.1 { unit } else { most })
    }

    /// This many times the cost.
    pub(super) fn times(self, count: f64) -> Self {
        Self {
            tensor: self.tensor * count,
            exponential: self.exponential * count,
            shared: self.shared * count,
            issue: self.issue * count,
        }
    }
}

/// `tensor 2048 clk, exponential 1024 clk (0.50), shared 1280 clk (0.62), issue 576 clk (0.28): tensor bound`; the
/// ratios are to the tensor cores.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tensor, exponential, shared, issue } = self;
        write!(f, "tensor {tensor:.0} clk")?;
        for (unit, clocks) in [("exponential", exponential), ("shared", shared), ("issue", issue)] {
            write!(f, ", {unit} {clocks:.0} clk ({:.2})", clocks / tensor)?;
        }
        write!(f, ": {} bound", self.bound().0)
    }
}

/// One step of a block: its query rows against one tile of keys.
pub fn step(schedule: &Schedule, target: &Target) -> Cost {
    let rows = f64::from(schedule.tile.rows);
    let columns = f64::from(schedule.tile.columns);
    let (qk, v) = (f64::from(schedule.head_dim.qk), f64::from(schedule.head_dim.v));
    let warpgroups = f64::from(schedule.roles.consumer.warpgroups);
    let rate = match schedule.element {
        Element::Bf16 | Element::F16 => target.tensor_flops_16,
        Element::E4m3 => target.tensor_flops_8,
    };
    // A is read once in all, since each warpgroup reads its own rows; B once by every warpgroup. A shared P is also
    // written.
    let q = match schedule.queries {
        Queries::Shared => rows * qk,
        Queries::Registers => 0.0,
    };
    let p = match schedule.probabilities {
        Probabilities::Registers => 0.0,
        Probabilities::Shared => 2.0 * rows * columns,
    };
    let elements = q + warpgroups * columns * (qk + v) + p;
    let slots = if schedule.rescale == Rescale::OnOverflow { STANDING_SLOTS } else { SLOTS };
    Cost {
        tensor: 2.0 * rows * columns * (qk + v) / rate as f64,
        exponential: rows * columns / target.exponentials as f64,
        shared: elements * schedule.element.bytes() as f64 / target.shared_bandwidth as f64,
        issue: slots * rows * columns / target.lanes as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::step;
    use crate::HOPPER;
    use crate::Queries;
    use crate::feasible::tests::base;

    #[test]
    fn a_step_of_the_middle_of_the_road() {
        assert_eq!(
            step(&base(), &HOPPER).to_string(),
            "tensor 2048 clk, exponential 1024 clk (0.50), shared 1280 clk (0.62), issue 576 clk (0.28): tensor bound"
        );
    }

    #[test]
    fn queries_in_registers_are_not_read_again() {
        let mut schedule = base();
        schedule.queries = Queries::Registers;
        assert_eq!(step(&schedule, &HOPPER).shared, 1024.0);
    }
}
