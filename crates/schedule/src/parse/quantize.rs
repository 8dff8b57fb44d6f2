//! The quantizer's grammar, on the same tokens, values and messages as a schedule's.
//!
//! ```text
//! quantizers := { doc* name "{" field { "," field } [","] "}" }
//! ```
//!
//! | field | values | default |
//! |---|---|---|
//! | `pass` | `quantize` | |
//! | `element` | `bf16`, `f16` | |
//! | `head_dim` | `128`, `(192, 128)` | |
//! | `rotation` | `hadamard`, `off` | `hadamard` |
//! | `scales` | `{ q: block(64), k: block(128), v: head }`, each `block(n)`, `head` or `tensor` | |
//! | `stages` | `2` | |
//! | `roles` | `{ producer: warps(1) registers(24), consumer: warpgroups(3) registers(160) }` | |

use super::families::header;
use super::reader::Reader;
use super::values::{self, Value};
use super::words::Errors;
use crate::{Consumer, Element, Granularities, Granularity, HOPPER, HeadDim, Producer, Quantize, Roles, Rotation};
use proc_macro2::{Delimiter, Ident, Span};
use syn::{Error, Result};

/// Every field, in the order in which quantizers are printed.
const FIELDS: [&str; 7] = ["pass", "element", "head_dim", "rotation", "scales", "stages", "roles"];
/// Those that may be left out.
const OPTIONAL: [&str; 1] = ["rotation"];

/// Reads one quantizer: its name's token, and the quantizer if it is feasible on Hopper.
pub(super) fn item(reader: &mut Reader<'_>) -> Result<(Ident, Quantize)> {
    let (doc, name) = header(reader)?;
    let mut made = Quantize {
        name: name.to_string(),
        doc,
        element: Element::Bf16,
        head_dim: HeadDim::same(0),
        rotation: Rotation::Hadamard,
        scales: Granularities { q: Granularity::Head, k: Granularity::Head, v: Granularity::Head },
        stages: 0,
        roles: Roles {
            producer: Producer { warps: 0, registers: 0 },
            consumer: Consumer { warpgroups: 0, registers: 0 },
        },
    };
    let mut spans: Vec<(&'static str, Span)> = Vec::new();
    let mut inside = reader.group(Delimiter::Brace, "`{`")?;
    let (seen, mut errors) = inside.record("field", &FIELDS, |index, _, reader| {
        spans.push((FIELDS[index], reader.span()));
        field(FIELDS[index], reader, &mut made)
    });
    for missing in FIELDS.iter().filter(|field| !seen.contains(field) && !OPTIONAL.contains(field)) {
        errors.push(name.span(), format!("missing field `{missing}`"));
    }
    let made = errors.finish(made)?;
    let mut errors = Errors::default();
    for (field, message) in made.findings(&HOPPER) {
        let span = spans.iter().find(|(known, _)| *known == field).map_or(name.span(), |(_, span)| *span);
        errors.push(span, format!("{field}: {message}"));
    }
    errors.finish((name, made))
}

fn field(name: &str, reader: &mut Reader<'_>, into: &mut Quantize) -> Result<()> {
    match name {
        "pass" => reader.word("quantize").map(|_| ())?,
        "element" => into.element = word(reader, Element::ALL, Element::keyword)?,
        "head_dim" => {
            if let Value::HeadDim(value) = values::head_dim(reader)?.value {
                into.head_dim = value;
            }
        }
        "rotation" => into.rotation = word(reader, Rotation::ALL, Rotation::keyword)?,
        "scales" => into.scales = scales(reader)?,
        "stages" => into.stages = reader.whole("a number of stages")?.0,
        _ => {
            if let Value::Roles(value) = values::roles(reader)?.value {
                into.roles = value;
            }
        }
    }
    Ok(())
}

fn word<T: Copy>(reader: &mut Reader<'_>, all: &[T], word: fn(T) -> &'static str) -> Result<T> {
    let words: Vec<&str> = all.iter().map(|case| word(*case)).collect();
    Ok(all[reader.one_of(&words)?.0])
}

/// `{ q: block(64), k: block(128), v: head }`.
fn scales(reader: &mut Reader<'_>) -> Result<Granularities> {
    const TENSORS: [&str; 3] = ["q", "k", "v"];
    let mut found = [Granularity::Head; 3];
    values::fields(reader, "tensor", &TENSORS, "`{ q: block(64), k: block(128), v: head }`", |index, reader| {
        found[index] = granularity(reader)?;
        Ok(())
    })?;
    let [q, k, v] = found;
    Ok(Granularities { q, k, v })
}

fn granularity(reader: &mut Reader<'_>) -> Result<Granularity> {
    match reader.one_of(&["block", "head", "tensor"])?.0 {
        0 => Ok(Granularity::Block(values::argument(reader, |inside| Ok(inside.whole("rows of a block")?.0))?)),
        1 => Ok(Granularity::Head),
        _ => Ok(Granularity::Tensor),
    }
}

/// Refuses a name that another has.
pub(super) fn duplicate(name: &Ident) -> Error {
    Error::new(name.span(), format!("duplicate quantizer `{name}`"))
}
