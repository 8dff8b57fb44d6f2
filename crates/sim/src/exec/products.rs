//! Warpgroup products (PTX ISA, "wgmma.mma_async", "Register Fragments", "Matrix Descriptor Format", "wgmma.fence",
//! "wgmma.commit_group", "wgmma.wait_group").
//!
//! Each warp's quarter is an operation of its own: it computes the warp's 16 rows, but accesses the operands of the whole
//! product with what *this* warp knows, so that every warp of the group must know the operands ready. A group is complete
//! for any warp when it is for all four. Operands and A registers are read when the adversary completes a quarter. How the
//! products are added up is `sums`' affair.

use super::convert::single;
use super::sums::{self, Sums};
use super::{Then, World};
use crate::clock::{ALL, LANES, Stamp};
use crate::cta::Cta;
use crate::engine::{Op, What};
use crate::finding::{Done, Fault, Kind};
use crate::program::{Code, Element, OperandA, Product};
use crate::shared::Access;
use crate::swizzle::Descriptor;
use crate::warp::{ProductGroup, State, Warp};

/// Rows of a product, and of a warp's quarter.
const ROWS: u32 = 64;
const QUARTER: usize = 16;
/// Bytes of k that one product consumes of every row: 16 elements of 16 bits or 32 of 8.
const DEPTH_BYTES: u32 = 32;
/// Bytes of a chunk.
const CHUNK: u32 = 16;
/// Warps of a warpgroup.
const WARPS: usize = 4;

impl ProductGroup {
    fn empty(number: u64, pc: usize) -> ProductGroup {
        ProductGroup {
            number,
            slot: None,
            time: 0,
            incomplete: 0,
            committed: false,
            regs: Vec::new(),
            pc,
            from: 0,
            until: 0,
        }
    }
}

impl Cta<'_> {
    pub(super) fn product_issue(&mut self, world: &mut World<'_>, w: usize, pc: usize, product: &Product) -> Done {
        let warpgroup = w / WARPS;
        if (warpgroup + 1) * WARPS > self.warps.len() || self.warps[w].live != ALL {
            return Err(Fault::new(Kind::Diverged, "a product takes four whole warps"));
        }
        let warp = &mut self.warps[w];
        warp.fenced(&product.d)?;
        let (a, a_regs): (u64, &[u32]) = match &product.a {
            OperandA::Shared { descriptor, .. } => (uniform(warp, *descriptor)?, &[]),
            OperandA::Registers(regs) => (0, regs),
        };
        warp.fenced(a_regs)?;
        let b = uniform(warp, product.b)?;
        let keep = match warp.sp(product.scale_d) {
            0 => false,
            ALL => true,
            _ => return Err(Fault::new(Kind::Diverged, "the lanes disagree about scale-d")),
        };
        warp.knowledge.settle(warp.live);
        let clock = warp.knowledge.all().clone();
        if warp.products.back().is_none_or(|g| g.committed) {
            warp.numbered += 1;
            let fresh = ProductGroup::empty(warp.numbered, pc);
            warp.products.push_back(fresh);
        }
        let index = warp.waited + warp.products.len() as u64 - 1;
        let Some(group) = warp.products.back_mut() else { return Ok(()) };
        let (slot, time) = match group.slot {
            Some(slot) => (slot, group.time),
            None => self.engine.slot_of_group((warpgroup, index), &clock, w, pc),
        };
        (group.slot, group.time, group.pc) = (Some(slot), time, pc);
        group.incomplete += 1;
        for &r in product.d.iter().chain(a_regs) {
            if !group.regs.contains(&r) {
                group.regs.push(r);
                warp.in_flight[r as usize] += 1;
            }
        }
        let (sequence, number) = (warp.issued, group.number);
        warp.issued += 1;
        warp.knowledge.time += 1;
        let issued = warp.now;
        if !self.engine.agree(warpgroup, sequence, (pc, a, b)) {
            let message = "the warps of the warpgroup come to different products, or with different descriptors";
            return Err(Fault::new(Kind::Disagreement, message));
        }
        let due = self.engine.delay(world.adversary);
        let what = What::Product { sequence, group: number, a, b, keep };
        self.issue(world, Op { due, warp: w, pc, clock, slot, time, issued, what })
    }

    pub(super) fn product_commit(&mut self, w: usize) -> Done {
        let warp = &mut self.warps[w];
        match warp.products.back_mut().filter(|g| !g.committed) {
            Some(group) => group.committed = true,
            None => {
                warp.numbered += 1;
                let group = ProductGroup { committed: true, ..ProductGroup::empty(warp.numbered, 0) };
                warp.products.push_back(group);
            }
        }
        Ok(())
    }

    pub(super) fn product_wait(&mut self, world: &mut World<'_>, w: usize, pc: usize, left: u32) -> Then {
        if !self.products_over(w, left) {
            return Then::Wait(State::Products(left));
        }
        let line = self.program.code.get(pc).map_or(0, |i| i.line);
        let warp = &mut self.warps[w];
        while warp.committed() > left as usize {
            let Some(group) = warp.products.pop_front() else { break };
            warp.waited += 1;
            if let Some(slot) = group.slot {
                warp.knowledge.finish(ALL, warp.live, slot, group.time);
            }
            group.regs.iter().for_each(|&r| warp.in_flight[r as usize] -= 1);
            let before = warp.now;
            warp.now = warp.now.max(group.until);
            world.trace.product(self.id, w, group.from, group.until);
            world.trace.warp(self.id, w, || format!("waits for products (line {line})"), before, warp.now);
        }
        Then::Next
    }

    /// Whether no more than so many of a warp's groups of products are in flight. A group is the warpgroup's: it is complete
    /// when the parts of all four warps are.
    pub(crate) fn products_over(&self, w: usize, left: u32) -> bool {
        let warp = &self.warps[w];
        let covered = warp.committed().saturating_sub(left as usize);
        let first = w / WARPS * WARPS;
        let until = warp.waited + covered as u64;
        covered == 0 || self.warps[first..first + WARPS].iter().all(|peer| peer.complete_up_to(until))
    }

    /// Whether all four warps have come to the product of this operation.
    pub(crate) fn product_may_run(&self, op: &Op) -> bool {
        let What::Product { sequence, .. } = op.what else { return true };
        let first = op.warp / WARPS * WARPS;
        self.warps[first..first + WARPS].iter().all(|w| w.issued > sequence)
    }

    /// A warp's quarter of a product.
    pub(crate) fn product_completes(&mut self, op: &Op) -> Done {
        let What::Product { group, a, b, keep, .. } = op.what else { return Ok(()) };
        let program = self.program;
        let Code::Product(product) = &program.code[op.pc].code else { return Ok(()) };
        let stamp = Stamp::asynchronous(op.warp, op.slot, op.time, op.pc);
        let access = Access { stamp, clock: &op.clock, own: None, does: "multiplies" };
        let n = product.columns;

        let [of_a, of_b] = product.elements;
        let depth = (DEPTH_BYTES / of_a.bytes()) as usize;
        let mut left = vec![0f32; QUARTER * depth];
        match &product.a {
            OperandA::Shared { transposed, .. } => {
                let tile = self.operand(a, ROWS, *transposed, of_a, &access)?;
                let first = op.warp % WARPS * QUARTER;
                for (row, line) in left.chunks_exact_mut(depth).enumerate() {
                    for (k, value) in line.iter_mut().enumerate() {
                        *value = tile[k * ROWS as usize + first + row];
                    }
                }
            }
            OperandA::Registers(regs) => fragment(&self.warps[op.warp], regs, of_a, &mut left),
        }
        let right = self.operand(b, n as u32, product.b_transposed, of_b, &access)?;
        if product.negate_a != product.negate_b {
            left.iter_mut().for_each(|v| *v = -*v);
        }

        let warp = &mut self.warps[op.warp];
        let mut sums = vec![0f32; QUARTER * n];
        if keep {
            each_element(&product.d, |r, lane, row, column| {
                sums[row * n + column] = f32::from_bits(warp.regs32[r as usize][lane]);
            });
        }
        for (row, line) in left.chunks_exact(depth).zip(sums.chunks_exact_mut(n)) {
            match (self.sums, of_a, of_b) {
                (Sums::Truncated, Element::Eight(a), Element::Eight(b)) => {
                    sums::truncated(line, row, &right, [a, b]);
                }
                _ => sums::single(line, row, &right),
            }
        }
        each_element(&product.d, |r, lane, row, column| {
            warp.regs32[r as usize][lane] = sums[row * n + column].to_bits();
        });

        let core = &mut self.engine.free[op.warp % WARPS];
        let start = op.issued.max(*core);
        *core = start + n as u64 / 2;
        if let Some(group) = warp.products.iter_mut().find(|g| g.number == group) {
            group.incomplete -= 1;
            group.until = group.until.max(*core);
            group.from = if group.from == 0 { start } else { group.from.min(start) };
        }
        Ok(())
    }

    /// Reads an operand of `mn` rows (or columns) from shared memory: its elements, k by k.
    fn operand(
        &mut self,
        descriptor: u64,
        mn: u32,
        transposed: bool,
        element: Element,
        access: &Access<'_>,
    ) -> Done<Vec<f32>> {
        let descriptor = Descriptor::decode(descriptor)?;
        let (bytes, depth) = (element.bytes(), DEPTH_BYTES / element.bytes());
        let mut tile = vec![0f32; (depth * mn) as usize];
        let (across, along) = if transposed { (depth, mn) } else { (mn, depth) };
        for line in 0..across {
            for first in (0..along).step_by((CHUNK / bytes) as usize) {
                let address = match transposed {
                    true => descriptor.mn_major(first, line),
                    false => descriptor.k_major(line, first, bytes),
                };
                let offset = self.shared.offset(address, CHUNK as usize, CHUNK)?;
                self.shared.read(offset, CHUNK as usize, access)?;
                for (i, bits) in self.shared.peek(offset, CHUNK as usize).chunks_exact(bytes as usize).enumerate() {
                    let (m, k) = if transposed { (first + i as u32, line) } else { (line, first + i as u32) };
                    tile[(k * mn + m) as usize] = number(element, bits);
                }
            }
        }
        Ok(tile)
    }
}

impl Warp {
    fn committed(&self) -> usize {
        self.products.iter().filter(|g| g.committed).count()
    }

    /// Whether this warp's part of its first groups of products is complete.
    fn complete_up_to(&self, groups: u64) -> bool {
        let own = groups.saturating_sub(self.waited) as usize;
        self.products.len() >= own && self.products.iter().take(own).all(|g| g.committed && g.incomplete == 0)
    }
}

fn uniform(warp: &Warp, register: u32) -> Done<u64> {
    let values = &warp.regs64[register as usize];
    match values.iter().all(|v| *v == values[0]) {
        true => Ok(values[0]),
        false => Err(Fault::new(Kind::Diverged, "the lanes disagree about a matrix descriptor")),
    }
}

/// Registers of the accumulator with lane, row in the quarter and column.
fn each_element(regs: &[u32], mut f: impl FnMut(u32, usize, usize, usize)) {
    for (i, &r) in regs.iter().enumerate() {
        for lane in 0..LANES {
            f(r, lane, lane / 4 + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * (lane % 4) + (i & 1));
        }
    }
}

/// An element as it lies in memory.
fn number(element: Element, bits: &[u8]) -> f32 {
    match (element, bits) {
        (Element::Half(half), &[low, high]) => single(half, u16::from_le_bytes([low, high])),
        (Element::Eight(format), &[bits]) => format.to_single(bits),
        _ => f32::NAN,
    }
}

/// The A operand from four registers a lane: each holds four bytes of a row, the second of a pair eight rows further down,
/// the second pair half the depth further on.
fn fragment(warp: &Warp, regs: &[u32], element: Element, into: &mut [f32]) {
    let bytes = element.bytes() as usize;
    let depth = DEPTH_BYTES as usize / bytes;
    for (r, &register) in regs.iter().enumerate() {
        for (lane, word) in warp.regs32[register as usize].iter().enumerate() {
            let row = lane / 4 + 8 * (r & 1);
            let k = (16 * (r >> 1) + 4 * (lane % 4)) / bytes;
            for (i, bits) in word.to_le_bytes().chunks_exact(bytes).enumerate() {
                into[row * depth + k + i] = number(element, bits);
            }
        }
    }
}
