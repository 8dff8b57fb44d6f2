//! Schedules of 8-bit elements that differ from shipped ones in a word or two: they need no text and no file of their own,
//! and are lowered and proven at their first use like all others.
//!
//! | from | by | name |
//! |---|---|---|
//! | e4m3 up to head dimension 128, without accurate sums for its order of V | `accumulate: every(4)`, on the tile and the roles that leave registers for a total of O | `fwd_long_...` |
//! | e4m3 | `element: e5m2` | `..._e5m2_...` |
//! | `output: bf16` | `output: f16` | `..._f16_out` |
//!
//! Of what takes P for linear between powers of two only O in f16 follows.

use schedule::{Accumulate, Consumer, Element, Fp8, HOPPER, Output, Producer, Roles, Schedule, Stages, Tile, feasible};

/// Key tiles between two additions to the accurate sums.
const EVERY: u32 = 4;

/// What follows from schedules that is not among them, in an order that follows from theirs.
pub fn from(schedules: &[&Schedule]) -> Vec<Schedule> {
    let is_exact = |schedule: &&Schedule| schedule.fp8.is_some_and(|fp8| fp8.exponential.is_exact());
    let shipped: Vec<&Schedule> = schedules.iter().filter(|schedule| schedule.fp8.is_some()).copied().collect();
    let (exact, linear): (Vec<&Schedule>, Vec<&Schedule>) = shipped.iter().copied().partition(is_exact);
    let mut all: Vec<Schedule> = Vec::new();
    let mut add = |found: Option<Schedule>| {
        let is_new = |schedule: &Schedule| {
            let known = shipped.iter().copied().chain(&all).any(|other| other.is_kernel_of(schedule));
            !known && feasible::check(schedule, &HOPPER).is_empty()
        };
        if let Some(schedule) = found.filter(is_new) {
            all.push(schedule);
        }
    };
    let long = || exact.iter().filter_map(|schedule| accurate(schedule, &exact));
    long().for_each(|schedule| add(Some(schedule)));
    let base: Vec<Schedule> = exact.iter().map(|&schedule| schedule.clone()).chain(long()).collect();
    let five = || base.iter().filter_map(e5m2);
    five().for_each(|schedule| add(Some(schedule)));
    let five: Vec<Schedule> = five().collect();
    base.iter().chain(&five).chain(linear).for_each(|schedule| add(in_f16(schedule)));
    all
}

/// The schedule with sums in a total apart, if none is there for its head dimension, mask and order of V.
fn accurate(schedule: &Schedule, among: &[&Schedule]) -> Option<Schedule> {
    let fp8 = schedule.fp8.filter(|fp8| fp8.accumulate == Accumulate::TensorCore)?;
    let serves = |other: &&&Schedule| {
        let same =
            (other.element, other.head_dim, other.variant) == (schedule.element, schedule.head_dim, schedule.variant);
        same && other.fp8.is_some_and(|of| of.values == fp8.values && of.accumulate != Accumulate::TensorCore)
    };
    if schedule.element != Element::E4m3 || among.iter().any(|other| serves(&other)) {
        return None;
    }
    let transposes = schedule.transposes_values();
    let roles = |warpgroups, [idle, busy]: [(u32, u32); 2]| {
        let ((producer, consumer), warps) = if transposes { (busy, 4) } else { (idle, 1) };
        Roles {
            producer: Producer { warps, registers: producer },
            consumer: Consumer { warpgroups, registers: consumer },
        }
    };
    let (tile, roles) = match schedule.head_dim.v {
        64 => (Tile { rows: 192, columns: 96 }, roles(3, [(32, 160), (32, 160)])),
        96 => (Tile { rows: 128, columns: 128 }, roles(2, [(24, 240), (40, 232)])),
        128 => (Tile { rows: 128, columns: 96 }, roles(2, [(24, 240), (40, 232)])),
        _ => return None,
    };
    let mut found = schedule.clone();
    found.name = match schedule.name.strip_prefix("fwd_") {
        Some(rest) => format!("fwd_long_{rest}"),
        None => format!("long_{}", schedule.name),
    };
    found.doc = format!("{} with sums of four key tiles added to a total apart.", schedule.name);
    (found.tile, found.roles, found.stages) = (tile, roles, Stages { q: 2, kv: 2 });
    found.fp8 = Some(Fp8 { accumulate: Accumulate::Every(EVERY), ..fp8 });
    Some(found)
}

/// The schedule over e5m2.
fn e5m2(schedule: &Schedule) -> Option<Schedule> {
    let name = schedule.name.replace(Element::E4m3.keyword(), Element::E5m2.keyword());
    (schedule.element == Element::E4m3 && name != schedule.name).then(|| Schedule {
        doc: format!("{} over e5m2.", schedule.name),
        name,
        element: Element::E5m2,
        ..schedule.clone()
    })
}

/// The schedule with O in f16.
fn in_f16(schedule: &Schedule) -> Option<Schedule> {
    let fp8 = schedule.fp8.filter(|fp8| fp8.output == Output::Bf16)?;
    Some(Schedule {
        doc: format!("{} with O in f16.", schedule.name),
        name: format!("{}_f16_out", schedule.name),
        fp8: Some(Fp8 { output: Output::F16, ..fp8 }),
        ..schedule.clone()
    })
}

#[cfg(test)]
mod tests;
