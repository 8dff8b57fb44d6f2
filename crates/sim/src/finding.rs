//! What the machine says about a kernel: findings with place and parties.
//!
//! Inside, a [`Fault`] speaks of stamps and addresses; a CTA turns it into a [`Finding`] in the kernel's own names.

use std::fmt;

use crate::clock::Stamp;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// Two accesses of which one writes, and no order between them.
    Race,
    /// Data written in the generic proxy reaches the async proxy without the writer's proxy fence, or data read in it is
    /// overwritten there without the reader's.
    ProxyFence,
    /// A read of memory that nobody wrote.
    NeverWritten,
    /// An accumulator or A register touched while a product that uses it is in flight.
    RegisterInFlight,
    /// A product uses registers that other code touched since the last wgmma.fence.
    RegisterUnfenced,
    /// Transaction bytes arrive in another phase than the one that expects them, or pass the limit.
    Transactions,
    /// More arrivals than a phase takes.
    ArrivalOverrun,
    /// A barrier ran a whole round past somebody who waits on it.
    PhaseOverrun,
    /// A barrier in the middle of a phase when the CTA ends: its count does not fit its arrivals.
    Unbalanced,
    /// A barrier that was not initialised, or not visibly so.
    Uninitialised,
    /// Nobody can go on.
    Deadlock,
    /// An access outside of the memory that the kernel has, or off its alignment.
    OutOfBounds,
    /// A write to global memory that is not the output.
    OutsideOutput,
    /// Work in flight, or shared memory still to be read, when the CTA ends.
    Undrained,
    /// A warp is not converged where the instruction demands it.
    Diverged,
    /// The warps of a warpgroup, or the users of a barrier, disagree.
    Disagreement,
    /// A change of the register count that the pool cannot follow.
    Registers,
    /// Something that the machine does not model, or that has no meaning.
    Unsupported,
    /// The kernel does not come to an end.
    Endless,
}

/// One of the two that meet in a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// The CTA in the grid.
    pub cta: u32,
    /// The warp in the CTA.
    pub warp: u32,
    /// The lanes, as a mask; 0 for an asynchronous operation that the warp issued.
    pub lanes: u32,
    /// The warp's role, if the kernel names one.
    pub role: Option<String>,
    /// Line of the kernel's body.
    pub line: usize,
    /// Its text.
    pub instruction: String,
    /// What it does there.
    pub does: String,
}

/// A place in shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The region.
    pub region: String,
    /// The stage of its ring.
    pub stage: u32,
    /// Byte of the stage.
    pub byte: u32,
}

/// One fault of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub kind: Kind,
    /// The kernel.
    pub kernel: String,
    /// Who noticed, with what instruction.
    pub first: Option<Party>,
    /// Whom it meets.
    pub second: Option<Party>,
    /// Where in shared memory.
    pub place: Option<Place>,
    /// The rest of the story.
    pub message: String,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Race => "race",
            Kind::ProxyFence => "missing proxy fence",
            Kind::NeverWritten => "read of memory never written",
            Kind::RegisterInFlight => "register in flight",
            Kind::RegisterUnfenced => "register not fenced",
            Kind::Transactions => "transaction bytes",
            Kind::ArrivalOverrun => "too many arrivals",
            Kind::PhaseOverrun => "phase overrun",
            Kind::Unbalanced => "barrier left in the middle of a phase",
            Kind::Uninitialised => "barrier not initialised",
            Kind::Deadlock => "deadlock",
            Kind::OutOfBounds => "out of bounds",
            Kind::OutsideOutput => "store outside the output",
            Kind::Undrained => "in flight at the end",
            Kind::Diverged => "warp not converged",
            Kind::Disagreement => "disagreement",
            Kind::Registers => "register count",
            Kind::Unsupported => "not modelled",
            Kind::Endless => "no end",
        })
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: CTA {}, ", self.does, self.cta)?;
        if let Some(role) = &self.role {
            write!(f, "{role} ")?;
        }
        write!(f, "warp {}", self.warp)?;
        match self.lanes {
            0 => write!(f, " (asynchronous)")?,
            u32::MAX => {}
            lanes if lanes.count_ones() == 1 => write!(f, " lane {}", lanes.trailing_zeros())?,
            lanes => write!(f, " lanes {lanes:08x}")?,
        }
        // A product names a hundred registers; its head says which one it is.
        match self.instruction.char_indices().nth(110) {
            Some((cut, _)) => write!(f, ", line {} of the body: `{} ...`", self.line, &self.instruction[..cut]),
            None => write!(f, ", line {} of the body: `{}`", self.line, self.instruction),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n  in kernel {}", self.kind, self.message, self.kernel)?;
        if let Some(place) = &self.place {
            write!(f, ", {}[{}] byte {}", place.region, place.stage, place.byte)?;
        }
        for party in self.first.iter().chain(&self.second) {
            write!(f, "\n  {party}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Finding {}

/// A finding in the making.
#[derive(Debug)]
pub(crate) struct Fault {
    pub kind: Kind,
    pub message: String,
    pub first: Option<(Stamp, &'static str)>,
    pub second: Option<(Stamp, &'static str)>,
    /// CTA of the second party, if another one.
    pub second_cta: Option<u32>,
    pub address: Option<u32>,
}

/// What an instruction gives back.
pub(crate) type Done<T = ()> = Result<T, Box<Fault>>;

impl Fault {
    pub fn new(kind: Kind, message: impl Into<String>) -> Box<Fault> {
        Box::new(Fault { kind, message: message.into(), first: None, second: None, second_cta: None, address: None })
    }

    pub fn by(mut self: Box<Self>, stamp: Stamp, does: &'static str) -> Box<Fault> {
        self.first.get_or_insert((stamp, does));
        self
    }

    pub fn with(mut self: Box<Self>, stamp: Stamp, does: &'static str) -> Box<Fault> {
        self.second = Some((stamp, does));
        self
    }

    pub fn at(mut self: Box<Self>, address: u32) -> Box<Fault> {
        self.address = Some(address);
        self
    }
}
