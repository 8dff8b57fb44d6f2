//! One step of a block in clocks of each unit, by the data sheet's rates.

use super::calibration::{
    EIGHT_BIT_SLOTS, LINEAR_SLOTS, MAXIMUM_SLOTS, POLYNOMIAL_SLOTS, RANGE_SLOTS, RESCALE_SLOTS, SLOTS,
    STEP_INSTRUCTIONS, SUM_SLOTS, WGMMA_INSTRUCTIONS,
};
use crate::footprint::row_sum_columns;
use crate::target::{WARPGROUP_THREADS, WGMMA_DEPTH_BYTES};
use crate::{Probabilities, Queries, Rescale, RowSum, Schedule, Target};
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

/// `tensor 2048 clk, exponential 1024 clk (0.50), shared 1280 clk (0.62), issue 880 clk (0.43): tensor bound`; the
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

/// One step of a block: its query rows against one tile of keys, all of which every row sees.
pub fn step(schedule: &Schedule, target: &Target) -> Cost {
    rescaled(schedule, schedule.rescale, target)
}

/// The same with another rule for the rescaling of O: what a schedule falls back to.
pub(super) fn rescaled(schedule: &Schedule, rescale: Rescale, target: &Target) -> Cost {
    let rows = f64::from(schedule.tile.rows);
    let columns = f64::from(schedule.tile.columns);
    let (qk, v) = (f64::from(schedule.head_dim.qk), f64::from(schedule.head_dim.v));
    let warpgroups = f64::from(schedule.roles.consumer.warpgroups);
    let rate = if schedule.element.is_fp8() { target.tensor_flops_8 } else { target.tensor_flops_16 };
    let sums = f64::from(row_sum_columns(schedule));
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
    // A transposed V is read and written once more.
    let transposed = if schedule.transposes_values() { 2.0 * columns * v } else { 0.0 };
    let elements = q + warpgroups * columns * (qk + v + sums) + p + transposed;
    Cost {
        tensor: 2.0 * rows * columns * (qk + v + sums) / rate as f64,
        exponential: (1.0 - linear(schedule) - polynomial(schedule)) * rows * columns / target.exponentials as f64,
        shared: elements * schedule.element.bytes() as f64 / target.shared_bandwidth as f64,
        issue: issue(schedule, rescale) / target.lanes as f64,
    }
}

/// Share of P that is made without the exponential unit.
fn linear(schedule: &Schedule) -> f64 {
    f64::from(schedule.linear_quarters()) / 4.0
}

/// Share of P that is made by a polynomial.
fn polynomial(schedule: &Schedule) -> f64 {
    f64::from(schedule.polynomial_eighths()) / 8.0
}

/// Instructions of all threads in a step.
fn issue(schedule: &Schedule, rescale: Rescale) -> f64 {
    let rows = f64::from(schedule.tile.rows);
    let scores = rows * f64::from(schedule.tile.columns);
    let output = rows * f64::from(schedule.head_dim.v);
    let threads = f64::from(schedule.roles.consumer.warpgroups) * f64::from(WARPGROUP_THREADS);
    let eight = schedule.element.is_fp8();
    let sum = if schedule.row_sum == RowSum::TensorCore { SUM_SLOTS } else { 0.0 };
    let scale = if eight { EIGHT_BIT_SLOTS } else { 0.0 };
    let (maximum, rescaling) = match rescale {
        Rescale::Always => (MAXIMUM_SLOTS, RESCALE_SLOTS),
        Rescale::Above(_) if schedule.goes_by_maxima_at_hand() => (RANGE_SLOTS, 0.0),
        Rescale::Above(_) => (MAXIMUM_SLOTS, 0.0),
        Rescale::OnOverflow => (0.0, 0.0),
    };
    let slots =
        SLOTS - sum + scale + maximum - LINEAR_SLOTS * linear(schedule) + POLYNOMIAL_SLOTS * polynomial(schedule);
    let fixed = STEP_INSTRUCTIONS + WGMMA_INSTRUCTIONS * products(schedule);
    slots * scores + rescaling * output + fixed * threads
}

/// The wgmma of a warpgroup in a step.
fn products(schedule: &Schedule) -> f64 {
    let depth = f64::from(WGMMA_DEPTH_BYTES) / schedule.element.bytes() as f64;
    (f64::from(schedule.head_dim.qk) / depth).ceil() + (f64::from(schedule.tile.columns) / depth).ceil()
}

#[cfg(test)]
mod tests {
    use super::step;
    use crate::HOPPER;
    use crate::feasible::tests::{base, e4m3};
    use crate::{Exponential, Fp8, HeadDim, Queries, Rescale, RowSum, Threshold, Tile, Values};

    #[test]
    fn a_step_of_the_middle_of_the_road() {
        assert_eq!(
            step(&base(), &HOPPER).to_string(),
            "tensor 2048 clk, exponential 1024 clk (0.50), shared 1280 clk (0.62), issue 880 clk (0.43): tensor bound"
        );
    }

    #[test]
    fn a_step_in_eight_bits() {
        let mut schedule = base();
        e4m3(&mut schedule);
        schedule.row_sum = RowSum::TensorCore;
        let cost = step(&schedule, &HOPPER);
        assert_eq!((cost.tensor, cost.exponential, cost.issue), (1056.0, 1024.0, 864.0));
        schedule.fp8 = Some(Fp8 { exponential: Exponential::Linear(2), values: Values::Rows, ..Fp8::default() });
        let rows = step(&schedule, &HOPPER);
        assert_eq!((rows.exponential, rows.issue), (512.0, 800.0));
        assert_eq!(rows.shared - cost.shared, 2.0 * 128.0);
        schedule.fp8 = Some(Fp8 { exponential: Exponential::Polynomial(2), ..Fp8::default() });
        let polynomial = step(&schedule, &HOPPER);
        assert_eq!((polynomial.exponential, polynomial.issue), (768.0, 864.0 + 256.0));
    }

    /// Instructions of a warp between two of a step's products, as the assembler's listings have them.
    #[test]
    fn instructions_are_as_many_as_were_counted() {
        let counted = [(64, 192, 128, 294.0, 408.0), (128, 128, 128, 314.0, 452.0), (256, 128, 80, 262.0, 457.0)];
        for (dim, rows, columns, standing, always) in counted {
            let mut schedule = base();
            (schedule.head_dim, schedule.tile) = (HeadDim::same(dim), Tile { rows, columns });
            schedule.roles.consumer.warpgroups = rows / 64;
            for (rescale, counted) in [(Rescale::OnOverflow, standing), (Rescale::Always, always)] {
                schedule.rescale = rescale;
                let instructions = step(&schedule, &HOPPER).issue / f64::from(schedule.roles.consumer.warpgroups);
                assert!((instructions / counted - 1.0).abs() < 0.11, "d{dim} {rescale}: {instructions}, not {counted}");
            }
        }
        // 192 x 96 in 8 bits, without what only a row beyond P's range runs through.
        let mut schedule = base();
        e4m3(&mut schedule);
        schedule.tile = Tile { rows: 192, columns: 96 };
        schedule.roles.consumer.warpgroups = 3;
        (schedule.row_sum, schedule.rescale) =
            (RowSum::TensorCore, Rescale::Above(Threshold::new(3.8).expect("it is one")));
        let instructions = step(&schedule, &HOPPER).issue / 3.0;
        assert!((instructions / 270.0 - 1.0).abs() < 0.08, "{instructions}");
    }

    #[test]
    fn queries_in_registers_are_not_read_again() {
        let mut schedule = base();
        schedule.queries = Queries::Registers;
        assert_eq!(step(&schedule, &HOPPER).shared, 1024.0);
    }
}
