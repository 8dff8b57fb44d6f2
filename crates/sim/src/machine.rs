//! The machine: a grid of CTAs, some of them at a time, over one global memory; and the shrinking of a run that fails.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;

use check::Verified;
use ptx::{Kernel, Proven};

use crate::adversary::{Adversary, Policy, Question};
use crate::cta::{Cta, Turn};
use crate::exec::{Sums, World};
use crate::finding::{Finding, Kind};
use crate::launch::{Launch, Unrunnable};
use crate::program::{Program, decode};
use crate::trace::Trace;

/// How a kernel is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Everything that the memory model leaves open follows from it.
    pub seed: u64,
    /// How operations are timed and warps interleaved.
    pub policy: Policy,
    /// CTAs that run at the same time; the others start as those end.
    pub resident: usize,
    /// How products of 8-bit elements are added up.
    pub sums: Sums,
    /// Whether to keep a timeline.
    pub trace: bool,
    /// Instructions, each of a warp, after which a CTA is taken to have no end.
    pub limit: u64,
    /// Runs that the shrinking of a failure may take.
    pub shrink: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 0,
            policy: Policy::Random,
            resident: 4,
            sums: Sums::Single,
            trace: false,
            limit: 20_000_000,
            shrink: 100,
        }
    }
}

impl Options {
    /// The usual options with another seed.
    pub fn seeded(seed: u64) -> Options {
        Options { seed, ..Options::default() }
    }
}

/// What a run gave.
#[derive(Debug)]
pub struct Report {
    buffers: Vec<(String, Vec<u8>)>,
    /// Instructions, each of a warp.
    pub instructions: u64,
    /// The timeline; empty unless asked for.
    pub trace: Trace,
}

impl Report {
    /// The bytes of a buffer after the run.
    pub fn buffer(&self, name: &str) -> Option<&[u8]> {
        self.buffers.iter().find(|(n, _)| n == name).map(|(_, bytes)| &bytes[..])
    }

    /// A buffer as singles.
    pub fn singles(&self, name: &str) -> Option<Vec<f32>> {
        let bytes = self.buffer(name)?;
        Some(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }
}

/// A run with a finding, and the plainest run that has the same kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The finding of the plainest run.
    pub finding: Finding,
    /// The seed that led to it.
    pub seed: u64,
    /// The policy.
    pub policy: Policy,
    /// Questions that the plainest run answers otherwise than plainly: number and answer.
    pub deviations: Vec<(u64, u32)>,
    /// How many they were before shrinking.
    pub before: usize,
}

/// Why a run has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// It could not start.
    Unrunnable(Unrunnable),
    /// The kernel is at fault.
    Found(Box<Found>),
}

impl Failure {
    /// The finding, if the kernel is at fault.
    pub fn finding(&self) -> Option<&Finding> {
        match self {
            Failure::Found(found) => Some(&found.finding),
            Failure::Unrunnable(_) => None,
        }
    }

    /// The kind of finding, if the kernel is at fault.
    pub fn kind(&self) -> Option<Kind> {
        self.finding().map(|f| f.kind)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unrunnable(why) => why.fmt(f),
            Failure::Found(found) => {
                let Found { finding, seed, policy, deviations, before } = &**found;
                write!(f, "{finding}\n  with seed {seed}, policy {policy:?}: ")?;
                match deviations.len() {
                    0 => f.write_str("even the plainest run has it"),
                    n => write!(f, "{n} of {before} deviations from the plainest run are enough"),
                }
            }
        }
    }
}

impl std::error::Error for Failure {}

impl From<Unrunnable> for Failure {
    fn from(why: Unrunnable) -> Failure {
        Failure::Unrunnable(why)
    }
}

/// Runs kernels.
#[derive(Debug)]
pub struct Machine;

impl Machine {
    /// Runs a verified kernel.
    ///
    /// # Errors
    /// The first finding, with the plainest run that shows its kind; or why the kernel cannot run.
    pub fn run(verified: &Verified, launch: &Launch, options: &Options) -> Result<Report, Failure> {
        Self::run_kernel(&verified.module().kernel, launch, options)
    }

    /// Runs a kernel that nobody has judged: what a verifier would refuse is what the machine is tried on.
    ///
    /// # Errors
    /// As [`Machine::run`].
    pub fn run_kernel(kernel: &Kernel, launch: &Launch, options: &Options) -> Result<Report, Failure> {
        let program = decode(kernel)?;
        let mut adversary = Adversary::seeded(options.seed, options.policy);
        let outcome = attempt(&program, launch, options, &mut adversary)?;
        outcome.map_err(|finding| shrink(&program, launch, options, *finding, adversary.deviations))
    }
}

type Outcome = Result<Report, Box<Finding>>;

/// One run from beginning to end.
fn attempt(
    program: &Program<'_>,
    launch: &Launch,
    options: &Options,
    adversary: &mut Adversary,
) -> Result<Outcome, Unrunnable> {
    let (bound, mut global) = launch.bind(program.kernel)?;
    let role = |w| program.role_of_warp(w).map_or("", |r| program.kernel.roles[r].name.as_str()).to_owned();
    let mut trace = match options.trace {
        true => Trace::on((0..program.warps()).map(role).collect()),
        false => Trace::off(),
    };
    let mut instructions = 0;
    {
        let mut world = World { global: &mut global, adversary, trace: &mut trace };
        let mut waiting: VecDeque<u32> = (0..bound.grid).collect();
        let mut resident: Vec<Cta<'_>> = Vec::new();
        // The plainest answer to which CTA goes on.
        let mut first = 0;
        loop {
            while resident.len() < options.resident.max(1)
                && let Some(id) = waiting.pop_front()
            {
                resident.push(Cta::new(program, &bound, id, options));
            }
            if resident.is_empty() {
                break;
            }
            let pick = first + world.adversary.choose(Question::Cta, resident.len() as u32) as usize;
            let pick = pick % resident.len();
            first = 0;
            match resident[pick].turn(&mut world) {
                Ok(Turn::More) => {}
                Ok(Turn::Looked) => first = pick + 1,
                Ok(Turn::Ended) => instructions += resident.remove(pick).executed,
                Err(finding) => return Ok(Err(finding)),
            }
        }
    }
    Ok(Ok(Report { buffers: global.into_buffers(), instructions, trace }))
}

/// Looks for a plainer run with a finding of the same kind: delta debugging over the deviations (Zeller, Hildebrandt,
/// "Simplifying and isolating failure-inducing input", 2002).
fn shrink(
    program: &Program<'_>,
    launch: &Launch,
    options: &Options,
    finding: Finding,
    all: Vec<(u64, u32)>,
) -> Failure {
    let before = all.len();
    let mut best = (finding, all);
    let runs = Cell::new(options.shrink);
    let kind = best.0.kind;
    let again = |mut adversary: Adversary| -> Option<(Finding, Vec<(u64, u32)>)> {
        runs.set(runs.get().checked_sub(1)?);
        let plain = Options { trace: false, ..options.clone() };
        match attempt(program, launch, &plain, &mut adversary) {
            Ok(Err(finding)) if finding.kind == kind => Some((*finding, adversary.deviations)),
            _ => None,
        }
    };
    // The plainest run, then runs in which only operations are late.
    let plain = [
        Adversary::scripted(&[]),
        Adversary::calm(options.seed, Policy::Late),
        Adversary::calm(options.seed, Policy::Random),
        Adversary::calm(options.seed + 1, Policy::Random),
    ];
    if let Some(found) = plain.into_iter().find_map(again).filter(|(_, d)| d.len() < best.1.len()) {
        best = found;
    }
    let mut parts = 1;
    // A long run has many deviations: without runs to try them in, no script is written either.
    while runs.get() > 0 && !best.1.is_empty() && parts <= best.1.len().max(1) {
        let size = best.1.len().div_ceil(parts);
        let smaller = (0..parts).take_while(|_| runs.get() > 0).find_map(|part| {
            let keep = |(i, d): (usize, &(u64, u32))| (i / size != part).then_some(*d);
            let script: Vec<(u64, u32)> = best.1.iter().enumerate().filter_map(keep).collect();
            again(Adversary::scripted(&script)).filter(|(_, d)| d.len() < best.1.len())
        });
        match smaller {
            Some(found) => {
                best = found;
                parts = (parts - 1).max(1);
            }
            None if parts >= best.1.len() => break,
            None => parts = (2 * parts).min(best.1.len()),
        }
    }
    let (finding, deviations) = best;
    Failure::Found(Box::new(Found { finding, seed: options.seed, policy: options.policy, deviations, before }))
}
