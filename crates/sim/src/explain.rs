//! From stamps and addresses to the kernel's own names: findings, and who waits for what in a machine that stands still.
//! Changes nothing.

use crate::clock::Stamp;
use crate::cta::Cta;
use crate::finding::{Fault, Finding, Kind, Party, Place};
use crate::shared::SHARED_BASE;
use crate::warp::{State, Warp};

impl Cta<'_> {
    /// Region and stage of a shared address.
    fn place(&self, address: u32) -> Option<Place> {
        let offset = address.checked_sub(SHARED_BASE)?;
        let region = self.program.kernel.shared.iter().find(|r| (r.offset..r.end()).contains(&offset))?;
        let stage_bytes = region.stage_bytes().max(1);
        let (stage, byte) = ((offset - region.offset) / stage_bytes, (offset - region.offset) % stage_bytes);
        Some(Place { region: region.name.clone(), stage, byte })
    }

    /// The name of a shared address for people.
    pub fn place_name(&self, address: u32) -> String {
        self.place(address).map_or_else(|| format!("shared {address}"), |p| format!("{}[{}]", p.region, p.stage))
    }

    fn party(&self, stamp: Stamp, does: &str, cta: u32) -> Party {
        let (pc, warp) = (stamp.pc as usize, usize::from(stamp.warp));
        let inst = self.program.code.get(pc);
        let role = self.program.role_of_warp(warp).or(inst.and_then(|i| i.role));
        Party {
            cta,
            warp: warp as u32,
            lanes: stamp.lanes,
            role: role.and_then(|r| self.program.kernel.roles.get(r)).map(|r| r.name.clone()),
            line: inst.map_or(self.program.kernel.body.len(), |i| i.line),
            instruction: self.program.text(pc),
            does: does.to_owned(),
        }
    }

    pub fn explain(&self, fault: Fault) -> Finding {
        let (warp, lanes, pc) = self.at;
        let here = (pc != usize::MAX).then(|| (Stamp::generic(warp, lanes, 1, pc), "runs"));
        Finding {
            kind: fault.kind,
            kernel: self.program.kernel.name.clone(),
            first: fault.first.or(here).map(|(stamp, does)| self.party(stamp, does, self.id)),
            second: fault.second.map(|(stamp, does)| self.party(stamp, does, fault.second_cta.unwrap_or(self.id))),
            place: fault.address.and_then(|a| self.place(a)),
            message: fault.message,
        }
    }

    /// Who waits for what.
    pub fn stuck(&mut self) -> Box<Fault> {
        let mut lines = Vec::new();
        let (mut kind, mut address) = (Kind::Diverged, None);
        for warp in &self.warps {
            let role = self.program.role_of_warp(warp.index).and_then(|r| self.program.kernel.roles.get(r));
            let role = role.map_or("", |r| r.name.as_str());
            for group in &warp.groups {
                let what = match group.state {
                    State::Ready => continue,
                    State::Converging => "the lanes that are elsewhere, to take part in an instruction".to_owned(),
                    State::Asleep { barrier, parity, .. } => {
                        address.get_or_insert(barrier);
                        self.waits_on(barrier, parity)
                    }
                    State::Named(id) => {
                        let named = &self.named[id as usize];
                        format!("named barrier {id}, where {} of {} threads are", named.arrived, named.threads)
                    }
                    State::Products(_) => "a product that another warp of its warpgroup does not come to".to_owned(),
                    State::Copies { .. } => "a store".to_owned(),
                    State::Registers(n) => {
                        format!("{n} registers a thread, {} too many for the pool", self.missing(warp, n))
                    }
                };
                if group.state != State::Converging {
                    kind = Kind::Deadlock;
                }
                let pc = if matches!(group.state, State::Asleep { .. }) { group.pc - 1 } else { group.pc };
                self.at = (warp.index, group.lanes, pc);
                let lanes = match group.lanes {
                    u32::MAX => String::new(),
                    l if l.count_ones() == 1 => format!(" lane {}", l.trailing_zeros()),
                    l => format!(" lanes {l:08x}"),
                };
                let line = self.program.code.get(pc).map_or(0, |i| i.line);
                lines.push(format!("\n    {role} warp {}{lanes}, line {line}, waits for {what}", warp.index));
            }
        }
        let fault = Fault::new(kind, format!("nobody can go on:{}", lines.concat()));
        match address {
            Some(address) => fault.at(address),
            None => fault,
        }
    }

    fn waits_on(&self, address: u32, parity: u32) -> String {
        let Some(b) = self.barriers.get(&address) else { return "a barrier".to_owned() };
        format!(
            "{} parity {parity}, which is in phase {} and waits for {} of {} arrivals and {} bytes",
            self.place_name(address),
            b.phase,
            b.pending,
            b.expected,
            b.tx
        )
    }

    fn missing(&self, warp: &Warp, count: u32) -> i64 {
        i64::from(count) - i64::from(warp.registers) - self.pool
    }
}
