//! The CTA's shared memory: bytes, and a shadow that says who wrote them and who has read since (PTX ISA, "Shared State
//! Space"; "Memory Consistency Model", data races; "Proxies").
//!
//! An access is compared with the last write, a write with the reads since then too; what is not ordered before it is a
//! race, whichever of the two the run happened to do first. A generic write must also lie behind its writer's proxy
//! fence before the async proxy touches the same bytes, and a generic read before the async proxy writes them: on the chip
//! a load that is under way does not hold back the arrival that gives its slot to the next copy.

use crate::clock::{Clock, Stamp};
use crate::finding::{Done, Fault, Kind};
use crate::shadow::Shadow;

/// Where the dynamic shared memory starts: the first 1024 bytes of the window are the system's.
pub(crate) const SHARED_BASE: u32 = 1024;

/// Bytes of a line of the shadow: rows of tiles are accessed so many at a time.
const LINE: usize = 16;

/// Reads that a cell keeps before it forgets those that are ordered before the newest.
const READS: usize = 12;

#[derive(Debug, Clone)]
struct Cell {
    write: Stamp,
    reads: Vec<Stamp>,
}

/// Who accesses, and what he knows.
#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    pub stamp: Stamp,
    pub clock: &'a Clock,
    /// Lanes of the accessor's warp whose program order he shares.
    pub own: Option<(usize, u32)>,
    /// What a finding calls it.
    pub does: &'static str,
}

/// Shared memory with its shadow.
#[derive(Debug)]
pub(crate) struct Shared {
    bytes: Vec<u8>,
    shadow: Shadow<Cell>,
}

impl Shared {
    pub fn new(bytes: usize) -> Shared {
        let cell = Cell { write: Stamp::NEVER, reads: Vec::new() };
        // Unwritten memory holds no zeros: 0xff and 0xffff are no number in any format of so many bits.
        Shared { bytes: vec![0xff; bytes], shadow: Shadow::new(bytes, LINE, cell) }
    }

    /// The place of an access, which must be inside and a multiple of `align`.
    pub fn offset(&self, address: u32, len: usize, align: u32) -> Done<usize> {
        let offset = address.wrapping_sub(SHARED_BASE) as usize;
        if address < SHARED_BASE || offset + len > self.bytes.len() {
            let end = SHARED_BASE as usize + self.bytes.len();
            return Err(Fault::new(
                Kind::OutOfBounds,
                format!("{len} bytes at shared address {address}; the kernel has {SHARED_BASE} to {end}"),
            ));
        }
        if !address.is_multiple_of(align) {
            let message = format!("shared address {address} is no multiple of {align}");
            return Err(Fault::new(Kind::OutOfBounds, message).at(address));
        }
        Ok(offset)
    }

    /// Bytes without any check.
    pub fn peek(&self, offset: usize, len: usize) -> &[u8] {
        &self.bytes[offset..offset + len]
    }

    /// A 16-bit value without any check.
    pub fn half(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.bytes[offset], self.bytes[offset + 1]])
    }

    /// Notes a read of `len` bytes at an offset.
    pub fn read(&mut self, offset: usize, len: usize, access: &Access<'_>) -> Done {
        self.shadow.each(offset, len, |cell, byte| cell.read(access, SHARED_BASE + byte as u32))
    }

    /// Notes a write of `len` bytes at an offset.
    pub fn write(&mut self, offset: usize, len: usize, access: &Access<'_>) -> Done {
        self.shadow.each(offset, len, |cell, byte| cell.write(access, SHARED_BASE + byte as u32))
    }

    /// Puts bytes without any check.
    pub fn poke(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

impl Cell {
    fn read(&mut self, access: &Access<'_>, address: u32) -> Done {
        if self.write.is_never() {
            let fault = Fault::new(Kind::NeverWritten, "the kernel reads shared memory that nothing has written");
            return Err(fault.by(access.stamp, access.does).at(address));
        }
        follows(&self.write, true, access, address)?;
        self.note(access);
        Ok(())
    }

    fn write(&mut self, access: &Access<'_>, address: u32) -> Done {
        follows(&self.write, true, access, address)?;
        for read in &self.reads {
            follows(read, false, access, address)?;
        }
        self.reads.clear();
        match self.write.same_access(&access.stamp) {
            true => self.write.lanes |= access.stamp.lanes,
            false => self.write = access.stamp,
        }
        Ok(())
    }

    fn note(&mut self, access: &Access<'_>) {
        if let Some(same) = self.reads.iter_mut().find(|r| r.same_access(&access.stamp)) {
            same.lanes |= access.stamp.lanes;
            return;
        }
        if self.reads.len() >= READS {
            self.reads.retain(|r| !r.before(access.clock, access.own));
        }
        self.reads.push(access.stamp);
    }
}

/// The access comes after an earlier one, by the order that threads know of.
#[inline]
fn follows(earlier: &Stamp, wrote: bool, access: &Access<'_>, address: u32) -> Done {
    let across = access.stamp.is_async() && !earlier.is_async() && !earlier.is_never();
    let does = if wrote { "writes" } else { "reads" };
    if !earlier.before(access.clock, access.own) {
        let fault = Fault::new(Kind::Race, "nothing orders these two accesses");
        return Err(fault.by(access.stamp, access.does).with(*earlier, does).at(address));
    }
    if across && !earlier.before_async(access.clock) {
        let message = match wrote {
            true => {
                "written in the generic proxy, accessed in the async proxy: the writer needs a proxy fence before the \
                 barrier that orders the two"
            }
            false => {
                "read in the generic proxy, written in the async proxy: the reader needs a proxy fence before the \
                 barrier that orders the two, or its load may take what comes after"
            }
        };
        let fault = Fault::new(Kind::ProxyFence, message);
        return Err(fault.by(access.stamp, access.does).with(*earlier, does).at(address));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{NeverWritten, ProxyFence, Race};

    #[test]
    fn neighbours_of_16_bits_are_told_apart() {
        let mut shared = Shared::new(16);
        let clock = Clock::new(64);
        let mut write = |warp, offset, len| {
            let stamp = Stamp::generic(warp, 1, 1, 0);
            shared.write(offset, len, &Access { stamp, clock: &clock, own: Some((warp, 1)), does: "writes" })
        };
        assert!(write(0, 4, 2).is_ok() && write(1, 6, 2).is_ok());
        assert_eq!(write(1, 4, 4).err().map(|fault| fault.kind), Some(Race));
    }

    #[test]
    fn accesses_must_be_ordered_and_fenced() {
        let mut shared = Shared::new(64);
        let mut clock = Clock::new(64);
        // Warp (none: a copy), whether it writes, and what comes of it.
        let mut access = |clock: &Clock, warp: Option<usize>, writes: bool, expected: Option<Kind>| {
            let stamp = warp.map_or(Stamp::asynchronous(1, 0, 1, 0), |w| Stamp::generic(w, 1, 1, 0));
            let access = Access { stamp, clock, own: warp.map(|w| (w, 1)), does: "touches" };
            let done = if writes { shared.write(8, 8, &access) } else { shared.read(8, 4, &access) };
            assert_eq!(done.err().map(|fault| fault.kind), expected, "{warp:?} {writes}");
        };
        access(&clock, Some(0), false, Some(NeverWritten));
        access(&clock, Some(0), true, None);
        access(&clock, Some(0), false, None);
        access(&clock, Some(1), false, Some(Race));
        clock.known[0] = 1;
        access(&clock, Some(1), false, None);
        access(&clock, None, false, Some(ProxyFence));
        clock.fenced[0] = 1;
        access(&clock, None, false, None);
        // Warp 1 and the copy have read the same bytes and nobody knows it.
        access(&clock, Some(0), true, Some(Race));
        clock.finish(0, 1);
        access(&clock, None, true, Some(Race));
        clock.known[32] = 1;
        access(&clock, None, true, Some(ProxyFence));
        clock.fenced[32] = 1;
        access(&clock, None, true, None);
    }
}
