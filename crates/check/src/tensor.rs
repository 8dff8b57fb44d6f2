//! Rules T: tensor maps. A map that the driver can encode, given to a copy by its generic address with as many
//! coordinates as it has dimensions, and laid out as the tile that it goes to or comes from.
//! (PTX ISA, "cp.async.bulk.tensor"; CUDA driver API, "cuTensorMapEncodeTiled".)

use std::collections::BTreeSet;

use ptx::{Operand, ParamKind, RegionKind, Swizzle, TensorMap};

use crate::finding::Report;
use crate::program::Program;
use crate::shared::copy_operands;
use crate::value::Value;

/// Judges the declared maps and every copy.
pub(crate) fn check(program: &Program<'_>, report: &mut Report<'_>) {
    let mut used = BTreeSet::new();
    let mut blind = false;
    for (_, _, event) in program.events() {
        let Some((tile, map)) = copy_operands(event.op) else { continue };
        let Some(inst) = program.inst(event.line) else { continue };
        let Value::Param { index, generic } = event.args[map] else {
            match event.args[map] {
                Value::Unknown { .. } => blind = true,
                _ => report.at("T03", event.line, "the map operand is no parameter's address".into()),
            }
            continue;
        };
        let param = &program.kernel.params[index];
        used.insert(index);
        if !generic {
            let message =
                format!("the address of {} is the parameter space's; `cvta.param.u64` makes it generic", param.name);
            report.at("T03", event.line, message);
        }
        let ParamKind::Tensor(shape) = &param.kind else {
            report.at("T03", event.line, format!("the parameter {} is no tensor map", param.name));
            continue;
        };
        let coords = match inst.args.get(map) {
            Some(Operand::Tensor { coords, .. }) => coords.len(),
            _ => continue,
        };
        let rank = inst.quals.first().and_then(|q| q.strip_suffix('d')).and_then(|n| n.parse::<usize>().ok());
        if coords != shape.box_dims.len() || rank != Some(coords) {
            let message = format!(
                "the copy is {}, it has {coords} coordinates, and {} has {} dimensions; all three agree",
                inst.quals.first().copied().unwrap_or("?"),
                param.name,
                shape.box_dims.len()
            );
            report.at("T02", event.line, message);
        }
        layouts(program, event.line, &param.name, shape, program.place(&event.args[tile], event.exec.lanes), report);
    }
    for (index, param) in program.kernel.params.iter().enumerate() {
        let ParamKind::Tensor(shape) = &param.kind else { continue };
        encodable(&param.name, shape, report);
        if !used.contains(&index) && !blind {
            report.declared("T04", format!("no copy uses the tensor map {}; drop the parameter", param.name));
        }
    }
}

fn layouts(
    program: &Program<'_>,
    line: usize,
    name: &str,
    map: &TensorMap,
    place: Option<crate::program::Place>,
    report: &mut Report<'_>,
) {
    let Some(region) = place.map(|p| program.region(p.region)) else { return };
    if let RegionKind::Tile(swizzle) = region.kind
        && swizzle != map.swizzle
    {
        let (a, b) = (map.swizzle.word(), swizzle.word());
        report.region(
            "T05",
            &region.name,
            Some(line),
            format!("{name} has swizzle {a}, the tile {b}; give both the same"),
        );
    }
}

fn encodable(name: &str, map: &TensorMap, report: &mut Report<'_>) {
    if !(1..=5).contains(&map.box_dims.len()) {
        report.declared("T01", format!("{name} has {} dimensions; 1 to 5 can be encoded", map.box_dims.len()));
        return;
    }
    if let Some(dim) = map.box_dims.iter().find(|d| !(1..=256).contains(*d)) {
        report.declared("T01", format!("{name}'s box has a side of {dim}; 1 to 256 can be encoded, so copy in parts"));
        return;
    }
    let inner = map.box_dims[0] * map.element.bytes();
    if !inner.is_multiple_of(16) {
        report.declared("T01", format!("{name}'s box is {inner} bytes wide; a multiple of 16 can be encoded"));
    } else if map.swizzle != Swizzle::None && inner > map.swizzle.row_bytes() {
        let span = map.swizzle.row_bytes();
        report.declared("T01", format!("{name}'s box is {inner} bytes wide, its swizzle spans {span}; copy in parts"));
    }
}
