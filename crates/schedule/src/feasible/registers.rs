//! Registers: what setmaxnreg takes, what the pool holds, what a consumer thread and a single wgmma need.

use super::{Field, Findings};
use crate::footprint::{WORKING_REGISTERS, entry_allocation, registers, row_sum_columns};
use crate::{Probabilities, Queries, Schedule, Target};

pub(super) fn check(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    let producer = schedule.roles.producer.registers;
    let consumer = schedule.roles.consumer.registers;
    let valid = count(Field::ProducerRegisters, producer, target, findings)
        & count(Field::ConsumerRegisters, consumer, target, findings);
    if valid && schedule.roles.consumer.warpgroups > 0 {
        release(schedule, target, findings);
        pool(schedule, target, findings);
        consumers(schedule, target, findings);
        single_wgmma(schedule, target, findings);
    }
}

/// Whether setmaxnreg takes a count.
fn count(field: Field, registers: u32, target: &Target, findings: &mut Findings) -> bool {
    let (least, most, step) = (target.setmaxnreg_min, target.setmaxnreg_max, target.register_step);
    let valid = (least..=most).contains(&registers) && registers.is_multiple_of(step);
    if !valid {
        findings.push(
            field,
            format_args!(
                "{registers} is not a multiple of {step} from {least} to {most}, which is what setmaxnreg takes"
            ),
        );
    }
    valid
}

/// The producer can only give up registers.
fn release(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    let producer = schedule.roles.producer.registers;
    let entry = entry_allocation(schedule, target);
    if producer > entry {
        findings.push(
            Field::ProducerRegisters,
            format_args!(
                "{producer} is more than the {entry} that each of {} threads has at entry, \
                 and a producer only gives up registers",
                schedule.threads()
            ),
        );
    }
}

/// What all warpgroups ask for must be there, or the last to ask waits for ever.
fn pool(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    let (producer, consumer) = (schedule.roles.producer.registers, schedule.roles.consumer);
    let asked = u64::from(producer) + u64::from(consumer.warpgroups) * u64::from(consumer.registers);
    let entry = entry_allocation(schedule, target);
    let groups = schedule.warpgroups();
    let held = u64::from(groups) * u64::from(entry);
    if asked > held {
        findings.push(
            Field::ConsumerRegisters,
            format_args!(
                "{} x {} and the producer's {producer} are {asked} registers, \
                 {} threads hold {groups} x {entry} = {held} ({} in the file)",
                consumer.warpgroups,
                consumer.registers,
                schedule.threads(),
                target.registers,
            ),
        );
    }
}

/// What lives together in a consumer thread must fit what it has.
fn consumers(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    let asked = schedule.roles.consumer.registers;
    let usable = asked.min(target.registers_per_thread);
    let parts = registers(schedule);
    let needed = parts.total() + WORKING_REGISTERS;
    if needed > u64::from(usable) {
        findings.push(
            Field::ConsumerRegisters,
            format_args!(
                "{usable} hold no {} x {} tile at head dimension {}: \
                 S {} + P {} + O {}{} + Q {} + working {WORKING_REGISTERS} = {needed}",
                schedule.tile.rows,
                schedule.tile.columns,
                schedule.head_dim,
                parts.scores,
                parts.probabilities,
                parts.output,
                parts.partial_words(),
                parts.queries
            ),
        );
    }
}

/// The assembler holds each wgmma to the count at entry, also after the consumers took more.
fn single_wgmma(schedule: &Schedule, target: &Target, findings: &mut Findings) {
    let cap = target.entry_registers(schedule.threads()).min(entry_allocation(schedule, target));
    let sums = row_sum_columns(schedule);
    let second = match schedule.probabilities {
        Probabilities::Registers => target.wgmma_register_overhead,
        Probabilities::Shared => target.wgmma_shared_overhead,
    };
    let first = match schedule.queries {
        Queries::Registers => target.wgmma_register_overhead,
        Queries::Shared => target.wgmma_shared_overhead,
    };
    for (field, which, columns, overhead) in [
        (Field::TileColumns, "first", u64::from(schedule.tile.columns), first),
        (Field::HeadDimV, "second", u64::from(schedule.head_dim.v) + u64::from(sums), second),
    ] {
        let needed = columns / 2 + u64::from(overhead);
        if needed > u64::from(cap) {
            findings.push(
                field,
                format_args!(
                    "a wgmma of {columns} columns in the {which} product needs {columns}/2 + {overhead} = {needed} registers, \
                     {} threads have {cap} at entry",
                    schedule.threads()
                ),
            );
        }
    }
}
