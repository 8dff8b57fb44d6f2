//! Instructions by which threads meet (PTX ISA, "shfl.sync", "bar", "mbarrier.init", "mbarrier.arrive",
//! "mbarrier.try_wait", "membar/fence", "setmaxnreg").

use schedule::HOPPER;

use super::{Machinery, Then, World};
use crate::adversary::Question;
use crate::barrier::Mbarrier;
use crate::clock::{ALL, Clock, LANES, Stamp};
use crate::cta::Cta;
use crate::finding::{Done, Fault, Kind};
use crate::knowledge::lanes_of;
use crate::program::{At32, S32, Shuffle};
use crate::warp::State;

impl Cta<'_> {
    pub(super) fn shuffle(
        &mut self,
        w: usize,
        lanes: u32,
        (mode, d, a, b, c): (Shuffle, u32, u32, S32, u32),
        mask: u32,
    ) -> Done {
        let warp = &mut self.warps[w];
        let (values, by) = (warp.regs32[a as usize], warp.s32(b));
        let (clamp, segment) = (c & 31, c >> 8 & 31);
        let mut out = values;
        for lane in lanes_of(lanes) {
            let (own, by) = (lane as u32, by[lane] & 31);
            let (least, most) = (own & segment, own & segment | clamp & !segment);
            let (from, inside) = match mode {
                Shuffle::Up => (own.wrapping_sub(by), own.wrapping_sub(by) as i32 >= most as i32),
                Shuffle::Down => (own + by, own + by <= most),
                Shuffle::Bfly => (own ^ by, own ^ by <= most),
                Shuffle::Idx => (least | by & !segment, least | by & !segment <= most),
            };
            let from = if inside { from } else { own };
            if mask & warp.live & 1 << from == 0 {
                return Err(Fault::new(
                    Kind::Diverged,
                    format!("lane {own} takes the value of lane {from}, which is not there"),
                ));
            }
            out[lane] = values[from as usize % LANES];
        }
        warp.set32(d, lanes, &out);
        Ok(())
    }

    pub(super) fn bar(
        &mut self,
        world: &mut World<'_>,
        (w, _, lanes): Machinery,
        id: S32,
        threads: Option<S32>,
        wait: bool,
    ) -> Done<Then> {
        let warp = &mut self.warps[w];
        let id = warp.uniform(id, lanes, "the barrier")?;
        let threads = match threads {
            None => self.program.kernel.threads,
            Some(n) => warp.uniform(n, lanes, "the barrier's threads")?,
        };
        if id >= HOPPER.named_barriers || warp.live != ALL {
            let message = format!("named barrier {id} by lanes {:08x}; there are {}", warp.live, HOPPER.named_barriers);
            return Err(Fault::new(Kind::Disagreement, message));
        }
        let mut knows = Clock::default();
        warp.knowledge.publish(ALL, &mut knows);
        let now = warp.now;
        let named = &mut self.named[id as usize];
        named.when = named.when.max(now);
        let complete = named.arrive(id, w, threads, &knows)?;
        let when = named.when;
        self.progress += 1;
        let Some(gathered) = complete else {
            return Ok(if wait { Then::Wait(State::Named(id)) } else { Then::Next });
        };
        named.when = 0;
        for other in &mut self.warps {
            let (index, before) = (other.index, other.now);
            for group in other.groups.iter_mut().filter(|g| g.state == State::Named(id)) {
                group.state = State::Ready;
                group.pc += 1;
                other.knowledge.meet(&gathered);
                other.now = other.now.max(when);
                world.trace.warp(self.id, index, || format!("waits on named barrier {id}"), before, other.now);
            }
        }
        if wait {
            self.warps[w].knowledge.meet(&gathered);
        }
        Ok(Then::Next)
    }

    pub(super) fn barrier_init(&mut self, (w, pc, lanes): Machinery, at: At32, count: u32) -> Done {
        if count == 0 || u64::from(count) > HOPPER.transaction_max {
            return Err(Fault::new(Kind::Disagreement, format!("a barrier of {count} arrivals")));
        }
        for lane in lanes_of(lanes) {
            let warp = &self.warps[w];
            let address = warp.shared_address(at, lane);
            self.shared.offset(address, 8, 8)?;
            let stamp = Stamp::generic(w, 1 << lane, warp.knowledge.time, pc);
            if let Some(there) = self.barriers.get(&address) {
                let fault = Fault::new(Kind::Disagreement, "a barrier is initialised where there is one already");
                return Err(fault.with(there.init, "initialises").at(address));
            }
            let threads = self.warps.len() * LANES;
            self.barriers.insert(address, Mbarrier::new(count, stamp, threads));
        }
        Ok(())
    }

    /// The barriers that the lanes initialised are visible to the async proxy from here on.
    pub(super) fn show_barriers(&mut self, w: usize, lanes: u32) {
        for barrier in self.barriers.values_mut() {
            if usize::from(barrier.init.warp) == w && barrier.init.lanes & lanes != 0 {
                barrier.visible = true;
            }
        }
    }

    /// The barrier at an address, which must be one that a lane can know of.
    pub(super) fn barrier(&mut self, w: usize, lane: usize, address: u32) -> Done<&mut Mbarrier> {
        let clock = self.warps[w].knowledge.of(lane);
        let Some(barrier) = self.barriers.get_mut(&address) else {
            let message = format!("nobody initialised a barrier at shared address {address}");
            return Err(Fault::new(Kind::Uninitialised, message).at(address));
        };
        if !barrier.init.before(clock, Some((w, 1 << lane))) {
            let fault = Fault::new(Kind::Uninitialised, "nothing orders the initialisation of the barrier and its use");
            return Err(fault.with(barrier.init, "initialises").at(address));
        }
        Ok(barrier)
    }

    pub(super) fn barrier_arrive(
        &mut self,
        world: &mut World<'_>,
        (w, _, lanes): Machinery,
        at: At32,
        (count, bytes): (u32, Option<S32>),
    ) -> Done {
        let bytes = bytes.map(|b| self.warps[w].s32(b));
        for lane in lanes_of(lanes) {
            let address = self.warps[w].shared_address(at, lane);
            self.barrier(w, lane, address)?;
            let (Some(barrier), warp) = (self.barriers.get_mut(&address), &mut self.warps[w]) else { continue };
            if let Some(bytes) = &bytes {
                barrier.expect(bytes[lane]).map_err(|f| f.at(address))?;
            }
            let knowledge = &mut warp.knowledge;
            let complete = barrier.arrive(count, |into| knowledge.publish(1 << lane, into));
            barrier.when = barrier.when.max(warp.now);
            if complete.map_err(|f| f.at(address))? {
                self.phase_complete(world, address);
            }
        }
        self.progress += 1;
        Ok(())
    }

    /// A barrier went into its next phase.
    pub(super) fn phase_complete(&mut self, world: &mut World<'_>, address: u32) {
        let Some(barrier) = self.barriers.get(&address) else { return };
        self.progress += 1;
        let (phase, when) = (barrier.phase - 1, barrier.when);
        if world.trace.is_on() {
            let name = self.place_name(address);
            world.trace.barrier(self.id, &name, phase, when);
        }
    }

    pub(super) fn barrier_wait(
        &mut self,
        world: &mut World<'_>,
        (w, _, lanes): Machinery,
        d: u32,
        at: At32,
        parity: S32,
    ) -> Done<Then> {
        let parities = self.warps[w].s32(parity);
        let (mut holds, mut asleep) = (0u32, None);
        // The wait may come back without an answer at any time, and need not sleep.
        let spurious = world.adversary.choose(Question::Spurious, 2) != 0;
        let impatient = world.adversary.choose(Question::Impatient, 2) != 0;
        for lane in lanes_of(lanes) {
            let address = self.warps[w].shared_address(at, lane);
            let parity = parities[lane];
            let barrier = self.barrier(w, lane, address)?;
            if parity > 1 {
                let message = format!("parity {parity}: only 0 and 1 have a meaning");
                return Err(Fault::new(Kind::Unsupported, message).at(address));
            }
            barrier.check_wait(w * LANES + lane, parity).map_err(|f| f.at(address))?;
            if barrier.is_complete(parity) && !spurious {
                holds |= 1 << lane;
            } else if !barrier.is_complete(parity) && !impatient {
                asleep = Some(State::Asleep { barrier: address, phase: barrier.phase, parity });
            }
        }
        let mut rest = holds;
        while rest != 0 {
            // Lanes on one barrier learn the same.
            let address = self.warps[w].shared_address(at, rest.trailing_zeros() as usize);
            let warp = &mut self.warps[w];
            let same = lanes_of(rest).filter(|&l| warp.shared_address(at, l) == address).fold(0, |m, l| m | 1 << l);
            if let Some(barrier) = self.barriers.get_mut(&address) {
                lanes_of(same).for_each(|l| barrier.note_seen(w * LANES + l));
                warp.knowledge.acquire(same, warp.live, barrier.acquired());
                let before = warp.now;
                warp.now = warp.now.max(barrier.when);
                if world.trace.is_on() && warp.now > before {
                    let (until, name) = (warp.now, self.place_name(address));
                    world.trace.warp(self.id, w, || format!("waits on {name}"), before, until);
                }
            }
            rest &= !same;
        }
        self.warps[w].set_pred(d, lanes, holds);
        Ok(asleep.map_or(Then::Next, Then::Sleep))
    }

    pub(super) fn set_registers(&mut self, w: usize, count: u32, inc: bool) -> Done<Then> {
        let warp = &mut self.warps[w];
        let legal = (HOPPER.setmaxnreg_min..=HOPPER.setmaxnreg_max).contains(&count)
            && count.is_multiple_of(HOPPER.register_step);
        if !legal || inc != (count >= warp.registers) && count != warp.registers {
            let message = format!("a warp of {} registers a thread asks for {count}", warp.registers);
            return Err(Fault::new(Kind::Registers, message));
        }
        let more = i64::from(count) - i64::from(warp.registers);
        if more > self.pool {
            return Ok(Then::Wait(State::Registers(count)));
        }
        self.pool -= more;
        self.progress += 1;
        warp.registers = count;
        Ok(Then::Next)
    }
}
