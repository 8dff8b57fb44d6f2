//! A first-order cost: clocks that each unit of an SM is busy, by the data sheet's rates.
//!
//! For ranking and for explaining, not for prediction: it knows nothing of latency, of instruction issue, or of L2 and
//! memory.

use crate::{Element, Probabilities, Schedule, Target};
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
}

impl Cost {
    /// The busiest unit and its clocks.
    pub fn bound(&self) -> (&'static str, f64) {
        let units = [("tensor", self.tensor), ("exponential", self.exponential), ("shared", self.shared)];
        units.into_iter().fold(("tensor", 0.0), |most, unit| if unit.1 > most.1 { unit } else { most })
    }

    /// This many times the cost.
    fn times(self, count: f64) -> Self {
        Self { tensor: self.tensor * count, exponential: self.exponential * count, shared: self.shared * count }
    }
}

/// `tensor 2048 clk, exponential 1024 clk (0.50), shared 1280 clk (0.62): tensor bound`; the ratios are to the tensor
/// cores.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tensor, exponential, shared } = self;
        write!(
            f,
            "tensor {tensor:.0} clk, exponential {exponential:.0} clk ({:.2}), shared {shared:.0} clk ({:.2}): {} bound",
            exponential / tensor,
            shared / tensor,
            self.bound().0
        )
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
    let p = match schedule.probabilities {
        Probabilities::Registers => 0.0,
        Probabilities::Shared => 2.0 * rows * columns,
    };
    let elements = rows * qk + warpgroups * columns * (qk + v) + p;
    Cost {
        tensor: 2.0 * rows * columns * (qk + v) / rate as f64,
        exponential: rows * columns / target.exponentials as f64,
        shared: elements * schedule.element.bytes() as f64 / target.shared_bandwidth as f64,
    }
}

/// One block's query tile against `keys` keys that it sees: whole steps.
pub fn tile(schedule: &Schedule, target: &Target, keys: u64) -> Cost {
    step(schedule, target).times(keys.div_ceil(u64::from(schedule.tile.columns.max(1))) as f64)
}

#[cfg(test)]
mod tests {
    use super::{step, tile};
    use crate::HOPPER;
    use crate::feasible::tests::base;

    #[test]
    fn a_step_of_the_middle_of_the_road() {
        let cost = step(&base(), &HOPPER);
        assert_eq!(
            cost.to_string(),
            "tensor 2048 clk, exponential 1024 clk (0.50), shared 1280 clk (0.62): tensor bound"
        );
        assert_eq!(tile(&base(), &HOPPER, 129).tensor, 4096.0);
    }
}
