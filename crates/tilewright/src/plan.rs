//! A problem with its schedule on a device, ready to be run any number of times.

use std::sync::{Arc, OnceLock};

use runtime::{CUstream, Error, Kernel, LoadReport, Result, is_capturing};
use schedule::Schedule;
use schedule::cost::Prediction;

use crate::abi::forward::{self, Scalars};
use crate::policy::{self, Explanation, split};
use crate::{Entry, Lowered, Problem, ScaleBy, Tilewright};

/// How one problem is computed on one device. May be used from any thread.
#[derive(Debug)]
pub struct Plan {
    engine: Tilewright,
    problem: Problem,
    entry: Arc<Entry>,
    given: bool,
    lowered: Arc<Lowered>,
    scalars: Scalars,
    /// The address of a 1 in device memory; null where every tensor has its scales.
    one: u64,
    kernel: OnceLock<Arc<Kernel>>,
}

impl Plan {
    pub(crate) fn new(engine: Tilewright, problem: Problem, entry: Arc<Entry>, given: bool) -> Result<Self> {
        let lowered = entry.lowered()?.clone();
        let shares = split::shares(entry.schedule(), &problem, engine.device().sms());
        let scalars = forward::scalars(&problem, entry.schedule())?.split(shares);
        let unscaled = problem.scale_grids().iter().flatten().any(|grid| grid.by == ScaleBy::One);
        let one = if unscaled { engine.device().one()? } else { 0 };
        Ok(Self { engine, problem, entry, given, lowered, scalars, one, kernel: OnceLock::new() })
    }

    /// A plan with a schedule of the caller's own.
    ///
    /// # Errors
    /// Those of [`Tilewright::plan_with_schedule`].
    pub fn with_schedule(engine: &Tilewright, problem: &Problem, schedule: &Schedule) -> Result<Self> {
        engine.plan_with_schedule(problem, schedule)
    }

    /// The problem.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The schedule that computes it.
    pub fn schedule(&self) -> &Schedule {
        self.entry.schedule()
    }

    /// The PTX that computes it.
    pub fn lowered(&self) -> &Lowered {
        &self.lowered
    }

    /// The handle that made it.
    pub fn engine(&self) -> &Tilewright {
        &self.engine
    }

    /// The numbers that the kernel is launched with.
    pub fn scalars(&self) -> &Scalars {
        &self.scalars
    }

    /// Bytes of device memory that a launch leaves parts of O in, beside its tensors: not 0 only where several blocks share
    /// each query tile. [`Plan::run`] and [`Plan::run_raw`] take them from a pool, in the stream's order.
    pub fn workspace_bytes(&self) -> u64 {
        forward::workspace_bytes(self.schedule(), &self.scalars)
    }

    /// Bytes of the counters of a launch.
    pub(crate) fn counter_bytes(&self) -> u64 {
        forward::counter_bytes(self.schedule(), &self.scalars)
    }

    /// Blocks of a launch.
    pub fn grid(&self) -> [u32; 3] {
        forward::grid(&self.scalars, self.engine.device().sms())
    }

    /// Loads the kernel if no plan of the device did yet: half a second where the driver's compute cache does not have
    /// it.
    ///
    /// # Errors
    /// [`Error::Jit`], [`Error::Spilled`], [`Error::Serialized`], [`Error::DriverTooOld`], the driver's answer.
    pub fn warm_up(&self) -> Result<LoadReport> {
        self.loaded().map(|kernel| kernel.report().clone())
    }

    /// What was chosen and why, and what was not and why.
    pub fn explain(&self) -> Explanation<'_> {
        Explanation {
            registry: self.engine.registry(),
            problem: &self.problem,
            chosen: &self.entry,
            sms: self.engine.device().sms(),
            given: self.given,
            report: self.kernel.get().map(|kernel| kernel.report()),
        }
    }

    /// What tensors without scales have for one.
    pub(crate) fn one(&self) -> u64 {
        self.one
    }

    /// What a launch is predicted to take, on an H200 with as many SMs as the device.
    pub fn estimate(&self) -> Prediction {
        policy::estimate(self.schedule(), &self.problem, self.engine.device().sms())
    }

    /// The kernel, loaded now if need be.
    pub(crate) fn loaded(&self) -> Result<&Arc<Kernel>> {
        if let Some(kernel) = self.kernel.get() {
            return Ok(kernel);
        }
        let kernel = self.engine.kernel(&self.lowered)?;
        Ok(self.kernel.get_or_init(|| kernel))
    }

    /// The kernel for work on the stream: loaded now if need be, unless the stream records.
    ///
    /// # Errors
    /// [`Error::CaptureCold`], and those of [`Plan::warm_up`].
    ///
    /// # Safety
    /// The stream must be alive and its context current.
    pub(crate) unsafe fn loaded_for(&self, stream: CUstream) -> Result<&Arc<Kernel>> {
        if self.kernel.get().is_none() && self.engine.loaded(&self.lowered).is_none() {
            // SAFETY: the caller vouches for the stream and its context.
            if unsafe { is_capturing(stream) }? {
                return Err(Error::CaptureCold { kernel: self.schedule().name.clone() });
            }
        }
        self.loaded()
    }
}
