//! Barriers: mbarrier objects and named barriers (PTX ISA, "mbarrier": "Phase of the mbarrier object", "Tracking
//! asynchronous operations"; "bar").
//!
//! A phase of an mbarrier is complete when no arrivals are pending and the transaction count is zero. Arrivals release
//! what their threads know, a successful wait acquires it; named barriers do both for every thread that takes part.

use schedule::HOPPER;

use crate::clock::{Clock, Stamp};
use crate::finding::{Done, Fault, Kind};

/// An mbarrier object.
#[derive(Debug)]
pub(crate) struct Mbarrier {
    /// Arrivals of a phase.
    pub expected: u32,
    /// Arrivals that the current phase still waits for.
    pub pending: u32,
    /// Bytes that the current phase still waits for.
    pub tx: i64,
    /// The current phase, from 0.
    pub phase: u64,
    /// Who initialised it.
    pub init: Stamp,
    /// Whether the initialisation was fenced for the async proxy.
    pub visible: bool,
    /// When the last phase was complete, by the clock of the timeline.
    pub when: u64,
    gathering: Clock,
    complete: Clock,
    /// By thread: phases whose end it has seen, if it has waited at all.
    seen: Vec<Option<u64>>,
}

impl Mbarrier {
    pub fn new(expected: u32, init: Stamp, threads: usize) -> Mbarrier {
        Mbarrier {
            expected,
            pending: expected,
            tx: 0,
            phase: 0,
            init,
            visible: false,
            when: 0,
            gathering: Clock::default(),
            complete: Clock::default(),
            seen: vec![None; threads],
        }
    }

    /// Bytes that are to come.
    pub fn expect(&mut self, bytes: u32) -> Done {
        self.tx += i64::from(bytes);
        self.in_range()
    }

    /// Arrives, releasing what `publish` adds. True if the phase is complete by it.
    pub fn arrive(&mut self, count: u32, publish: impl FnOnce(&mut Clock)) -> Done<bool> {
        if count > self.pending {
            return Err(Fault::new(
                Kind::ArrivalOverrun,
                format!(
                    "{count} arrivals on a barrier whose phase {} takes {} and waits for {} more and {} bytes",
                    self.phase, self.expected, self.pending, self.tx
                ),
            ));
        }
        self.pending -= count;
        publish(&mut self.gathering);
        Ok(self.settle())
    }

    /// Bytes of an operation of a slot have come, in the phase that it was issued for.
    pub fn transfer(&mut self, bytes: u32, phase: u64, slot: usize, time: u32) -> Done<bool> {
        self.tx -= i64::from(bytes);
        if phase != self.phase {
            return Err(Fault::new(
                Kind::Transactions,
                format!(
                    "{bytes} bytes issued for phase {phase} of a barrier arrive in phase {}: the phase expected fewer \
                     bytes than its copies move, and was complete without them",
                    self.phase
                ),
            ));
        }
        self.in_range()?;
        self.gathering.finish(slot, time);
        Ok(self.settle())
    }

    fn in_range(&self) -> Done {
        if self.tx.unsigned_abs() > HOPPER.transaction_max {
            let message = format!("a barrier's transaction count came to {} bytes", self.tx);
            return Err(Fault::new(Kind::Transactions, message));
        }
        Ok(())
    }

    fn settle(&mut self) -> bool {
        let complete = self.pending == 0 && self.tx == 0;
        if complete {
            self.phase += 1;
            self.pending = self.expected;
            let gathered = std::mem::take(&mut self.gathering);
            self.complete.join(&gathered);
        }
        complete
    }

    /// Whether the phase of that parity is complete.
    pub fn is_complete(&self, parity: u32) -> bool {
        self.phase & 1 != u64::from(parity & 1)
    }

    /// What a successful wait acquires.
    pub fn acquired(&self) -> &Clock {
        &self.complete
    }

    /// A thread waits for a parity: the phase that it means, given what it has seen; an error if that phase is so long
    /// over that the parity means another one.
    pub fn check_wait(&self, thread: usize, parity: u32) -> Done {
        let Some(seen) = self.seen.get(thread).copied().flatten() else { return Ok(()) };
        // Whoever takes the phases one by one means the next one he has not seen.
        let next = seen & 1 == u64::from(parity & 1);
        if next && self.phase > seen + 1 {
            return Err(Fault::new(
                Kind::PhaseOverrun,
                format!(
                    "waits for parity {parity}, phase {seen} of a barrier that is in phase {} already: the parity stands \
                     for a later phase by now",
                    self.phase
                ),
            ));
        }
        Ok(())
    }

    /// A thread has seen the end of the phase of that parity.
    pub fn note_seen(&mut self, thread: usize) {
        if let Some(seen) = self.seen.get_mut(thread) {
            *seen = Some(self.phase);
        }
    }
}

/// A named barrier.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// Threads of the round, once somebody has come.
    pub threads: u32,
    /// Threads that have come.
    pub arrived: u32,
    /// Warps that have come.
    pub warps: Vec<usize>,
    /// Rounds so far.
    pub round: u64,
    /// Latest arrival, by the clock of the timeline.
    pub when: u64,
    gathering: Clock,
}

impl Named {
    /// A warp comes. What the round gathered, if it is complete by it.
    pub fn arrive(&mut self, id: u32, warp: usize, threads: u32, knows: &Clock) -> Done<Option<Clock>> {
        if threads == 0 || !threads.is_multiple_of(32) {
            return Err(Fault::new(Kind::Disagreement, format!("named barrier {id} for {threads} threads")));
        }
        if self.threads != 0 && self.threads != threads {
            return Err(Fault::new(
                Kind::Disagreement,
                format!("named barrier {id} is for {} threads to some and for {threads} to others", self.threads),
            ));
        }
        if self.warps.contains(&warp) {
            return Err(Fault::new(
                Kind::ArrivalOverrun,
                format!("the warp comes to named barrier {id} twice in one round"),
            ));
        }
        self.threads = threads;
        self.arrived += 32;
        self.warps.push(warp);
        self.gathering.join(knows);
        if self.arrived < threads {
            return Ok(None);
        }
        self.threads = 0;
        self.arrived = 0;
        self.warps.clear();
        self.round += 1;
        Ok(Some(std::mem::take(&mut self.gathering)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_needs_its_arrivals_and_its_bytes() {
        let mut barrier = Mbarrier::new(1, Stamp::NEVER, 32);
        barrier.expect(64).expect("in range");
        assert!(!barrier.arrive(1, |_| {}).expect("pending"));
        assert!(!barrier.is_complete(0) && barrier.is_complete(1));
        assert_eq!(barrier.arrive(1, |_| {}).expect_err("one arrival a phase").kind, Kind::ArrivalOverrun);
        assert!(!barrier.transfer(32, 0, 0, 1).expect("in its phase"));
        assert!(barrier.transfer(32, 0, 0, 1).expect("in its phase"));
        assert!(barrier.is_complete(0));
        assert_eq!(barrier.acquired().slot(0), 1);
        assert_eq!(barrier.transfer(32, 0, 0, 2).expect_err("too late").kind, Kind::Transactions);
    }

    #[test]
    fn a_barrier_that_laps_a_waiter_is_found() {
        let mut barrier = Mbarrier::new(1, Stamp::NEVER, 32);
        let turn = |barrier: &mut Mbarrier| assert!(barrier.arrive(1, |_| {}).expect("pending"));
        barrier.check_wait(0, 1).expect("a fresh barrier lets parity 1 pass");
        turn(&mut barrier);
        barrier.check_wait(0, 0).expect("phase 0 is over");
        barrier.note_seen(0);
        turn(&mut barrier);
        barrier.check_wait(0, 1).expect("phase 1 is over");
        turn(&mut barrier);
        assert_eq!(barrier.check_wait(0, 1).expect_err("phase 2 is over too").kind, Kind::PhaseOverrun);
    }
}
