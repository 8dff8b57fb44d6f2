//! The handle of one device: kernels loaded once each, plans made from them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use cudarc::driver::CudaContext;
use runtime::{Device, Kernel, LoadReport, Result};
use schedule::Schedule;

use crate::cache::Cache;
use crate::policy::TuningError;
use crate::{Entry, Lowered, Plan, Problem, Registry, policy};

/// Attention on one device. Cheap to clone; all clones share the loaded kernels. May be used from any thread.
///
/// A kernel is known by its whole text, so that no two that differ in anything are ever mixed up, and loaded once.
/// Kernels stay loaded until the last clone and the last plan are gone; graphs captured with them must not be replayed
/// after that.
#[derive(Clone)]
pub struct Tilewright {
    inner: Arc<Inner>,
    registry: Arc<Registry>,
}

/// Told about loads that took longer than a second.
type SlowLoadHook = Box<dyn Fn(&LoadReport, Option<&str>) + Send + Sync>;

struct Inner {
    device: Device,
    kernels: Cache<Arc<Kernel>>,
    slow_load: OnceLock<SlowLoadHook>,
}

impl Tilewright {
    /// The handle for the device of a context that exists already. Takes a quarter megabyte of device memory.
    ///
    /// # Errors
    /// [`crate::Error::NotHopper`], [`crate::Error::DriverTooOld`], [`crate::Error::OutOfMemory`], the driver's answer.
    pub fn new(context: &Arc<CudaContext>) -> Result<Self> {
        Device::new(context).map(Self::of)
    }

    /// The handle for the device of that number, in its primary context.
    ///
    /// # Errors
    /// [`crate::Error::NoDriver`], [`crate::Error::NoDevice`], and those of [`Tilewright::new`].
    pub fn open(ordinal: usize) -> Result<Self> {
        Device::open(ordinal).map(Self::of)
    }

    fn of(device: Device) -> Self {
        let inner = Inner { device, kernels: Cache::default(), slow_load: OnceLock::new() };
        Self { inner: Arc::new(inner), registry: Registry::shipped().clone() }
    }

    /// The same handle, choosing by a tuning file of the caller's own (`tuned.toml`, as `cargo xtask tune` writes it) before
    /// what is shipped. Shares the loaded kernels.
    ///
    /// # Errors
    /// Those of [`Registry::with_tuning`].
    pub fn with_tuning(&self, text: &str) -> std::result::Result<Self, TuningError> {
        Ok(self.with_registry(self.registry.with_tuning(text)?))
    }

    /// The same handle, choosing from other schedules. Shares the loaded kernels.
    #[must_use]
    pub fn with_registry(&self, registry: Registry) -> Self {
        Self { inner: self.inner.clone(), registry: Arc::new(registry) }
    }

    /// The schedules that plans are chosen from.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// Calls `hook` after every load that took longer than a second, with a note if the driver's compute cache cannot
    /// help the next process. The first hook stays.
    pub fn on_slow_load(&self, hook: impl Fn(&LoadReport, Option<&str>) + Send + Sync + 'static) {
        // A second hook is dropped, as documented.
        let _ = self.inner.slow_load.set(Box::new(hook));
    }

    /// Chooses a schedule of the registry for the problem. Nothing is loaded yet: the first run does that, or
    /// [`Tilewright::warm_up`].
    ///
    /// # Errors
    /// [`crate::Error::HeadDim`], [`crate::Error::NoSchedule`].
    pub fn plan(&self, problem: &Problem) -> Result<Plan> {
        let chosen = policy::choose(&self.registry, problem, self.device().sms())?;
        Plan::new(self.clone(), *problem, chosen, false)
    }

    /// Plans with a schedule of the caller's own.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] if the schedule cannot be lowered or does not compute this problem.
    pub fn plan_with_schedule(&self, problem: &Problem, schedule: &Schedule) -> Result<Plan> {
        self.plan_with_entry(problem, &Arc::new(Entry::new(schedule.clone())))
    }

    /// Plans with a schedule of the caller's own that stays lowered between plans.
    ///
    /// # Errors
    /// Those of [`Tilewright::plan_with_schedule`].
    pub fn plan_with_entry(&self, problem: &Problem, entry: &Arc<Entry>) -> Result<Plan> {
        entry.lowered()?;
        let schedule = entry.schedule();
        policy::eligible(schedule, problem).map_err(|why| crate::Error::Refused {
            schedule: schedule.name.clone(),
            reason: format!("it {why}, the problem is {problem}"),
        })?;
        Plan::new(self.clone(), *problem, entry.clone(), true)
    }

    /// Plans and loads, so that the first run is as fast as the others and may be recorded by a stream capture.
    ///
    /// # Errors
    /// Those of [`Tilewright::plan`], and of loading: [`crate::Error::Jit`], [`crate::Error::Spilled`],
    /// [`crate::Error::DriverTooOld`].
    pub fn warm_up(&self, problem: &Problem) -> Result<Plan> {
        let plan = self.plan(problem)?;
        plan.warm_up()?;
        Ok(plan)
    }

    /// Makes room for this many launches that stream captures are going to record. About two thousand are free at any
    /// time.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`], the driver's answer.
    pub fn reserve_counters(&self, launches: usize) -> Result<()> {
        self.device().counters().reserve(launches)
    }

    /// How every kernel was loaded so far.
    pub fn loads(&self) -> Vec<LoadReport> {
        self.inner.kernels.all().iter().map(|kernel| kernel.report().clone()).collect()
    }

    /// The kernel, loaded now if it is not yet.
    pub(crate) fn kernel(&self, lowered: &Arc<Lowered>) -> Result<Arc<Kernel>> {
        let load = || Kernel::load(self.device(), lowered.verified()).map(Arc::new);
        let (kernel, now) = self.inner.kernels.get_or_load(lowered, load)?;
        if let (true, Some(hook)) = (now && kernel.report().is_slow(), self.inner.slow_load.get()) {
            hook(kernel.report(), runtime::compute_cache_note().as_deref());
        }
        Ok(kernel)
    }

    /// The kernel if it is loaded.
    pub(crate) fn loaded(&self, lowered: &Arc<Lowered>) -> Option<Arc<Kernel>> {
        self.inner.kernels.get(lowered)
    }
}

impl fmt::Debug for Tilewright {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tilewright").field("device", self.device()).finish_non_exhaustive()
    }
}
