//! A CTA: its warps, shared memory, barriers and operations, and the scheduler that lets one of them go on.
//!
//! The adversary picks the warp and how long it runs, and when operations complete. Threads are promised progress (PTX ISA,
//! "Forward progress"): if nobody can run, the operations that were put off complete one by one; if there are none left,
//! it is a deadlock.

use std::collections::BTreeMap;

use schedule::HOPPER;

use crate::adversary::Question;
use crate::barrier::{Mbarrier, Named};
use crate::clock::{Clock, Stamp};
use crate::engine::{Engine, Op, What};
use crate::exec::{Sums, World};
use crate::finding::{Done, Fault, Finding, Kind};
use crate::launch::Bound;
use crate::machine::Options;
use crate::program::Program;
use crate::shared::Shared;
use crate::warp::{State, Warp};

/// Instructions that a warp runs before another may; the first is "until it waits".
const BURSTS: [u32; 6] = [u32::MAX, 1, 2, 8, 32, 128];

/// A CTA.
pub(crate) struct Cta<'k> {
    pub program: &'k Program<'k>,
    pub bound: &'k Bound,
    pub id: u32,
    pub shared: Shared,
    pub warps: Vec<Warp>,
    pub barriers: BTreeMap<u32, Mbarrier>,
    pub named: Vec<Named>,
    pub engine: Engine,
    /// Registers a thread, summed over warps, that are free.
    pub pool: i64,
    /// What the threads that left knew.
    pub left: Clock,
    /// Counts what may let somebody go on.
    pub progress: u64,
    /// Instructions run.
    pub executed: u64,
    /// Instructions after which it is taken to have no end.
    limit: u64,
    pub sums: Sums,
    /// Where the failing instruction was.
    pub at: (usize, u32, usize),
    last: usize,
    /// A warp looked at what another thread is to write, and may have to look again.
    pub looked: bool,
    woken_at: u64,
}

/// What came of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There is more to do.
    More,
    /// So far somebody has only looked at what another is to write.
    Looked,
    /// The CTA has ended.
    Ended,
}

impl<'k> Cta<'k> {
    pub fn new(program: &'k Program<'k>, bound: &'k Bound, id: u32, options: &Options) -> Cta<'k> {
        let registers = program.entry_registers();
        Cta {
            program,
            bound,
            id,
            shared: Shared::new(program.kernel.shared_bytes() as usize),
            warps: (0..program.warps()).map(|w| Warp::new(w, program, registers)).collect(),
            barriers: BTreeMap::new(),
            named: (0..HOPPER.named_barriers).map(|_| Named::default()).collect(),
            engine: Engine::default(),
            pool: 0,
            left: Clock::default(),
            progress: 0,
            executed: 0,
            limit: options.limit,
            sums: options.sums,
            at: (0, 0, 0),
            last: 0,
            looked: false,
            woken_at: 0,
        }
    }

    /// Lets one warp run for a while, or something complete.
    pub fn turn(&mut self, world: &mut World<'_>) -> Result<Turn, Box<Finding>> {
        self.try_turn(world).map_err(|fault| Box::new(self.explain(*fault)))
    }

    fn try_turn(&mut self, world: &mut World<'_>) -> Done<Turn> {
        self.engine.step += 1;
        self.fire(world)?;
        let mut ready = [0; 64];
        let mut count = 0;
        for w in 0..self.warps.len() {
            if self.wake(w)? && count < ready.len() {
                ready[count] = w;
                count += 1;
            }
        }
        if count == 0 {
            return self.idle(world);
        }
        // The plainest answer is the warp that ran last, or the next one in order.
        let first = ready[..count].iter().position(|&w| w >= self.last).unwrap_or(0);
        let pick = world.adversary.choose(Question::Warp, count as u32) as usize;
        let w = ready[(first + pick) % count];
        self.last = w;
        let burst = BURSTS[world.adversary.choose(Question::Burst, BURSTS.len() as u32) as usize];
        self.run(world, w, burst)?;
        if !std::mem::take(&mut self.looked) {
            return Ok(Turn::More);
        }
        // Others first, lest it looks for ever: the next warp, what was put off, other CTAs.
        self.last = w + 1;
        if count == 1 {
            self.complete_late(world)?;
        }
        Ok(Turn::Looked)
    }

    fn run(&mut self, world: &mut World<'_>, w: usize, burst: u32) -> Done {
        let mut left = burst;
        while left > 0 {
            let Some(g) = self.warps[w].next_group() else { return Ok(()) };
            let group = &self.warps[w].groups[g];
            self.at = (w, group.lanes, group.pc);
            self.executed += 1;
            left -= 1;
            if self.executed > self.limit {
                let message = format!("the CTA ran {} instructions without an end", self.limit);
                return Err(Fault::new(Kind::Endless, message));
            }
            self.step(world, w, g)?;
            if self.looked {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Lets groups go on whose wait is over. True if the warp can run.
    fn wake(&mut self, w: usize) -> Done<bool> {
        for g in 0..self.warps[w].groups.len() {
            let group = &self.warps[w].groups[g];
            let (lanes, pc) = (group.lanes, group.pc);
            let over = match group.state {
                State::Ready | State::Converging | State::Named(_) => continue,
                State::Asleep { barrier, phase, parity } => {
                    let now = self.barriers.get(&barrier).map_or(phase, |b| b.phase);
                    if now > phase + 1 {
                        self.at = (w, lanes, pc.saturating_sub(1));
                        let message = format!(
                            "waits for phase {phase} (parity {parity}) of a barrier that has come to phase {now} meanwhile: \
                             the wait may never see it"
                        );
                        return Err(Fault::new(Kind::PhaseOverrun, message).at(barrier));
                    }
                    now != phase
                }
                State::Products(left) => self.products_over(w, left),
                State::Copies { left, read } => self.copies_over(w, lanes, left, read),
                State::Registers(count) => i64::from(count) - i64::from(self.warps[w].registers) <= self.pool,
            };
            if over {
                self.warps[w].groups[g].state = State::Ready;
            }
        }
        Ok(self.warps[w].next_group().is_some())
    }

    /// Takes an operation in; it may complete at once.
    pub fn issue(&mut self, world: &mut World<'_>, op: Op) -> Done {
        let now = op.due == Some(self.engine.step);
        self.engine.pending.push(op);
        let index = self.engine.pending.len() - 1;
        match now && self.eligible(index) {
            true => self.complete(world, index),
            false => Ok(()),
        }
    }

    /// Products of a warp complete in order, and when all four warps have come to them.
    fn eligible(&self, index: usize) -> bool {
        let op = &self.engine.pending[index];
        let product = |o: &Op| matches!(o.what, What::Product { .. });
        let first = || !self.engine.pending[..index].iter().any(|o| o.warp == op.warp && product(o));
        !product(op) || first() && self.product_may_run(op)
    }

    /// Completes what is due.
    fn fire(&mut self, world: &mut World<'_>) -> Done {
        let mut index = 0;
        while index < self.engine.pending.len() {
            let due = self.engine.pending[index].due.is_some_and(|due| due <= self.engine.step);
            if due && self.eligible(index) {
                self.complete(world, index)?;
                // A product may have waited for this one.
                index = 0;
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    /// Completes an operation, or a part of it.
    fn complete(&mut self, world: &mut World<'_>, index: usize) -> Done {
        let mut op = self.engine.pending.remove(index);
        self.progress += 1;
        self.at = (op.warp, 0, op.pc);
        let ended = match op.what {
            What::Load { .. } => self.load_arrives(world, &mut op)?,
            What::Store { .. } => self.store_moves(world, &mut op)?,
            What::Product { .. } => {
                self.product_completes(&op)?;
                true
            }
        };
        if !ended {
            // At the soonest in the next step.
            op.due = self.engine.delay(world.adversary).map(|due| due + 1);
            self.engine.pending.insert(index, op);
        }
        Ok(())
    }

    /// Something that was put off completes, if there is anything.
    fn complete_late(&mut self, world: &mut World<'_>) -> Done<bool> {
        let ready: Vec<usize> = (0..self.engine.pending.len()).filter(|&i| self.eligible(i)).collect();
        if ready.is_empty() {
            return Ok(false);
        }
        let pick = world.adversary.choose(Question::Late, ready.len() as u32) as usize;
        self.complete(world, ready[pick])?;
        Ok(true)
    }

    /// Nobody can run: something that was put off completes, or it is the end.
    fn idle(&mut self, world: &mut World<'_>) -> Done<Turn> {
        if self.complete_late(world)? {
            return Ok(Turn::More);
        }
        if self.warps.iter().all(|w| w.live == 0) {
            self.at = (0, 0, usize::MAX);
            return self.drained().map(|()| Turn::Ended);
        }
        // A wait that came back without an answer need not be followed by another: those who sleep look once more.
        if self.woken_at != self.progress {
            self.woken_at = self.progress;
            let mut woken = false;
            for group in self.warps.iter_mut().flat_map(|w| &mut w.groups) {
                if matches!(group.state, State::Asleep { .. }) {
                    group.state = State::Ready;
                    woken = true;
                }
            }
            if woken {
                return Ok(Turn::More);
            }
        }
        Err(self.stuck())
    }

    fn drained(&self) -> Done {
        if let Some((warp, pc)) = self.engine.undrained(&self.left) {
            let fault = Fault::new(Kind::Undrained, "the CTA ends, and nobody waited for this");
            return Err(fault.by(Stamp::asynchronous(warp, 0, 1, pc), "is in flight"));
        }
        let differ = self.warps.chunks(4).find(|g| g.iter().any(|w| w.registers != g[0].registers));
        if let Some([first, ..]) = differ {
            let message =
                format!("the warps of the warpgroup of warp {} end with different register counts", first.index);
            return Err(Fault::new(Kind::Registers, message));
        }
        let open = self.barriers.iter().find(|(_, b)| b.tx != 0 || b.pending != b.expected);
        open.map_or(Ok(()), |(&address, b)| {
            let kind = if b.tx != 0 { Kind::Transactions } else { Kind::Unbalanced };
            let message = format!(
                "the CTA ends, and phase {} of a barrier waits for {} of {} arrivals and {} bytes",
                b.phase, b.pending, b.expected, b.tx
            );
            Err(Fault::new(kind, message).at(address))
        })
    }
}
