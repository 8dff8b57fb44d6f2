//! An entry as TOML has it: its fields, and the inline table that it is written as.

use schedule::{Element, HeadDim, Variant};
use serde::Deserialize;

use super::{Bounds, Preference};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    prefer: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    schedule: String,
    element: String,
    head_dim: Dim,
    variant: String,
    #[serde(default)]
    keys: Bounds<u64>,
    #[serde(default)]
    queries: Bounds<u64>,
    #[serde(default)]
    tiles_per_sm: Bounds<f64>,
    tflops: Option<f64>,
    device: Option<String>,
}

/// `128`, or `[192, 128]`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "head_dim is a number, or two as [192, 128]")]
enum Dim {
    Same(u32),
    Pair([u32; 2]),
}

/// The entries of a file.
///
/// # Errors
/// In words for the user.
pub(super) fn preferences(text: &str) -> Result<Vec<Preference>, String> {
    let file: File = toml::from_str(text).map_err(|error| format!("the tuning file does not read: {error}"))?;
    let numbered = file.prefer.into_iter().enumerate();
    numbered
        .map(|(index, line)| preference(line).map_err(|why| format!("entry {} of the tuning file: {why}", index + 1)))
        .collect()
}

fn preference(line: Line) -> Result<Preference, String> {
    let Line { schedule, element, head_dim, variant, keys, queries, tiles_per_sm, tflops, device } = line;
    let empty = [("keys", keys.is_empty()), ("queries", queries.is_empty()), ("tiles_per_sm", tiles_per_sm.is_empty())];
    if let Some((name, _)) = empty.iter().find(|(_, empty)| *empty) {
        return Err(format!("{name} ends before it begins"));
    }
    Ok(Preference {
        schedule,
        element: keyword("element", &element, Element::ALL, Element::keyword)?,
        head_dim: match head_dim {
            Dim::Same(length) => HeadDim::same(length),
            Dim::Pair([qk, v]) => HeadDim { qk, v },
        },
        variant: keyword("variant", &variant, Variant::ALL, Variant::keyword)?,
        keys,
        queries,
        tiles_per_sm,
        tflops,
        device,
    })
}

/// The choice that a word names.
fn keyword<T: Copy>(field: &str, word: &str, all: &[T], of: fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|&choice| of(choice) == word).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|&choice| of(choice)).collect();
        format!("{field} {word:?} is none of {}", known.join(", "))
    })
}

/// An entry as an inline table.
pub(super) fn inline(preference: &Preference) -> String {
    let Preference { schedule, element, head_dim, variant, keys, queries, tiles_per_sm, tflops, device } = preference;
    let dims =
        if head_dim.qk == head_dim.v { head_dim.qk.to_string() } else { format!("[{}, {}]", head_dim.qk, head_dim.v) };
    let text = |text: &str| toml::Value::from(text).to_string();
    let mut fields = vec![
        format!("schedule = {}", text(schedule)),
        format!("element = {}", text(element.keyword())),
        format!("head_dim = {dims}"),
        format!("variant = {}", text(variant.keyword())),
    ];
    for (name, bounds) in [("keys", keys), ("queries", queries)] {
        if !bounds.is_free() {
            fields.push(format!("{name} = {bounds}"));
        }
    }
    if !tiles_per_sm.is_free() {
        fields.push(format!("tiles_per_sm = {tiles_per_sm}"));
    }
    fields.extend(tflops.map(|tflops| format!("tflops = {tflops:.1}")));
    fields.extend(device.as_ref().map(|device| format!("device = {}", text(device))));
    format!("{{ {} }}", fields.join(", "))
}
