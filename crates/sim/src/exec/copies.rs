//! Tensor copies between global and shared memory (PTX ISA, "cp.async.bulk.tensor", "cp.async.bulk.commit_group",
//! "cp.async.bulk.wait_group", "Tensor Copies": bounding box, out-of-boundary access, interleave and swizzle).
//!
//! A load writes its box, what lies outside of the tensor as zeros, and counts the bytes of the whole box on its barrier;
//! it may do so in pieces. A store reads its box at one time and writes the part inside of the tensor at a later one.

use ptx::Swizzle;

use super::arith::param_of_map;
use super::{Machinery, Then, World};
use crate::adversary::Question;
use crate::clock::Stamp;
use crate::cta::Cta;
use crate::engine::{Op, What};
use crate::finding::{Done, Fault, Kind};
use crate::knowledge::lanes_of;
use crate::launch::BoundTensor;
use crate::program::Copy;
use crate::shared::Access;
use crate::swizzle::permute;
use crate::warp::{CopyGroup, State};

/// Bytes that are permuted together, and that a box starts at a multiple of: an H200 takes any other start along the
/// innermost dimension for an illegal instruction, inside of the tensor and outside.
const CHUNK: u32 = 16;
/// Alignment of a box in shared memory.
const BOX_ALIGN: u32 = 128;
/// Clocks from the issue of a copy to its end, for the timeline: latency and 16 bytes a clock.
const LATENCY: u64 = 600;

/// Part of a row of a box that lies in the tensor: where in global memory, from which byte of the row, how many bytes.
struct RowPart {
    address: u64,
    skip: usize,
    len: usize,
}

impl BoundTensor {
    fn row_bytes(&self) -> u32 {
        self.box_dims[0] * self.element
    }

    fn rows(&self) -> u32 {
        self.box_dims[1..].iter().product()
    }

    /// The part of a row of the box at `coords` that lies in the tensor.
    fn row(&self, coords: &[i32], row: u32) -> Option<RowPart> {
        let (mut address, mut rest) = (self.base, row);
        for (d, &coord) in coords.iter().enumerate().skip(1) {
            let index = i64::from(coord) + i64::from(rest % self.box_dims[d]);
            rest /= self.box_dims[d];
            if index < 0 || index as u64 >= self.dims[d] {
                return None;
            }
            address += index as u64 * self.strides[d];
        }
        let first = i64::from(coords[0]);
        let from = first.max(0);
        let to = (first + i64::from(self.box_dims[0])).min(self.dims[0] as i64);
        let element = i64::from(self.element);
        (from < to).then(|| RowPart {
            address: address + (from * element) as u64,
            skip: ((from - first) * element) as usize,
            len: ((to - from) * element) as usize,
        })
    }
}

impl Op {
    fn access(&self, later: u32, does: &'static str) -> Access<'_> {
        let stamp = Stamp::asynchronous(self.warp, self.slot, self.time + later, self.pc);
        Access { stamp, clock: &self.clock, own: None, does }
    }
}

impl Cta<'_> {
    /// Each lane issues a copy of its own.
    pub(super) fn copy_issue(&mut self, world: &mut World<'_>, (w, pc, lanes): Machinery, copy: &Copy) -> Done {
        for lane in lanes_of(lanes) {
            let warp = &self.warps[w];
            let map = warp.regs64[copy.map as usize][lane];
            let tensor = param_of_map(map).filter(|&p| self.program.tensor(p).is_some()).ok_or_else(|| {
                let message = format!("{map:#x} is no generic address of a tensor map; cvta.param gives it");
                Fault::new(Kind::OutOfBounds, message)
            })?;
            let coords: Vec<i32> = copy.coords.iter().map(|&c| warp.s32(c)[lane] as i32).collect();
            let shared = warp.shared_address(copy.shared, lane);
            let issued = warp.now;
            self.check_box(tensor, &coords, shared)?;
            let clock = warp.knowledge.snapshot(lane);
            let (slot, time, what) = match copy.barrier {
                Some(barrier) => {
                    let barrier = warp.shared_address(barrier, lane);
                    let object = self.barrier(w, lane, barrier)?;
                    if !object.visible {
                        let init = object.init;
                        let message = "the barrier's initialisation is not fenced for the async proxy";
                        let fault = Fault::new(Kind::Uninitialised, message).with(init, "initialises");
                        return Err(fault.at(barrier));
                    }
                    let phase = object.phase;
                    let (slot, time) = self.engine.slot_of_phase((barrier, phase, w, lane), &clock, pc);
                    (slot, time, What::Load { tensor, coords, to: shared, barrier, phase, row: 0 })
                }
                None => {
                    let group = self.open_copies(w, pc, lane);
                    let (number, taken) = (group.number, group.slot.map(|slot| (slot, group.time)));
                    let (slot, time) = taken.unwrap_or_else(|| self.engine.allocate(&clock, 2, w, pc));
                    let group = self.open_copies(w, pc, lane);
                    (group.slot, group.time) = (Some(slot), time);
                    group.unread += 1;
                    group.unwritten += 1;
                    (slot, time, What::Store { tensor, coords, from: shared, group: number, data: None })
                }
            };
            self.warps[w].knowledge.time += 1;
            let due = self.engine.delay(world.adversary);
            let op = Op { due, warp: w, pc, clock, slot, time, issued, what };
            self.issue(world, op)?;
        }
        Ok(())
    }

    fn check_box(&self, tensor: usize, coords: &[i32], shared: u32) -> Done {
        let Some(Some(bound)) = self.bound.tensors.get(tensor) else {
            return Err(Fault::new(Kind::Unsupported, "no tensor map was given"));
        };
        let rank = coords.len();
        if rank != bound.box_dims.len() {
            let message = format!("{rank} coordinates for a tensor map of {} dimensions", bound.box_dims.len());
            return Err(Fault::new(Kind::Disagreement, message));
        }
        let first = i64::from(coords[0]) * i64::from(bound.element);
        if first % i64::from(CHUNK) != 0 {
            let message =
                format!("a box that starts at byte {first} of a row; the copy engine starts at multiples of {CHUNK}");
            return Err(Fault::new(Kind::OutOfBounds, message));
        }
        if bound.swizzle != Swizzle::None && bound.row_bytes() != bound.swizzle.row_bytes() {
            let message = format!("a box with rows of {} bytes, narrower than its swizzle", bound.row_bytes());
            return Err(Fault::new(Kind::Unsupported, message));
        }
        self.shared.offset(shared, (bound.row_bytes() * bound.rows()) as usize, BOX_ALIGN)?;
        Ok(())
    }

    /// The group that a lane's stores join until it commits.
    fn open_copies(&mut self, w: usize, pc: usize, lane: usize) -> &mut CopyGroup {
        let warp = &mut self.warps[w];
        let open = warp.copies.iter().position(|g| g.lane == lane && !g.committed);
        let index = open.unwrap_or_else(|| {
            warp.numbered += 1;
            let number = warp.numbered;
            warp.copies.push(CopyGroup {
                number,
                lane,
                slot: None,
                time: 0,
                unread: 0,
                unwritten: 0,
                committed: false,
                pc,
            });
            warp.copies.len() - 1
        });
        let group = &mut warp.copies[index];
        group.pc = pc;
        group
    }

    pub(super) fn copy_commit(&mut self, w: usize, pc: usize, lanes: u32) {
        for lane in lanes_of(lanes) {
            self.open_copies(w, pc, lane).committed = true;
        }
    }

    /// The groups of a lane that a wait covers.
    fn covered(&self, w: usize, lane: usize, left: u32) -> impl Iterator<Item = &CopyGroup> {
        let own = move |g: &&CopyGroup| g.lane == lane && g.committed;
        let groups = &self.warps[w].copies;
        let all = groups.iter().filter(own).count();
        groups.iter().filter(own).take(all.saturating_sub(left as usize))
    }

    /// Whether a wait of all these lanes is over.
    pub(crate) fn copies_over(&self, w: usize, lanes: u32, left: u32, read: bool) -> bool {
        let over = |g: &CopyGroup| if read { g.unread == 0 } else { g.unwritten == 0 };
        lanes_of(lanes).all(|lane| self.covered(w, lane, left).all(over))
    }

    pub(super) fn copy_wait(&mut self, w: usize, lanes: u32, left: u32, read: bool) -> Then {
        if !self.copies_over(w, lanes, left, read) {
            return Then::Wait(State::Copies { left, read });
        }
        for lane in lanes_of(lanes) {
            let known = self.covered(w, lane, left).filter_map(|g| Some((g.slot?, g.time + u32::from(!read))));
            let known: Vec<(usize, u32)> = known.collect();
            let numbers: Vec<u64> = self.covered(w, lane, left).map(|g| g.number).collect();
            let warp = &mut self.warps[w];
            for (slot, time) in known {
                warp.knowledge.finish(1 << lane, warp.live, slot, time);
            }
            if !read {
                warp.copies.retain(|g| !numbers.contains(&g.number));
            }
        }
        Then::Next
    }

    /// A load comes in, or a piece of it. True if that was the last.
    pub(crate) fn load_arrives(&mut self, world: &mut World<'_>, op: &mut Op) -> Done<bool> {
        let What::Load { tensor, ref coords, to, barrier, phase, row } = op.what else { return Ok(true) };
        let bound = self.bound;
        let Some(Some(tensor)) = bound.tensors.get(tensor) else { return Ok(true) };
        let (bytes, rows) = (tensor.row_bytes(), tensor.rows());
        let split = rows - row > 1 && world.adversary.choose(Question::Split, 2) != 0;
        let end = if split { row + (rows - row) / 2 } else { rows };
        let access = op.access(0, "loads into");
        for r in row..end {
            let mut line = vec![0; bytes as usize];
            if let Some(part) = tensor.row(coords, r) {
                let align = u64::from(tensor.element);
                let reads = Access { does: "loads", ..access };
                let source = world.global.read(self.id, part.address, part.len, align, &reads)?;
                line[part.skip..part.skip + part.len].copy_from_slice(source);
            }
            for (i, chunk) in line.chunks(CHUNK as usize).enumerate() {
                let address = permute(tensor.swizzle, to + r * bytes + i as u32 * CHUNK);
                let offset = self.shared.offset(address, chunk.len(), CHUNK)?;
                self.shared.write(offset, chunk.len(), &access)?;
                self.shared.poke(offset, chunk);
            }
        }
        let when = op.issued + LATENCY + u64::from(end * bytes / CHUNK);
        let Some(object) = self.barriers.get_mut(&barrier) else { return Ok(true) };
        object.when = object.when.max(when);
        let complete = object.transfer((end - row) * bytes, phase, op.slot, op.time);
        if complete.map_err(|f| f.at(barrier).by(access.stamp, "loads"))? {
            self.phase_complete(world, barrier);
        }
        if end == rows && world.trace.is_on() {
            let name = self.place_name(to);
            world.trace.copy(self.id, &format!("load {name}"), op.issued, when);
        }
        if let What::Load { row, .. } = &mut op.what {
            *row = end;
        }
        Ok(end == rows)
    }

    /// A store reads, or writes what it has read. True if that was the last.
    pub(crate) fn store_moves(&mut self, world: &mut World<'_>, op: &mut Op) -> Done<bool> {
        let What::Store { tensor, ref coords, from, group, ref data } = op.what else { return Ok(true) };
        let bound = self.bound;
        let Some(Some(tensor)) = bound.tensors.get(tensor) else { return Ok(true) };
        let (bytes, rows) = (tensor.row_bytes(), tensor.rows());
        let own = self.warps[op.warp].copies.iter_mut().find(|g| g.number == group);
        if let Some(data) = data {
            let access = op.access(1, "stores to");
            for (r, line) in (0..rows).zip(data.chunks(bytes as usize)) {
                if let Some(part) = tensor.row(coords, r) {
                    let part_of_line = &line[part.skip..part.skip + part.len];
                    world.global.write(self.id, part.address, part_of_line, u64::from(tensor.element), &access)?;
                }
            }
            if let Some(group) = own {
                group.unwritten -= 1;
            }
            return Ok(true);
        }
        if let Some(group) = own {
            group.unread -= 1;
        }
        let access = op.access(0, "stores from");
        let mut data = Vec::with_capacity((bytes * rows) as usize);
        for at in (0..bytes * rows).step_by(CHUNK as usize) {
            let offset = self.shared.offset(permute(tensor.swizzle, from + at), CHUNK as usize, CHUNK)?;
            self.shared.read(offset, CHUNK as usize, &access)?;
            data.extend_from_slice(self.shared.peek(offset, CHUNK as usize));
        }
        if world.trace.is_on() {
            let name = self.place_name(from);
            world.trace.copy(self.id, &format!("store {name}"), op.issued, op.issued + LATENCY);
        }
        if let What::Store { data: read, .. } = &mut op.what {
            *read = Some(data);
        }
        Ok(false)
    }
}
