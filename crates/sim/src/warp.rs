//! A warp: registers, divergent groups of lanes, and what is in flight on its behalf (PTX ISA, "Thread hierarchy",
//! "wgmma.fence", "cp.async.bulk.wait_group").
//!
//! Lanes at the same instruction are a group. The group that stands first in the code runs, so that lanes meet again
//! where their paths do; a group that waits lets the others run.

use std::collections::VecDeque;

use crate::clock::{ALL, LANES};
use crate::finding::{Done, Fault, Kind};
use crate::knowledge::Knowledge;
use crate::program::{At32, At64, Program, S32, S64, Sp};

/// A value a lane.
pub(crate) type Lanes = [u32; LANES];
/// A 64-bit value a lane.
pub(crate) type Lanes64 = [u64; LANES];

/// What a group waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing.
    Ready,
    /// That the barrier at an address leaves a phase; which parity was asked for.
    Asleep { barrier: u32, phase: u64, parity: u32 },
    /// That the lanes of the mask come to the same instruction.
    Converging,
    /// A named barrier.
    Named(u32),
    /// That no more than so many groups of products are in flight.
    Products(u32),
    /// That no more than so many groups of stores are in flight, or unread.
    Copies { left: u32, read: bool },
    /// Registers from the CTA's pool.
    Registers(u32),
}

/// Lanes that run together.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub pc: usize,
    pub lanes: u32,
    pub state: State,
}

/// Products that were committed together.
#[derive(Debug)]
pub(crate) struct ProductGroup {
    pub number: u64,
    /// None while it is empty.
    pub slot: Option<usize>,
    pub time: u32,
    pub incomplete: usize,
    pub committed: bool,
    pub regs: Vec<u32>,
    /// The last of them.
    pub pc: usize,
    /// When it ran, by the clock of the timeline.
    pub from: u64,
    pub until: u64,
}

/// Stores that a lane committed together.
#[derive(Debug)]
pub(crate) struct CopyGroup {
    pub number: u64,
    pub lane: usize,
    /// None while it is empty.
    pub slot: Option<usize>,
    /// The slot's time when all are read; one more when all are written.
    pub time: u32,
    pub unread: usize,
    pub unwritten: usize,
    pub committed: bool,
    pub pc: usize,
}

/// A warp.
#[derive(Debug)]
pub(crate) struct Warp {
    pub index: usize,
    pub regs32: Vec<Lanes>,
    pub regs64: Vec<Lanes64>,
    pub preds: Vec<u32>,
    pub groups: Vec<Group>,
    /// Lanes that have not left the kernel.
    pub live: u32,
    pub knowledge: Knowledge,
    /// By 32-bit register: groups of products in flight that use it.
    pub in_flight: Vec<u8>,
    /// By 32-bit register: the wgmma.fence after which it was last touched by other code.
    pub touched: Vec<u32>,
    pub fences: u32,
    pub products: VecDeque<ProductGroup>,
    pub copies: Vec<CopyGroup>,
    /// Groups of products that were waited for.
    pub waited: u64,
    /// Products issued so far.
    pub issued: u64,
    /// Groups of products and of stores so far.
    pub numbered: u64,
    /// Registers a thread.
    pub registers: u32,
    /// The clock of the timeline.
    pub now: u64,
}

impl Warp {
    pub fn new(index: usize, program: &Program<'_>, registers: u32) -> Warp {
        // Registers start with no number in them.
        Warp {
            index,
            regs32: vec![[0x7fff_dead; LANES]; program.regs32],
            regs64: vec![[0x7fff_dead_7fff_dead; LANES]; program.regs64],
            preds: vec![0; program.preds],
            groups: vec![Group { pc: 0, lanes: ALL, state: State::Ready }],
            live: ALL,
            knowledge: Knowledge::new(index, program.warps() * LANES),
            in_flight: vec![0; program.regs32],
            touched: vec![0; program.regs32],
            fences: 0,
            products: VecDeque::new(),
            copies: Vec::new(),
            waited: 0,
            issued: 0,
            numbered: 0,
            registers,
            now: 0,
        }
    }

    /// The ready group that stands first in the code, after joining groups that stand together.
    pub fn next_group(&mut self) -> Option<usize> {
        if let [only] = &self.groups[..] {
            return (only.state == State::Ready).then_some(0);
        }
        self.groups.sort_by_key(|g| (g.pc, g.state != State::Ready && g.state != State::Converging));
        let mut i = 0;
        while i + 1 < self.groups.len() {
            let joins = |g: &Group| matches!(g.state, State::Ready | State::Converging);
            let (a, b) = (&self.groups[i], &self.groups[i + 1]);
            if a.pc == b.pc && joins(a) && joins(b) {
                let lanes = b.lanes;
                self.groups[i].lanes |= lanes;
                self.groups[i].state = State::Ready;
                self.groups.remove(i + 1);
            } else {
                i += 1;
            }
        }
        self.groups.iter().position(|g| g.state == State::Ready)
    }

    pub fn s32(&self, source: S32) -> Lanes {
        match source {
            S32::R(r) => self.regs32[r as usize],
            S32::I(v) => [v; LANES],
        }
    }

    pub fn s64(&self, source: S64) -> Lanes64 {
        match source {
            S64::R(r) => self.regs64[r as usize],
            S64::I(v) => [v; LANES],
        }
    }

    pub fn sp(&self, source: Sp) -> u32 {
        match source {
            Sp::R(r) => self.preds[r as usize],
            Sp::I(true) => ALL,
            Sp::I(false) => 0,
        }
    }

    pub fn shared_address(&self, at: At32, lane: usize) -> u32 {
        self.s32(at.base)[lane].wrapping_add(at.offset as u32)
    }

    pub fn global_address(&self, at: At64, lane: usize) -> u64 {
        self.regs64[at.base as usize][lane].wrapping_add(at.offset as i64 as u64)
    }

    pub fn set32(&mut self, d: u32, lanes: u32, values: &Lanes) {
        let register = &mut self.regs32[d as usize];
        if lanes == ALL {
            *register = *values;
            return;
        }
        for (lane, (r, v)) in register.iter_mut().zip(values).enumerate() {
            if lanes >> lane & 1 != 0 {
                *r = *v;
            }
        }
    }

    pub fn set64(&mut self, d: u32, lanes: u32, values: &Lanes64) {
        for (lane, (r, v)) in self.regs64[d as usize].iter_mut().zip(values).enumerate() {
            if lanes >> lane & 1 != 0 {
                *r = *v;
            }
        }
    }

    pub fn set_pred(&mut self, d: u32, lanes: u32, values: u32) {
        let register = &mut self.preds[d as usize];
        *register = *register & !lanes | values & lanes;
    }

    /// The value of a source that the lanes must agree on.
    pub fn uniform(&self, source: S32, lanes: u32, what: &str) -> Done<u32> {
        let values = self.s32(source);
        let first = values[lanes.trailing_zeros() as usize % LANES];
        let differs = crate::knowledge::lanes_of(lanes).any(|l| values[l] != first);
        match differs {
            true => Err(Fault::new(Kind::Diverged, format!("the lanes disagree about {what}"))),
            false => Ok(first),
        }
    }

    /// Registers of products that other code touches must not be in flight, and need a fence afterwards.
    pub fn touch(&mut self, regs: &[u32]) -> Done {
        for &reg in regs {
            if self.in_flight[reg as usize] != 0 {
                return Err(Fault::new(
                    Kind::RegisterInFlight,
                    "a product in flight uses this register; wait for its group first",
                ));
            }
            self.touched[reg as usize] = self.fences + 1;
        }
        Ok(())
    }

    /// Products may use the registers: nothing touched them since the last fence.
    pub fn fenced(&self, regs: &[u32]) -> Done {
        if self.fences == 0 || regs.iter().any(|&r| self.touched[r as usize] > self.fences) {
            return Err(Fault::new(
                Kind::RegisterUnfenced,
                "a register of this product was read or written since the last wgmma.fence",
            ));
        }
        Ok(())
    }
}
