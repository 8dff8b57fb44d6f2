//! Rules W08 and W09: matrix descriptors. Where one is computed from constants, it must describe the tile that it
//! points into, the same for all four warps. (PTX ISA, "Matrix Descriptor Format".)

use std::collections::BTreeMap;

use ptx::{RegionKind, Swizzle};

use crate::finding::Report;
use crate::program::{Place, Product, Program};
use crate::value::{Lanes, Value};
use crate::warp::Event;

/// The fields of a descriptor, in bytes.
#[derive(Debug, Clone, Copy)]
struct Fields {
    start: u64,
    leading: u64,
    stride: u64,
    base: u64,
    swizzle: Option<Swizzle>,
}

fn fields(descriptor: u64) -> Fields {
    let bytes = |shift: u32| (descriptor >> shift & 0x3fff) << 4;
    Fields {
        start: bytes(0),
        leading: bytes(16),
        stride: bytes(32),
        base: descriptor >> 49 & 7,
        // Not the tensor map's enumeration: there 1 is the narrowest swizzle.
        swizzle: match descriptor >> 62 {
            0 => Some(Swizzle::None),
            1 => Some(Swizzle::B128),
            2 => Some(Swizzle::B64),
            3 => Some(Swizzle::B32),
            _ => None,
        },
    }
}

/// Where the matrix of a descriptor operand starts, if it is known.
pub(crate) fn start(program: &Program<'_>, event: &Event, arg: usize) -> Option<Place> {
    let starts = event.args.get(arg)?.possible(event.exec.lanes)?;
    let address = Value::any_of(starts.into_iter().map(|d| Lanes::Same(fields(d).start)).collect());
    program.place(&address, event.exec.lanes)
}

/// Judges the descriptors of all products.
pub(crate) fn check(program: &Program<'_>, report: &mut Report<'_>) {
    let mut groups: BTreeMap<(usize, usize, u32), (u32, Value)> = BTreeMap::new();
    for (warp, _, event) in program.events() {
        let Some(product) = program.inst(event.line).and_then(Product::of) else { continue };
        for (arg, rows, transposed) in product.descriptors() {
            let value = &event.args[arg];
            let (first, same) =
                groups.entry((event.line, arg, warp.warp / 4)).or_insert_with(|| (warp.warp, value.clone()));
            let known = value.alternatives().is_some() && same.alternatives().is_some();
            if known && value != same || !value.is_uniform() {
                let message = format!(
                    "warps {first} and {} of one warpgroup give different descriptors; derive them from the warpgroup alone",
                    warp.warp
                );
                report.at("W09", event.line, message);
            }
            for descriptor in value.possible(event.exec.lanes).into_iter().flatten() {
                if let Err(message) = describes(program, fields(descriptor), rows, transposed, product.element_bytes())
                {
                    let name = &product_operand(&product, arg);
                    report.at("W08", event.line, format!("descriptor of {name}: {message}"));
                }
            }
        }
    }
}

fn product_operand(product: &Product<'_>, arg: usize) -> &'static str {
    if product.position("a") == Some(arg) { "A" } else { "B" }
}

/// Bytes of each row that one product of K-major operands reads.
const STEP_BYTES: u64 = 32;

fn describes(program: &Program<'_>, f: Fields, rows: u32, transposed: bool, element: u32) -> Result<(), String> {
    let place = program.place(&Value::constant(f.start), u32::MAX);
    let Some(region) = place.map(|p| program.region(p.region)) else {
        return Err(format!("it starts at byte {} of the window, in no region", f.start));
    };
    let RegionKind::Tile(swizzle) = region.kind else {
        return Err(format!("it points into region {}, which is no tile", region.name));
    };
    if f.swizzle != Some(swizzle) {
        let has = f.swizzle.map_or("no known", Swizzle::word);
        return Err(format!("it has swizzle {has}, the tile {} has {}", region.name, swizzle.word()));
    }
    // A tile off its boundary is another rule's.
    if swizzle == Swizzle::None || !region.offset.is_multiple_of(swizzle.alignment()) {
        return Ok(());
    }
    let pattern = u64::from(swizzle.alignment());
    if f.stride != pattern {
        return Err(format!(
            "its stride is {} bytes, eight rows of swizzle {} are {pattern}",
            f.stride,
            swizzle.word()
        ));
    }
    if f.base != 0 {
        return Err(format!("its base offset is {}, and tiles start on the pattern's boundary: 0", f.base));
    }
    // Between panels of an operand that is contiguous along rows; along k, the field is not used with a swizzle.
    if element == 1 && f.leading > 16 {
        return Err(format!(
            "it says that {} lies in panels of rows, {} bytes apart; 8-bit operands lie along k alone, so transpose the tile",
            region.name, f.leading
        ));
    }
    let along = f.start % pattern;
    let row = u64::from(swizzle.row_bytes());
    if !transposed && along + STEP_BYTES > row {
        return Err(format!(
            "from byte {along} of the pattern the {STEP_BYTES} bytes of a step along k run past rows of {row}; \
             the next step is in the next panel"
        ));
    }
    // What one instruction reads, from the pattern that the start lies in.
    let from = f.start / pattern * pattern - crate::eval::SHARED_BASE - u64::from(region.offset);
    let bytes = match transposed {
        false => u64::from(rows) / 8 * f.stride,
        true => (u64::from(rows).div_ceil(u64::from(swizzle.row_bytes() / 2)) - 1) * f.leading + f.stride + pattern,
    };
    let stage = u64::from(region.stage_bytes()).max(1);
    if from / stage != (from + bytes - 1) / stage {
        return Err(format!(
            "it reads {bytes} bytes from byte {from} of {}, past the end of a stage of {stage}",
            region.name
        ));
    }
    Ok(())
}
