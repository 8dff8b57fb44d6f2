//! Rules S: the layout of the shared memory, and that every address that can be resolved stays in its region.

use ptx::{Kernel, Op, Region, RegionKind};

use crate::finding::Report;
use crate::program::Program;
use crate::ring::barrier_operand;
use crate::value::Mask;
use crate::warp::Event;

/// Dynamic shared memory that a CTA can have: 227 KiB (CUDA programming guide, compute capability 9.0).
const MOST_BYTES: u64 = schedule::HOPPER.shared_bytes;

/// Judges the table of regions, then the accesses.
pub(crate) fn check(program: &Program<'_>, report: &mut Report<'_>) {
    layout(program.kernel, report);
    for (_, _, event) in program.events().filter(|(_, _, e)| e.exec.lanes != 0) {
        access(program, event, report);
        if let Some((tile, map)) = copy_operands(event.op) {
            boxed(program, event, tile, map, report);
        }
    }
}

fn layout(kernel: &Kernel, report: &mut Report<'_>) {
    for (i, r) in kernel.shared.iter().enumerate() {
        for other in &kernel.shared[..i] {
            if r.offset < other.end() && other.offset < r.end() {
                let message = format!(
                    "bytes {}..{} lie over {}'s {}..{}; move one of them",
                    r.offset,
                    r.end(),
                    other.name,
                    other.offset,
                    other.end()
                );
                report.region("S01", &r.name, None, message);
            }
        }
        let align = match r.kind {
            RegionKind::Tile(swizzle) => swizzle.alignment(),
            RegionKind::Barriers { .. } => 8,
            RegionKind::Words => 4,
        };
        if r.stages == 0 || r.bytes == 0 || !r.bytes.is_multiple_of(r.stages.max(1)) {
            report.region("S02", &r.name, None, format!("{} bytes do not split into {} stages", r.bytes, r.stages));
        } else if !r.offset.is_multiple_of(align) || !r.stage_bytes().is_multiple_of(align) {
            let message = format!(
                "it starts at byte {} with stages of {} bytes; both must be multiples of {align}",
                r.offset,
                r.stage_bytes()
            );
            report.region("S02", &r.name, None, message);
        }
    }
}

/// The regions fit a CTA's shared memory. Judged first: all other sums of offsets rely on it.
pub(crate) fn total(kernel: &Kernel, report: &mut Report<'_>) {
    let total = kernel.shared.iter().map(|r| u64::from(r.offset) + u64::from(r.bytes)).max().unwrap_or(0);
    if total > MOST_BYTES {
        let message =
            format!("the regions take {total} bytes, a CTA has {MOST_BYTES}; use fewer stages or smaller tiles");
        report.declared("S03", message);
    }
}

/// The tile operand and the map operand of a tensor copy.
pub(crate) fn copy_operands(op: Op) -> Option<(usize, usize)> {
    match op {
        Op::tensor_load | Op::tensor_load_hint => Some((0, 1)),
        Op::tensor_store => Some((1, 0)),
        _ => None,
    }
}

/// The shared address operand of an ordinary access, its bytes, and the lanes whose address counts.
fn ordinary(op: Op, quals: &[&str]) -> Option<(usize, i64, Mask)> {
    let each = match () {
        () if quals.contains(&"b64") => 8,
        () if quals.contains(&"b16") => 2,
        () => 4,
    };
    let wide = match () {
        () if quals.contains(&"v4") => 4,
        () if quals.contains(&"v2") => 2,
        () => 1,
    };
    let rows = match () {
        () if quals.contains(&"x1") => 0xff,
        () if quals.contains(&"x2") => 0xffff,
        () => Mask::MAX,
    };
    match op {
        Op::st_shared | Op::st_shared_v => Some((0, each * wide, Mask::MAX)),
        Op::ld_shared | Op::ld_shared_v => Some((1, each * wide, Mask::MAX)),
        Op::stmatrix | Op::stmatrix_t => Some((0, 16, rows)),
        Op::ldmatrix | Op::ldmatrix_t => Some((1, 16, rows)),
        _ => None,
    }
}

fn access(program: &Program<'_>, event: &Event, report: &mut Report<'_>) {
    let Some(inst) = program.inst(event.line) else { return };
    let mut judge = |arg: usize, bytes: i64, lanes: Mask, wanted: &str, fits: fn(&RegionKind) -> bool| {
        for offset in program.offsets(&event.args[arg], event.exec.lanes & lanes).into_iter().flatten() {
            let inside = |r: &&Region| i64::from(r.offset) <= offset && offset < i64::from(r.end());
            match program.kernel.shared.iter().find(inside) {
                None => report.at("S04", event.line, format!("byte {offset} of the shared memory is in no region")),
                Some(r) if offset + bytes > i64::from(r.end()) => {
                    report.at(
                        "S04",
                        event.line,
                        format!("{bytes} bytes from {offset} run past the end of region {}", r.name),
                    );
                }
                Some(r) if !fits(&r.kind) => {
                    report.at(
                        "S04",
                        event.line,
                        format!("byte {offset} is in region {}, which holds no {wanted}", r.name),
                    );
                }
                Some(_) if offset % bytes != 0 => {
                    report.at("S04", event.line, format!("byte {offset} is no multiple of the {bytes} bytes accessed"));
                }
                Some(_) => {}
            }
        }
    };
    if let Some(arg) = barrier_operand(event.op) {
        judge(arg, 8, Mask::MAX, "barriers", |k| matches!(k, RegionKind::Barriers { .. }));
    }
    if let Some((arg, _)) = copy_operands(event.op) {
        judge(arg, 16, Mask::MAX, "tile", |k| matches!(k, RegionKind::Tile(_)));
    }
    if let Some((arg, bytes, lanes)) = ordinary(event.op, &inst.quals) {
        judge(arg, bytes, lanes, "data", |k| !matches!(k, RegionKind::Barriers { .. }));
    }
}

/// A box starts on the swizzle pattern's boundary and stays in its stage; one that is only read (a result on its way
/// out through an idle ring) stays in its region.
fn boxed(program: &Program<'_>, event: &Event, tile: usize, map: usize, report: &mut Report<'_>) {
    let Some(map) = crate::bytes::map_of(program, &event.args[map]) else { return };
    let Some(place) = program.place(&event.args[tile], event.exec.lanes) else { return };
    let region = program.region(place.region);
    let bytes = map.box_bytes();
    let align = map.swizzle.alignment();
    for offset in place.offsets {
        let from = offset - region.offset;
        let stage = match event.op {
            Op::tensor_store => region.bytes.max(1),
            _ => region.stage_bytes().max(1),
        };
        if from % stage + bytes > stage {
            let message = format!("a box of {bytes} bytes at byte {from} runs past the end of a stage of {stage}");
            report.region("S05", &region.name, Some(event.line), message);
        } else if !offset.is_multiple_of(align) {
            let message = format!("the box at byte {offset} does not start on the swizzle's boundary of {align} bytes");
            report.region("S05", &region.name, Some(event.line), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{barrier_operand, copy_operands, ordinary};
    use ptx::table::Space;
    use ptx::{Kind, Op};

    #[test]
    fn every_row_that_reaches_shared_memory_is_judged() {
        for &op in Op::ALL {
            let reaches = op.spec().operands.iter().any(|o| o.kind == Kind::At(Space::Shared));
            let judged = barrier_operand(op).is_some() || copy_operands(op).is_some() || ordinary(op, &[]).is_some();
            assert!(
                judged || !reaches,
                "`{}` reaches shared memory unseen: name it here and where its like stand in hold.rs, pairs.rs and proxy.rs",
                op.spec().pattern
            );
        }
    }
}
