//! Generic accesses to shared and global memory (PTX ISA, "ld", "st", "atom", "stmatrix", "ldmatrix").

use super::{Machinery, World};
use crate::clock::{ALL, LANES, Stamp};
use crate::cta::Cta;
use crate::finding::Done;
use crate::knowledge::lanes_of;
use crate::program::{At32, At64, Atomic, Regs, S32};
use crate::shared::Access;
use crate::warp::Warp;

/// Bytes of a row of an 8x8 matrix.
const ROW: usize = 16;

impl Regs {
    fn bytes(&self) -> usize {
        match self {
            Regs::W16(r) => 2 * r.len(),
            Regs::W32(r) => 4 * r.len(),
            Regs::W64(r) => 8 * r.len(),
        }
    }

    fn load(&self, warp: &mut Warp, lane: usize, bytes: &[u8]) {
        match self {
            Regs::W16(regs) => {
                for (&r, b) in regs.iter().zip(bytes.chunks_exact(2)) {
                    warp.regs32[r as usize][lane] = u32::from(u16::from_le_bytes([b[0], b[1]]));
                }
            }
            Regs::W32(regs) => {
                for (&r, b) in regs.iter().zip(bytes.chunks_exact(4)) {
                    warp.regs32[r as usize][lane] = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                }
            }
            Regs::W64(regs) => {
                for (&r, b) in regs.iter().zip(bytes.chunks_exact(8)) {
                    let value = b.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b));
                    warp.regs64[r as usize][lane] = value;
                }
            }
        }
    }

    fn store(&self, warp: &Warp, lane: usize) -> Vec<u8> {
        match self {
            Regs::W16(regs) => {
                regs.iter().flat_map(|&r| (warp.regs32[r as usize][lane] as u16).to_le_bytes()).collect()
            }
            Regs::W32(regs) => regs.iter().flat_map(|&r| warp.regs32[r as usize][lane].to_le_bytes()).collect(),
            Regs::W64(regs) => regs.iter().flat_map(|&r| warp.regs64[r as usize][lane].to_le_bytes()).collect(),
        }
    }
}

/// A generic access of one lane.
fn by_lane<'a>(warp: &'a Warp, lane: usize, pc: usize, does: &'static str) -> Access<'a> {
    Access {
        stamp: Stamp::generic(warp.index, 1 << lane, warp.knowledge.time, pc),
        clock: warp.knowledge.of(lane),
        own: Some((warp.index, 1 << lane)),
        does,
    }
}

/// A generic access of all lanes together.
fn by_warp<'a>(warp: &'a Warp, pc: usize, does: &'static str) -> Access<'a> {
    Access {
        stamp: Stamp::generic(warp.index, ALL, warp.knowledge.time, pc),
        clock: warp.knowledge.all(),
        own: Some((warp.index, ALL)),
        does,
    }
}

impl Cta<'_> {
    pub(super) fn load_shared(&mut self, w: usize, pc: usize, lanes: u32, regs: &Regs, at: At32) -> Done {
        let len = regs.bytes();
        for lane in lanes_of(lanes) {
            let warp = &mut self.warps[w];
            let offset = self.shared.offset(warp.shared_address(at, lane), len, len as u32)?;
            self.shared.read(offset, len, &by_lane(warp, lane, pc, "reads"))?;
            regs.load(warp, lane, self.shared.peek(offset, len));
        }
        Ok(())
    }

    pub(super) fn store_shared(&mut self, w: usize, pc: usize, lanes: u32, regs: &Regs, at: At32) -> Done {
        let len = regs.bytes();
        for lane in lanes_of(lanes) {
            let warp = &self.warps[w];
            let offset = self.shared.offset(warp.shared_address(at, lane), len, len as u32)?;
            self.shared.write(offset, len, &by_lane(warp, lane, pc, "writes"))?;
            self.shared.poke(offset, &regs.store(warp, lane));
        }
        Ok(())
    }

    pub(super) fn load_global(
        &mut self,
        world: &mut World<'_>,
        (w, pc, lanes): Machinery,
        (regs, at): (&Regs, At64),
        constant: bool,
    ) -> Done {
        let len = regs.bytes();
        for lane in lanes_of(lanes) {
            let warp = &self.warps[w];
            let address = warp.global_address(at, lane);
            let access = by_lane(warp, lane, pc, "reads");
            let bytes = match constant {
                true => world.global.read_constant(self.id, address, len, &access),
                false => world.global.read(self.id, address, len, len as u64, &access),
            };
            let bytes = bytes?.to_vec();
            regs.load(&mut self.warps[w], lane, &bytes);
        }
        Ok(())
    }

    pub(super) fn store_global(
        &mut self,
        world: &mut World<'_>,
        (w, pc, lanes): Machinery,
        regs: &Regs,
        at: At64,
    ) -> Done {
        let len = regs.bytes() as u64;
        for lane in lanes_of(lanes) {
            let warp = &self.warps[w];
            let access = by_lane(warp, lane, pc, "writes");
            let bytes = regs.store(warp, lane);
            world.global.write(self.id, warp.global_address(at, lane), &bytes, len, &access)?;
        }
        Ok(())
    }

    pub(super) fn atomic(
        &mut self,
        world: &mut World<'_>,
        (w, pc, lanes): Machinery,
        (op, d, at, b): (Atomic, Option<u32>, At64, S32),
    ) -> Done {
        let operands = self.warps[w].s32(b);
        for lane in lanes_of(lanes) {
            let warp = &self.warps[w];
            let access = by_lane(warp, lane, pc, "updates");
            let target = (warp.global_address(at, lane), operands[lane]);
            let released = warp.knowledge.released(lane);
            let (old, acquired) = world.global.atomic(op, self.id, target, &access, released)?;
            // A reduction gives nothing back, and so acquires nothing.
            let Some(d) = d else { continue };
            let warp = &mut self.warps[w];
            warp.regs32[d as usize][lane] = old;
            if let Some(acquired) = acquired {
                warp.knowledge.observe(lane, &acquired);
            }
        }
        Ok(())
    }

    pub(super) fn load_acquire(&mut self, world: &mut World<'_>, (w, pc, lanes): Machinery, d: u32, at: At64) -> Done {
        self.looked = true;
        for lane in lanes_of(lanes) {
            let warp = &self.warps[w];
            let access = by_lane(warp, lane, pc, "acquires");
            let (value, acquired) = world.global.acquire(self.id, warp.global_address(at, lane), &access)?;
            let warp = &mut self.warps[w];
            warp.regs32[d as usize][lane] = value;
            if let Some(acquired) = acquired {
                warp.knowledge.acquire(1 << lane, warp.live, &acquired);
            }
        }
        Ok(())
    }

    pub(super) fn store_release(&mut self, world: &mut World<'_>, (w, pc, lanes): Machinery, a: u32, at: At64) -> Done {
        for lane in lanes_of(lanes) {
            let warp = &self.warps[w];
            let access = by_lane(warp, lane, pc, "releases");
            let target = (warp.global_address(at, lane), warp.regs32[a as usize][lane]);
            let released = warp.knowledge.snapshot(lane);
            world.global.atomic(Atomic::Exchange, self.id, target, &access, Some(&released))?;
        }
        self.warps[w].knowledge.time += 1;
        Ok(())
    }

    /// Rows of 16 bytes at the addresses of lanes 0 to 8n-1; row i of a matrix goes between memory and lanes 4i to 4i+3.
    pub(super) fn store_matrix(&mut self, w: usize, pc: usize, regs: &[u32], at: At32, transposed: bool) -> Done {
        let warp = &mut self.warps[w];
        warp.knowledge.settle(warp.live);
        for row in 0..8 * regs.len() {
            let warp = &self.warps[w];
            let values = &warp.regs32[regs[row / 8] as usize];
            let bytes: Vec<u8> =
                (0..8).flat_map(|column| element(values, row % 8, column, transposed).to_le_bytes()).collect();
            let offset = self.shared.offset(warp.shared_address(at, row % LANES), ROW, ROW as u32)?;
            self.shared.write(offset, ROW, &by_warp(warp, pc, "writes"))?;
            self.shared.poke(offset, &bytes);
        }
        Ok(())
    }

    pub(super) fn load_matrix(&mut self, w: usize, pc: usize, regs: &[u32], at: At32, transposed: bool) -> Done {
        let warp = &mut self.warps[w];
        warp.knowledge.settle(warp.live);
        // All rows are read before a register changes: an address may be among the registers.
        let mut loaded = vec![[0u32; LANES]; regs.len()];
        for row in 0..8 * regs.len() {
            let warp = &self.warps[w];
            let offset = self.shared.offset(warp.shared_address(at, row % LANES), ROW, ROW as u32)?;
            self.shared.read(offset, ROW, &by_warp(warp, pc, "reads"))?;
            for column in 0..8 {
                let (lane, high) = holder(row % 8, column, transposed);
                let value = u32::from(self.shared.half(offset + 2 * column));
                loaded[row / 8][lane] |= if high { value << 16 } else { value };
            }
        }
        for (&r, values) in regs.iter().zip(&loaded) {
            self.warps[w].regs32[r as usize] = *values;
        }
        Ok(())
    }
}

/// The lane that holds an element of an 8x8 matrix, and whether in its register's upper half.
fn holder(row: usize, column: usize, transposed: bool) -> (usize, bool) {
    let (row, column) = if transposed { (column, row) } else { (row, column) };
    (4 * row + column / 2, column % 2 == 1)
}

fn element(values: &[u32; LANES], row: usize, column: usize, transposed: bool) -> u16 {
    let (lane, high) = holder(row, column, transposed);
    (values[lane] >> if high { 16 } else { 0 }) as u16
}
