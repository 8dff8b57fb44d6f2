//! Global memory: buffers far apart from each other, and a shadow of what a kernel may write that says who wrote and who
//! has read since (PTX ISA, "Global State Space"; "Memory Consistency Model").
//!
//! CTAs are ordered by nothing but atomics between fences at GPU scope; two accesses of different CTAs that are not so
//! ordered, one of them a write that is no atomic, are a race. Acquiring loads and releasing stores are atomics that need
//! no fence. What is read through the path for constants (`ld.global.nc`) must stay as it is as long as the kernel runs.

use std::collections::HashMap;

use crate::clock::{Clock, Stamp};
use crate::finding::{Done, Fault, Kind};
use crate::program::Atomic;
use crate::shadow::Shadow;
use crate::shared::Access;

/// Bytes from one buffer to the next: no offset that a kernel computes by mistake reaches a neighbour.
const APART: u64 = 1 << 40;
/// Bytes of a line of the shadow, and of an atomic.
const WORD: usize = 4;
/// Reads that a cell keeps.
const READS: usize = 12;

/// What a kernel may do with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Input,
    Output,
    Both,
}

#[derive(Debug, Clone)]
struct Cell {
    write: (u32, Stamp),
    atomic: bool,
    /// Read as a constant.
    constant: bool,
    reads: Vec<(u32, Stamp)>,
}

/// A buffer.
#[derive(Debug)]
pub(crate) struct Area {
    pub name: String,
    pub base: u64,
    bytes: Vec<u8>,
    used: Use,
    shadow: Shadow<Cell>,
}

/// All buffers, and what atomics on them have released.
#[derive(Debug)]
pub(crate) struct Global {
    areas: Vec<Area>,
    released: HashMap<u64, Clock>,
}

impl Area {
    pub fn new(name: &str, bytes: Vec<u8>, used: Use) -> Area {
        let cell = Cell { write: (0, Stamp::NEVER), atomic: false, constant: false, reads: Vec::new() };
        let shadowed = if used == Use::Input { 0 } else { bytes.len() };
        Area { name: name.to_owned(), base: 0, bytes, used, shadow: Shadow::new(shadowed, WORD, cell) }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl Global {
    pub fn new(mut areas: Vec<Area>) -> Global {
        for (i, area) in areas.iter_mut().enumerate() {
            area.base = (i as u64 + 1) * APART;
        }
        Global { areas, released: HashMap::new() }
    }

    pub fn find(&self, name: &str) -> Option<&Area> {
        self.areas.iter().find(|a| a.name == name)
    }

    /// The buffers and what is in them.
    pub fn into_buffers(self) -> Vec<(String, Vec<u8>)> {
        self.areas.into_iter().map(|a| (a.name, a.bytes)).collect()
    }

    fn place(&self, address: u64, len: usize, align: u64) -> Done<(usize, usize)> {
        let index = (address / APART).wrapping_sub(1) as usize;
        let offset = (address % APART) as usize;
        let outside = |message: String| Err(Fault::new(Kind::OutOfBounds, message));
        let Some(area) = self.areas.get(index) else {
            return outside(format!("global address {address:#x} lies in no buffer"));
        };
        if offset + len > area.bytes.len() {
            return outside(format!(
                "bytes {offset} to {} of buffer {}, which has {}",
                offset + len,
                area.name,
                area.len()
            ));
        }
        if !address.is_multiple_of(align) {
            return outside(format!(
                "{len} bytes at byte {offset} of buffer {}: not on a multiple of {align}",
                area.name
            ));
        }
        Ok((index, offset))
    }

    /// Reads bytes; a vector of a thread lies on its own size, a copy on its elements'.
    pub fn read(&mut self, cta: u32, address: u64, len: usize, align: u64, access: &Access<'_>) -> Done<&[u8]> {
        let (index, offset) = self.place(address, len, align)?;
        self.look(cta, (index, offset, len), access, false)?;
        Ok(&self.areas[index].bytes[offset..offset + len])
    }

    /// Reads bytes that the kernel must leave as they are.
    pub fn read_constant(&mut self, cta: u32, address: u64, len: usize, access: &Access<'_>) -> Done<&[u8]> {
        let (index, offset) = self.place(address, len, len as u64)?;
        let Area { name, used, shadow, .. } = &mut self.areas[index];
        if *used != Use::Input {
            shadow.each(offset, len, |cell, at| {
                cell.constant = true;
                if cell.write.1.is_never() {
                    return Ok(());
                }
                let message = format!("byte {at} of {name} is read as a constant, and the kernel has written it");
                Err(against(Fault::new(Kind::Race, message), cta, access, cell.write, "writes"))
            })?;
        }
        self.read(cta, address, len, len as u64, access)
    }

    fn look(
        &mut self,
        cta: u32,
        (index, offset, len): (usize, usize, usize),
        access: &Access<'_>,
        atomic: bool,
    ) -> Done {
        let Area { name, used, shadow, .. } = &mut self.areas[index];
        if *used == Use::Input {
            return Ok(());
        }
        shadow.each(offset, len, |cell, at| {
            if *used == Use::Output && cell.write.1.is_never() {
                let message = format!("byte {at} of the output {name} is read before it is written");
                return Err(Fault::new(Kind::NeverWritten, message).by(access.stamp, access.does));
            }
            if atomic && cell.atomic {
                return Ok(());
            }
            follows(cell.write, cta, access, name, true)?;
            // Atomics may come beside an acquiring load at any time.
            if !atomic {
                cell.note(cta, access);
            }
            Ok(())
        })
    }

    /// Writes bytes.
    pub fn write(&mut self, cta: u32, address: u64, bytes: &[u8], align: u64, access: &Access<'_>) -> Done {
        let (index, offset) = self.place(address, bytes.len(), align)?;
        self.mark(cta, index, offset, bytes.len(), access, false)?;
        self.areas[index].bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn mark(&mut self, cta: u32, index: usize, offset: usize, len: usize, access: &Access<'_>, atomic: bool) -> Done {
        let Area { name, used, shadow, .. } = &mut self.areas[index];
        if *used == Use::Input {
            let message = format!("a write to byte {offset} of buffer {name}, which is an input");
            return Err(Fault::new(Kind::OutsideOutput, message).by(access.stamp, access.does));
        }
        shadow.each(offset, len, |cell, at| {
            if cell.constant {
                let message = format!("byte {at} of {name} is written, and the kernel has read it as a constant");
                return Err(Fault::new(Kind::Race, message).by(access.stamp, access.does));
            }
            if !(atomic && cell.atomic) {
                follows(cell.write, cta, access, name, true)?;
            }
            for &read in &cell.reads {
                follows(read, cta, access, name, false)?;
            }
            cell.reads.clear();
            cell.atomic = atomic;
            match cell.write.0 == cta && cell.write.1.same_access(&access.stamp) {
                true => cell.write.1.lanes |= access.stamp.lanes,
                false => cell.write = (cta, access.stamp),
            }
            Ok(())
        })
    }

    /// An atomic on 32 bits; the old value, and what it acquires once a fence follows. `releases` is what a fence
    /// before it released.
    pub fn atomic(
        &mut self,
        op: Atomic,
        cta: u32,
        (address, operand): (u64, u32),
        access: &Access<'_>,
        releases: Option<&Clock>,
    ) -> Done<(u32, Option<Clock>)> {
        let (index, offset) = self.place(address, WORD, WORD as u64)?;
        self.mark(cta, index, offset, WORD, access, true)?;
        let old = self.word(index, offset);
        let new = match op {
            Atomic::Add => old.wrapping_add(operand),
            Atomic::Inc if old >= operand => 0,
            Atomic::Inc => old + 1,
            Atomic::Max => old.max(operand),
            Atomic::Exchange => operand,
            Atomic::And => old & operand,
        };
        self.areas[index].bytes[offset..offset + WORD].copy_from_slice(&new.to_le_bytes());
        let acquired = self.acquired(cta, address);
        if let Some(releases) = releases {
            let all = self.released.entry(address).or_default();
            all.join_other(cta, &releases.known, &releases.done);
            for (other, known, done) in &releases.others {
                all.join_other(*other, known, done);
            }
        }
        Ok((old, acquired))
    }

    /// An acquiring load of 32 bits: the value, and what it acquires.
    pub fn acquire(&mut self, cta: u32, address: u64, access: &Access<'_>) -> Done<(u32, Option<Clock>)> {
        let (index, offset) = self.place(address, WORD, WORD as u64)?;
        self.look(cta, (index, offset, WORD), access, true)?;
        Ok((self.word(index, offset), self.acquired(cta, address)))
    }

    fn word(&self, index: usize, offset: usize) -> u32 {
        let bytes = &self.areas[index].bytes[offset..offset + WORD];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    /// What a thread of a CTA learns from the releases at an address.
    fn acquired(&self, cta: u32, address: u64) -> Option<Clock> {
        self.released.get(&address).map(|all| {
            let mut clock = Clock { others: all.others.clone(), ..Clock::default() };
            if let Some(at) = clock.others.iter().position(|(c, ..)| *c == cta) {
                let (_, known, done) = clock.others.swap_remove(at);
                (clock.known, clock.done) = (known, done);
            }
            clock
        })
    }
}

impl Cell {
    fn note(&mut self, cta: u32, access: &Access<'_>) {
        let same = |r: &&mut (u32, Stamp)| r.0 == cta && r.1.same_access(&access.stamp);
        if let Some(same) = self.reads.iter_mut().find(same) {
            same.1.lanes |= access.stamp.lanes;
            return;
        }
        if self.reads.len() >= READS {
            self.reads.retain(|r| r.0 != cta || !r.1.before(access.clock, access.own));
        }
        self.reads.push((cta, access.stamp));
    }
}

fn follows((by, earlier): (u32, Stamp), cta: u32, access: &Access<'_>, buffer: &str, wrote: bool) -> Done {
    let ordered = match by == cta {
        true => earlier.before(access.clock, access.own),
        false => earlier.is_never() || earlier.before_elsewhere(by, access.clock),
    };
    if ordered {
        return Ok(());
    }
    let fault = Fault::new(Kind::Race, format!("nothing orders these two accesses of the buffer {buffer}"));
    Err(against(fault, cta, access, (by, earlier), if wrote { "writes" } else { "reads" }))
}

/// The fault of an access with an earlier one, perhaps of another CTA.
fn against(
    fault: Box<Fault>,
    cta: u32,
    access: &Access<'_>,
    (by, earlier): (u32, Stamp),
    did: &'static str,
) -> Box<Fault> {
    let mut fault = fault.by(access.stamp, access.does).with(earlier, did);
    fault.second_cta = (by != cta).then_some(by);
    fault
}
