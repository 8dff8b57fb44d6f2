//! The schedules that can be chosen from, each lowered and proven at its first use.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use check::Verified;
use ptx::Proven;
use runtime::{Error, Result};
use schedule::{HOPPER, Quantize, Schedule, feasible};

use crate::policy::{Tuning, TuningError};
use crate::{Problem, abi, policy};

pub mod derived;

/// A schedule's kernel: proven, and its text, which is what kernels are told apart by.
#[derive(Debug)]
pub struct Lowered {
    verified: Verified,
    text: String,
    fingerprint: u64,
}

impl Lowered {
    /// What can be loaded.
    pub fn verified(&self) -> &Verified {
        &self.verified
    }

    /// The kernel.
    pub fn kernel(&self) -> &ptx::Kernel {
        &self.verified.module().kernel
    }

    /// The whole PTX.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A hash of the whole PTX.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

/// A schedule of the registry.
#[derive(Debug)]
pub struct Entry {
    schedule: Schedule,
    lowered: OnceLock<Result<Arc<Lowered>>>,
}

impl Entry {
    /// Any schedule, not lowered yet.
    pub fn new(schedule: Schedule) -> Self {
        Self { schedule, lowered: OnceLock::new() }
    }

    /// The schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Why it makes no kernel, if that was tried and found.
    pub fn refusal(&self) -> Option<&Error> {
        self.lowered.get()?.as_ref().err()
    }

    /// Its kernel, lowered and proven once.
    ///
    /// # Errors
    /// [`Error::Refused`] with the option, the limit or the rule.
    pub fn lowered(&self) -> Result<&Arc<Lowered>> {
        self.lowered.get_or_init(|| lower(&self.schedule).map(Arc::new)).as_ref().map_err(Clone::clone)
    }
}

/// Limits, lowering, proof and the launch contract, in that order.
fn lower(schedule: &Schedule) -> Result<Lowered> {
    let refused = |reason: String| Error::Refused { schedule: schedule.name.clone(), reason };
    let impossible = feasible::check(schedule, &HOPPER);
    if !impossible.is_empty() {
        return Err(refused(lines(impossible.iter().map(ToString::to_string))));
    }
    let module = kernels::lower(schedule).map_err(|why| refused(why.to_string()))?;
    abi::forward::check(&module.kernel).map_err(refused)?;
    prove(module)
}

/// The quantizer's kernel: lowered, held against the launch contract and proven.
///
/// # Errors
/// [`Error::Refused`] with the option, the limit or the rule.
fn lower_quantize(quantize: &Quantize) -> Result<Lowered> {
    let refused = |reason: String| Error::Refused { schedule: quantize.name.clone(), reason };
    let module = kernels::lower_quantize(quantize).map_err(|why| refused(why.to_string()))?;
    abi::quantize::check(&module.kernel).map_err(refused)?;
    prove(module)
}

/// The quantizer's kernel, lowered once for the process.
///
/// # Errors
/// Those of [`lower_quantize`].
pub(crate) fn lowered_quantizer(quantize: &Quantize) -> Result<Arc<Lowered>> {
    type Slot = Arc<OnceLock<Result<Arc<Lowered>>>>;
    static LOWERED: LazyLock<Mutex<HashMap<Quantize, Slot>>> = LazyLock::new(Mutex::default);
    let slot = {
        let mut all = LOWERED.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(quantize.clone()).or_default().clone()
    };
    slot.get_or_init(|| lower_quantize(quantize).map(Arc::new)).clone()
}

/// Proof and text.
fn prove(module: ptx::Module) -> Result<Lowered> {
    let schedule = module.kernel.name.clone();
    let verified = check::verify(module).map_err(|findings| Error::Refused {
        schedule,
        reason: lines(findings.iter().map(|finding| {
            let line = finding.line.map(|line| format!(" line {line}")).unwrap_or_default();
            format!("{}{line}: {}", finding.rule, finding.message)
        })),
    })?;
    let text = ptx::print(&verified);
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    Ok(Lowered { verified, text, fingerprint: hasher.finish() })
}

/// Schedules not lowered yet.
fn entries(schedules: Vec<Schedule>) -> Vec<Arc<Entry>> {
    schedules.into_iter().map(|schedule| Arc::new(Entry::new(schedule))).collect()
}

/// One under the other.
fn lines(each: impl Iterator<Item = String>) -> String {
    each.fold(String::new(), |mut all, line| {
        if !all.is_empty() {
            all.push('\n');
        }
        let _ = write!(all, "{line}");
        all
    })
}

/// Schedules in their author's order of preference, and what was measured of them. Clones share what is lowered.
#[derive(Debug, Clone)]
pub struct Registry {
    entries: Vec<Arc<Entry>>,
    /// What follows from them.
    derived: Vec<Arc<Entry>>,
    tuning: Tuning,
}

impl Registry {
    /// Of any schedules, with nothing measured.
    pub fn new(schedules: Vec<Schedule>) -> Self {
        Self { entries: entries(schedules), derived: Vec::new(), tuning: Tuning::default() }
    }

    /// The same with the schedules that follow from those of 8-bit elements: see [`derived`].
    #[must_use]
    pub fn with_derived(mut self) -> Self {
        let schedules: Vec<&Schedule> = self.entries.iter().map(|entry| entry.schedule()).collect();
        self.derived = entries(derived::from(&schedules));
        self
    }

    /// The schedules that come with this crate, twins of them for small problems, and their tuning. One for the process, so that each is lowered once.
    pub fn shipped() -> &'static Arc<Self> {
        static SHIPPED: LazyLock<Arc<Registry>> = LazyLock::new(|| {
            let registry = Registry::new(policy::split::with_twins(templates::all())).with_derived();
            // A test holds that the shipped text reads; were it broken, estimates would do.
            Arc::new(registry.with_tuning(templates::TUNED).unwrap_or(registry))
        });
        &SHIPPED
    }

    /// The same schedules, with the entries of a tuning file (`tuned.toml`, as `cargo xtask tune` writes it) before those
    /// that are there.
    ///
    /// # Errors
    /// A text that does not read, an entry whose value means nothing, and one whose schedule is not in the registry.
    pub fn with_tuning(&self, text: &str) -> std::result::Result<Self, TuningError> {
        let tuning = Tuning::parse(text)?;
        tuning.check(self.entries.iter().chain(&self.derived).map(|entry| entry.schedule()))?;
        Ok(Self { tuning: tuning.before(&self.tuning), ..self.clone() })
    }

    /// The same with more schedules behind those that are there; a tuning can prefer them.
    #[must_use]
    pub fn with_schedules(&self, schedules: Vec<Schedule>) -> Self {
        let mut all = self.clone();
        all.entries.extend(entries(schedules));
        all
    }

    /// What was measured.
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Its entries in order.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// What follows from its entries, in order, behind them.
    pub fn derived(&self) -> &[Arc<Entry>] {
        &self.derived
    }

    /// What a problem's schedule is chosen from, in order: of what is derived, only that of its elements.
    pub(crate) fn candidates(&self, problem: &Problem) -> impl Iterator<Item = &Arc<Entry>> {
        let (element, head_dim) = (problem.element(), problem.head_dim());
        let alike =
            move |entry: &&Arc<Entry>| entry.schedule().element == element && entry.schedule().head_dim == head_dim;
        self.entries.iter().chain(self.derived.iter().filter(alike))
    }

    /// The entry of that name.
    pub fn named(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.iter().chain(&self.derived).find(|entry| entry.schedule.name == name)
    }
}
