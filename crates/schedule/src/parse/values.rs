//! The value of each field: one row of a table and one function a field.
//!
//! Knows how a value is written; nothing of loops, of matches or of what is feasible.

use std::num::NonZeroU32;

use super::reader::Reader;
use super::words::Errors;
use crate::{
    Accumulate, Consumer, Element, Exponential, Field, Fp8, Grid, HeadDim, Order, Output, Overlap, Pass, Probabilities,
    Producer, Queries, Rescale, Roles, RowSum, Scales, Schedule, Scheduler, Split, Stages, Threshold, Tile, Values,
    Variant,
};
use proc_macro2::{Delimiter, Span};
use syn::{Error, Result};

/// A field of the grammar.
pub(super) struct FieldRule {
    /// Its name.
    pub(super) name: &'static str,
    /// Whether a schedule must have it.
    pub(super) required: bool,
    /// Reads its value.
    pub(super) read: fn(&mut Reader<'_>) -> Result<Setting>,
}

/// Every field, in the order in which schedules are printed.
pub(super) const FIELDS: [FieldRule; 19] = [
    FieldRule {
        name: "pass",
        required: true,
        read: |r| keyword(r, Pass::ALL, Pass::keyword, Field::Pass, Value::Pass),
    },
    FieldRule {
        name: "element",
        required: true,
        read: |r| keyword(r, Element::ALL, Element::keyword, Field::Element, Value::Element),
    },
    FieldRule {
        name: "variant",
        required: false,
        read: |r| keyword(r, Variant::ALL, Variant::keyword, Field::Variant, Value::Variant),
    },
    FieldRule { name: "head_dim", required: true, read: head_dim },
    FieldRule { name: "tile", required: true, read: tile },
    FieldRule { name: "stages", required: true, read: stages },
    FieldRule { name: "roles", required: true, read: roles },
    FieldRule { name: "overlap", required: false, read: overlap },
    FieldRule {
        name: "queries",
        required: false,
        read: |r| keyword(r, Queries::ALL, Queries::keyword, Field::Queries, Value::Queries),
    },
    FieldRule {
        name: "probabilities",
        required: false,
        read: |r| keyword(r, Probabilities::ALL, Probabilities::keyword, Field::Probabilities, Value::Probabilities),
    },
    FieldRule { name: "rescale", required: false, read: rescale },
    FieldRule {
        name: "row_sum",
        required: false,
        read: |r| keyword(r, RowSum::ALL, RowSum::keyword, Field::RowSum, Value::RowSum),
    },
    FieldRule {
        name: "output",
        required: false,
        read: |r| keyword(r, Output::ALL, Output::keyword, Field::Output, Value::Output),
    },
    FieldRule {
        name: "scales",
        required: false,
        read: |r| keyword(r, Scales::ALL, Scales::keyword, Field::Scales, Value::Scales),
    },
    FieldRule {
        name: "values",
        required: false,
        read: |r| keyword(r, Values::ALL, Values::keyword, Field::Values, Value::Values),
    },
    FieldRule { name: "accumulate", required: false, read: accumulate },
    FieldRule { name: "exponential", required: false, read: exponential },
    FieldRule {
        name: "split",
        required: false,
        read: |r| keyword(r, Split::ALL, Split::keyword, Field::Split, Value::Split),
    },
    FieldRule { name: "grid", required: false, read: grid },
];

/// A value of some field.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Value {
    Pass(Pass),
    Element(Element),
    Variant(Variant),
    HeadDim(HeadDim),
    Tile(Tile),
    Stages(Stages),
    Roles(Roles),
    Overlap(Overlap),
    Queries(Queries),
    Probabilities(Probabilities),
    Rescale(Rescale),
    RowSum(RowSum),
    Output(Output),
    Scales(Scales),
    Values(Values),
    Accumulate(Accumulate),
    Exponential(Exponential),
    Split(Split),
    Grid(Grid),
}

/// A value, and the tokens that findings about it belong on.
pub(super) struct Setting {
    pub(super) value: Value,
    pub(super) spans: Vec<(Field, Span)>,
}

impl Value {
    /// Puts the value where it belongs.
    pub(super) fn apply(self, schedule: &mut Schedule) {
        match self {
            Self::Pass(value) => schedule.pass = value,
            Self::Element(value) => schedule.element = value,
            Self::Variant(value) => schedule.variant = value,
            Self::HeadDim(value) => schedule.head_dim = value,
            Self::Tile(value) => schedule.tile = value,
            Self::Stages(value) => schedule.stages = value,
            Self::Roles(value) => schedule.roles = value,
            Self::Overlap(value) => schedule.overlap = value,
            Self::Queries(value) => schedule.queries = value,
            Self::Probabilities(value) => schedule.probabilities = value,
            Self::Rescale(value) => schedule.rescale = value,
            Self::RowSum(value) => schedule.row_sum = value,
            Self::Output(value) => fp8(schedule).output = value,
            Self::Scales(value) => fp8(schedule).scales = value,
            Self::Values(value) => fp8(schedule).values = value,
            Self::Accumulate(value) => fp8(schedule).accumulate = value,
            Self::Exponential(value) => fp8(schedule).exponential = value,
            Self::Split(value) => schedule.split = value,
            Self::Grid(value) => schedule.grid = value,
        }
    }
}

/// What only 8-bit elements have; of another element `feasible` refuses it.
fn fp8(schedule: &mut Schedule) -> &mut Fp8 {
    schedule.fp8.get_or_insert_default()
}

fn keyword<T: Copy>(
    reader: &mut Reader<'_>,
    all: &[T],
    word: fn(T) -> &'static str,
    field: Field,
    value: fn(T) -> Value,
) -> Result<Setting> {
    let words: Vec<&str> = all.iter().map(|case| word(*case)).collect();
    let (index, span) = reader.one_of(&words)?;
    Ok(Setting { value: value(all[index]), spans: vec![(field, span)] })
}

/// `128` or `(192, 128)`.
pub(super) fn head_dim(reader: &mut Reader<'_>) -> Result<Setting> {
    const LENGTH: &str = "a row length such as 128, or a pair such as (192, 128)";
    let (qk, v) = if reader.peek_group(Delimiter::Parenthesis) {
        let mut pair = reader.group(Delimiter::Parenthesis, LENGTH)?;
        let qk = pair.whole("the row length of Q and K")?;
        pair.mark(",")?;
        let v = pair.whole("the row length of V")?;
        pair.end("`)`")?;
        (qk, v)
    } else {
        let both = reader.whole(LENGTH)?;
        (both, both)
    };
    let value = Value::HeadDim(HeadDim { qk: qk.0, v: v.0 });
    Ok(Setting { value, spans: vec![(Field::HeadDimQk, qk.1), (Field::HeadDimV, v.1)] })
}

/// `128 x 96`, which lexes as a number, a word and a number, or `128x96`, which lexes as one number with a suffix.
fn tile(reader: &mut Reader<'_>) -> Result<Setting> {
    const ROWS: &str = "the rows of the tile, as in 128 x 96";
    const COLUMNS: &str = "the columns of the tile, as in 128 x 96";
    let rows = reader.number(ROWS)?;
    let (columns, columns_span) = if rows.suffix.is_empty() {
        reader.word("x")?;
        reader.whole(COLUMNS)?
    } else {
        let columns = rows.suffix.strip_prefix('x').and_then(|digits| digits.parse().ok());
        (columns.ok_or_else(|| Error::new(rows.span, format!("expected {ROWS}")))?, rows.span)
    };
    let value = Value::Tile(Tile { rows: rows.whole(ROWS)?, columns });
    Ok(Setting { value, spans: vec![(Field::TileRows, rows.span), (Field::TileColumns, columns_span)] })
}

/// `{ q: 2, kv: 2 }`.
fn stages(reader: &mut Reader<'_>) -> Result<Setting> {
    const NAMES: [&str; 2] = ["q", "kv"];
    const FIELDS: [Field; 2] = [Field::StagesQ, Field::StagesKv];
    let (mut depths, mut spans) = ([0; 2], Vec::new());
    fields(reader, "ring", &NAMES, "`{ q: 2, kv: 2 }`", |index, reader| {
        let (depth, span) = reader.whole("a number of stages")?;
        depths[index] = depth;
        spans.push((FIELDS[index], span));
        Ok(())
    })?;
    Ok(Setting { value: Value::Stages(Stages { q: depths[0], kv: depths[1] }), spans })
}

/// `{ producer: warps(1) registers(24), consumer: warpgroups(2) registers(240) }`.
pub(super) fn roles(reader: &mut Reader<'_>) -> Result<Setting> {
    const NAMES: [&str; 2] = ["producer", "consumer"];
    const UNITS: [&str; 2] = ["warps", "warpgroups"];
    const FIELDS: [[Field; 2]; 2] =
        [[Field::ProducerWarps, Field::ProducerRegisters], [Field::ConsumerWarpgroups, Field::ConsumerRegisters]];
    let (mut numbers, mut spans) = ([[0; 2]; 2], Vec::new());
    fields(reader, "role", &NAMES, "`{ producer: ..., consumer: ... }`", |role, reader| {
        for (index, word) in [UNITS[role], "registers"].into_iter().enumerate() {
            reader.word(word)?;
            let (number, span) = argument(reader, |inside| inside.whole("a number"))?;
            numbers[role][index] = number;
            spans.push((FIELDS[role][index], span));
        }
        Ok(())
    })?;
    let [[warps, producer], [warpgroups, consumer]] = numbers;
    let value = Value::Roles(Roles {
        producer: Producer { warps, registers: producer },
        consumer: Consumer { warpgroups, registers: consumer },
    });
    Ok(Setting { value, spans })
}

/// `[within_warpgroup, pingpong]`.
fn overlap(reader: &mut Reader<'_>) -> Result<Setting> {
    const FIELDS: [Field; 3] = [Field::WithinWarpgroup, Field::Pingpong, Field::AcrossTiles];
    let (mut overlap, mut spans) = (Overlap::default(), Vec::new());
    reader.group(Delimiter::Bracket, "a list such as [within_warpgroup]")?.list(|entry| {
        let (index, span) = entry.one_of(&Overlap::WORDS)?;
        let word = Overlap::WORDS[index];
        if overlap.has(word) {
            return Err(Error::new(span, format!("duplicate overlap `{word}`")));
        }
        overlap.switch(word).into_iter().for_each(|on| *on = true);
        spans.push((FIELDS[index], span));
        Ok(())
    })?;
    Ok(Setting { value: Value::Overlap(overlap), spans })
}

/// `always`, `above(8.0)` or `on_overflow`.
fn rescale(reader: &mut Reader<'_>) -> Result<Setting> {
    let (index, mut span) = reader.one_of(&["always", "above", "on_overflow"])?;
    let mut value = if index == 2 { Rescale::OnOverflow } else { Rescale::Always };
    if index == 1 {
        const THRESHOLD: &str = "a threshold such as 8.0";
        let number = argument(reader, |inside| inside.number(THRESHOLD))?;
        let threshold = number.digits.parse().ok().filter(|_| number.suffix.is_empty()).and_then(Threshold::new);
        value = Rescale::Above(
            threshold.ok_or_else(|| Error::new(number.span, "expected a finite threshold above 0, such as 8.0"))?,
        );
        span = number.span;
    }
    Ok(Setting { value: Value::Rescale(value), spans: vec![(Field::Rescale, span)] })
}

/// `tensor_core` or `every(4)`.
fn accumulate(reader: &mut Reader<'_>) -> Result<Setting> {
    let words = [("tensor_core", None), ("every", Some("a number of key tiles such as 4"))];
    let (index, number, span) = word_or_number(reader, words)?;
    let value = if index == 0 { Accumulate::TensorCore } else { Accumulate::Every(number) };
    Ok(Setting { value: Value::Accumulate(value), spans: vec![(Field::Accumulate, span)] })
}

/// `unit`, `linear(2)` or `polynomial(1)`.
fn exponential(reader: &mut Reader<'_>) -> Result<Setting> {
    let words = [
        ("unit", None),
        ("linear", Some("a number of quarters, 1 to 4")),
        ("polynomial", Some("a number of eighths, 1 to 4")),
    ];
    let (index, number, span) = word_or_number(reader, words)?;
    let value = match index {
        0 => Exponential::Unit,
        1 => Exponential::Linear(number),
        _ => Exponential::Polynomial(number),
    };
    Ok(Setting { value: Value::Exponential(value), spans: vec![(Field::Exponential, span)] })
}

/// Which of the words it is, and the whole number that follows in parentheses where the word says what it counts; else 0.
fn word_or_number<const N: usize>(
    reader: &mut Reader<'_>,
    words: [(&str, Option<&str>); N],
) -> Result<(usize, u32, Span)> {
    let (index, span) = reader.one_of(&words.map(|(word, _)| word))?;
    match words[index].1 {
        None => Ok((index, 0, span)),
        Some(what) => argument(reader, |inside| inside.whole(what)).map(|(number, span)| (index, number, span)),
    }
}

/// `persistent(dynamic) longest_first(l2: 32 MiB)`.
fn grid(reader: &mut Reader<'_>) -> Result<Setting> {
    reader.word("persistent")?;
    let words: Vec<&str> = Scheduler::ALL.iter().map(|case| case.keyword()).collect();
    let (index, span) = argument(reader, |inside| inside.one_of(&words))?;
    let mut grid = Grid { scheduler: Scheduler::ALL[index], order: Order::HeadMajor };
    let mut spans = vec![(Field::Scheduler, span)];
    if reader.peek_ident().is_some() {
        reader.word("longest_first")?;
        let (order, span) = argument(reader, section)?;
        grid.order = order;
        spans.push((Field::Order, span));
    }
    Ok(Setting { value: Value::Grid(grid), spans })
}

/// `l2: 32 MiB` or `l2: 32 MiB, heads: 32`.
fn section(reader: &mut Reader<'_>) -> Result<(Order, Span)> {
    reader.word("l2")?;
    reader.mark(":")?;
    let (l2_bytes, span) = bytes(reader)?;
    if !reader.try_punct(',') {
        return Ok((Order::LongestFirst { l2_bytes, heads: None }, span));
    }
    reader.word("heads")?;
    reader.mark(":")?;
    let (heads, span_of_heads) = reader.whole("a number of heads such as 32")?;
    let heads = NonZeroU32::new(heads).ok_or_else(|| Error::new(span_of_heads, "a section of no head".to_owned()))?;
    Ok((Order::LongestFirst { l2_bytes, heads: Some(heads) }, span))
}

/// `32 MiB`; the error on a unit is on the unit.
fn bytes(reader: &mut Reader<'_>) -> Result<(u64, Span)> {
    const SIZE: &str = "a size such as 32 MiB";
    let number = reader.number(SIZE)?;
    let (unit, unit_span) = if number.suffix.is_empty() {
        let unit = reader.ident("a unit: KiB or MiB")?;
        (unit.to_string(), unit.span())
    } else {
        (number.suffix.clone(), number.span)
    };
    let shift = match unit.as_str() {
        "KiB" => 10,
        "MiB" => 20,
        _ => return Err(Error::new(unit_span, format!("unknown unit `{unit}`: a size is in KiB or MiB"))),
    };
    Ok((u64::from(number.whole(SIZE)?) << shift, number.span))
}

/// What stands in the parentheses, all of it.
pub(super) fn argument<'a, T>(reader: &mut Reader<'a>, read: impl FnOnce(&mut Reader<'a>) -> Result<T>) -> Result<T> {
    let mut inside = reader.group(Delimiter::Parenthesis, "`(`")?;
    let value = read(&mut inside)?;
    inside.end("`)`")?;
    Ok(value)
}

/// `{ name: value, ... }` with every name there.
pub(super) fn fields<'a>(
    reader: &mut Reader<'a>,
    what: &str,
    names: &[&'static str],
    form: &str,
    mut read: impl FnMut(usize, &mut Reader<'a>) -> Result<()>,
) -> Result<()> {
    let open = reader.span();
    let mut inside = reader.group(Delimiter::Brace, form)?;
    let (seen, mut errors): (_, Errors) = inside.record(what, names, |index, _, reader| read(index, reader));
    for missing in names.iter().filter(|name| !seen.contains(name)) {
        errors.push(open, format!("missing {what} `{missing}`"));
    }
    errors.finish(())
}
