//! One instruction of one group of lanes: guards, convergence, branches, and who does the rest (PTX ISA, "Predicated
//! Execution", "Control Flow Instructions", "Parallel Synchronization and Communication Instructions").

mod arith;
mod convert;
mod copies;
mod memory;
mod products;
mod sums;
mod sync;

pub(crate) use arith::Constants;
pub use sums::Sums;

use crate::adversary::Adversary;
use crate::clock::ALL;
use crate::cta::Cta;
use crate::finding::{Done, Fault, Kind};
use crate::global::Global;
use crate::program::{Code, Instruction};
use crate::trace::Trace;
use crate::warp::{Group, State};

/// What a CTA shares with the rest of the machine.
pub(crate) struct World<'w> {
    pub global: &'w mut Global,
    pub adversary: &'w mut Adversary,
    pub trace: &'w mut Trace,
}

/// Warp, instruction and lanes.
type Machinery = (usize, usize, u32);

/// Where the group goes after an instruction.
#[derive(Debug, PartialEq, Eq)]
enum Then {
    /// To the next instruction.
    Next,
    /// Nowhere: it waits, and runs the instruction again.
    Wait(State),
    /// To the next instruction, once it is woken.
    Sleep(State),
    /// Wherever its other part says.
    Gone,
}

/// How an instruction treats lanes that are elsewhere.
enum Meeting {
    /// Each lane for itself.
    Alone,
    /// The lanes of the mask together.
    Mask(u32),
}

fn meeting(code: &Code) -> Meeting {
    match code {
        Code::Shuffle { mask, .. } | Code::Vote { mask, .. } | Code::Elect { mask, .. } | Code::SyncWarp(mask) => {
            Meeting::Mask(*mask)
        }
        Code::StoreMatrix { .. }
        | Code::LoadMatrix { .. }
        | Code::Bar { .. }
        | Code::ProductFence
        | Code::ProductCommit
        | Code::ProductWait { .. }
        | Code::Product(_)
        | Code::SetRegisters { .. } => Meeting::Mask(ALL),
        _ => Meeting::Alone,
    }
}

impl Cta<'_> {
    /// Runs the next instruction of a group. False if the group waits for something.
    pub(crate) fn step(&mut self, world: &mut World<'_>, w: usize, g: usize) -> Done<bool> {
        let program = self.program;
        let warp = &mut self.warps[w];
        let (pc, lanes) = (warp.groups[g].pc, warp.groups[g].lanes);
        let Some(inst) = program.code.get(pc) else {
            return Err(Fault::new(Kind::Unsupported, "the code runs past the end of the kernel"));
        };
        warp.now += 1;
        let mask = match inst.guard {
            None => lanes,
            Some((p, negated)) => lanes & if negated { !warp.preds[p as usize] } else { warp.preds[p as usize] },
        };
        if let Code::Branch(target) = inst.code {
            self.branch(w, g, mask, target);
            return Ok(true);
        }
        if mask == 0 {
            warp.groups[g].pc += 1;
            return Ok(true);
        }
        if let Meeting::Mask(wanted) = meeting(&inst.code) {
            let wanted = wanted & warp.live;
            if mask != lanes && lanes & wanted & !mask != 0 {
                return Err(Fault::new(Kind::Diverged, "only some lanes' predicates hold, and all have to take part"));
            }
            if wanted & !mask != 0 {
                warp.groups[g].state = State::Converging;
                return Ok(false);
            }
            if mask & !wanted != 0 {
                return Err(Fault::new(Kind::Diverged, "a lane takes part that the mask does not name"));
            }
        }
        if !inst.touches.is_empty() {
            warp.touch(&inst.touches)?;
        }
        let then = self.execute(world, (w, pc, mask), inst)?;
        let warp = &mut self.warps[w];
        Ok(match then {
            Then::Next => {
                warp.groups[g].pc += 1;
                true
            }
            Then::Wait(state) => {
                warp.groups[g].state = state;
                false
            }
            Then::Sleep(state) => {
                warp.groups[g].pc += 1;
                warp.groups[g].state = state;
                false
            }
            Then::Gone => {
                self.leave(w, g, mask);
                false
            }
        })
    }

    fn execute(&mut self, world: &mut World<'_>, at: Machinery, inst: &Instruction) -> Done<Then> {
        let (w, pc, lanes) = at;
        let constants = Constants {
            cta: self.id,
            grid: self.bound.grid,
            threads: self.program.kernel.threads,
            words: &self.bound.words,
        };
        let warp = &mut self.warps[w];
        if arith::arithmetic(warp, &inst.code, lanes, &constants) || convert::convert(warp, &inst.code, lanes) {
            return Ok(Then::Next);
        }
        match &inst.code {
            Code::LoadShared(regs, from) => self.load_shared(w, pc, lanes, regs, *from)?,
            Code::StoreShared(regs, to) => self.store_shared(w, pc, lanes, regs, *to)?,
            Code::LoadGlobal { regs, at: from, constant } => self.load_global(world, at, (regs, *from), *constant)?,
            Code::StoreGlobal(regs, to) => self.store_global(world, at, regs, *to)?,
            Code::LoadAcquire(d, from) => self.load_acquire(world, at, *d, *from)?,
            Code::StoreRelease(a, to) => self.store_release(world, at, *a, *to)?,
            Code::Atomic(op, d, to, b) => self.atomic(world, at, (*op, *d, *to, *b))?,
            Code::StoreMatrix { regs, at, transposed } => self.store_matrix(w, pc, regs, *at, *transposed)?,
            Code::LoadMatrix { regs, at, transposed } => self.load_matrix(w, pc, regs, *at, *transposed)?,
            Code::FenceGpu => {
                let live = self.warps[w].live;
                self.warps[w].knowledge.fence_gpu(lanes, live);
            }
            Code::FenceAsync => {
                self.warps[w].knowledge.fence_async(lanes);
                self.show_barriers(w, lanes);
            }
            Code::FenceBarrierInit => self.show_barriers(w, lanes),
            Code::Nothing => {}
            Code::Shuffle { mode, d, a, b, c, mask } => self.shuffle(w, lanes, (*mode, *d, *a, *b, *c), *mask)?,
            Code::Vote { all, d, a, mask } => {
                let warp = &mut self.warps[w];
                let (wanted, holds) = (*mask & warp.live, warp.preds[*a as usize]);
                let vote = if *all { holds & wanted == wanted } else { holds & wanted != 0 };
                warp.set_pred(*d, lanes, if vote { ALL } else { 0 });
            }
            Code::Elect { d, mask } => {
                let warp = &mut self.warps[w];
                let wanted = mask & warp.live;
                warp.set_pred(*d, lanes, wanted & wanted.wrapping_neg());
            }
            Code::SyncWarp(mask) => {
                let warp = &mut self.warps[w];
                warp.knowledge.sync(mask & warp.live, warp.live);
            }
            Code::Bar { id, threads, wait } => return self.bar(world, at, *id, *threads, *wait),
            Code::BarrierInit { at: to, count } => self.barrier_init(at, *to, *count)?,
            Code::BarrierArrive { at: to, count, bytes } => self.barrier_arrive(world, at, *to, (*count, *bytes))?,
            Code::BarrierWait { d, at: on, parity } => return self.barrier_wait(world, at, *d, *on, *parity),
            Code::SetRegisters { count, inc } => return self.set_registers(w, *count, *inc),
            Code::Copy(copy) => self.copy_issue(world, at, copy)?,
            Code::CopyCommit => self.copy_commit(w, pc, lanes),
            Code::CopyWait { left, read } => return Ok(self.copy_wait(w, lanes, *left, *read)),
            Code::ProductFence => self.warps[w].fences += 1,
            Code::ProductCommit => self.product_commit(w)?,
            Code::ProductWait { left } => return Ok(self.product_wait(world, w, pc, *left)),
            Code::Product(product) => self.product_issue(world, w, pc, product)?,
            Code::Return => return Ok(Then::Gone),
            other => return Err(Fault::new(Kind::Unsupported, format!("no execution for {other:?}"))),
        }
        Ok(Then::Next)
    }

    fn branch(&mut self, w: usize, g: usize, taken: u32, target: usize) {
        let groups = &mut self.warps[w].groups;
        let here = &mut groups[g];
        if taken == here.lanes {
            here.pc = target;
        } else {
            here.pc += 1;
            if taken != 0 {
                here.lanes &= !taken;
                groups.push(Group { pc: target, lanes: taken, state: State::Ready });
            }
        }
    }

    /// Lanes leave the kernel; others may have waited for them.
    fn leave(&mut self, w: usize, g: usize, lanes: u32) {
        let warp = &mut self.warps[w];
        warp.knowledge.publish(lanes, &mut self.left);
        warp.live &= !lanes;
        let group = &mut warp.groups[g];
        group.lanes &= !lanes;
        group.pc += 1;
        if group.lanes == 0 {
            warp.groups.remove(g);
        }
        for group in warp.groups.iter_mut().filter(|g| g.state == State::Converging) {
            group.state = State::Ready;
        }
    }
}
