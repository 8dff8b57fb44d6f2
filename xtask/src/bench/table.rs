//! Results as a Markdown text that also reads well in a terminal.

use super::data::{ACCURATE, EVERYBODY, LINEAR, OURS, Rates, Results, Row, mean, prediction_errors, ratio};
use super::fp8;
use std::fmt::Write as _;

/// The whole text.
pub fn markdown(results: &Results) -> String {
    let mut text = String::new();
    // Writing to a string never fails.
    let _ = head(&mut text, results);
    let _ = rates(&mut text, "Forward bf16, TFLOP/s, burst", &results.forward, |row| &row.tflops);
    let _ = rates(&mut text, "Forward bf16, TFLOP/s, sustained", &results.sustained, |row| &row.tflops);
    let _ = power(&mut text, &results.sustained);
    let _ = rates(&mut text, "Grouped heads, TFLOP/s, burst", &results.grouped, |row| &row.tflops);
    let title = "Forward e4m3, the attention alone on codes that are there, TFLOP/s, burst";
    let _ = rates(&mut text, title, &results.fp8_forward, |row| &row.tflops);
    let _ = fp8::road(&mut text, results);
    let _ = fp8::rounding(&mut text, results);
    let _ = fp8::accuracy(&mut text, results);
    let _ = rates(&mut text, "Decoding, GB/s of K and V", &results.decode, |row| &row.gbps);
    let _ = plain(&mut text, "Small launches, microseconds of the host a call", &results.small, |row| &row.host_us);
    let title = "Small launches, microseconds of the device in a CUDA graph";
    let _ = plain(&mut text, title, &results.small, |row| &row.device_us);
    let _ = errors(&mut text, &results.accuracy);
    let _ = first_use(&mut text, results);
    for missing in &results.not_offered {
        let _ = writeln!(text, "Not offered: {missing}.");
    }
    for missing in &results.out_of_time {
        let _ = writeln!(text, "Out of time: {missing}.");
    }
    text
}

fn head(text: &mut String, results: &Results) -> std::fmt::Result {
    let word = |key| results.word(key);
    writeln!(text, "# {}, driver {}, revision {}\n", word("device"), word("driver"), word("revision"))?;
    writeln!(text, "torch {}, CUDA {}, {}.", word("torch"), word("cuda"), word("when"))?;
    if let Some(serde_json::Value::Object(peers)) = results.meta.get("peers") {
        let list: Vec<&str> = peers.values().filter_map(serde_json::Value::as_str).collect();
        writeln!(text, "Measured: {}.", list.join(", "))?;
    }
    for (name, figures) in &results.ceilings {
        let list: Vec<String> = figures.iter().map(|(what, figure)| format!("{figure:.1} {what}")).collect();
        writeln!(text, "The day's {}: {}.", name.replace('_', " "), list.join(", "))?;
    }
    writeln!(text)
}

/// Columns: the cell, everybody that has a figure anywhere, and more at the end.
fn header(text: &mut String, title: &str, names: &[(&str, &str)], last: &[&str]) -> std::fmt::Result {
    writeln!(text, "## {title}\n")?;
    let titles: Vec<&str> = names.iter().map(|(_, name)| *name).chain(last.iter().copied()).collect();
    writeln!(text, "| head dim | mask | shape | {} |", titles.join(" | "))?;
    writeln!(text, "|---|---|---|{}", "---|".repeat(titles.len()))
}

fn present(rows: &[Row], of: fn(&Row) -> &Rates) -> Vec<(&'static str, &'static str)> {
    EVERYBODY.into_iter().filter(|(key, _)| rows.iter().any(|row| of(row).contains_key(*key))).collect()
}

pub(super) fn cell(text: &mut String, row: &Row) -> std::fmt::Result {
    let heads =
        if row.heads == row.kv_heads { String::new() } else { format!(", {}/{} heads", row.heads, row.kv_heads) };
    let keys = if row.keys == row.seqlen { String::new() } else { format!(" over {}", row.keys) };
    write!(text, "| {} | {} | {} x {}{keys}{heads} ", row.head_dim, row.mask(), row.batch, row.seqlen)
}

fn figures(text: &mut String, names: &[(&str, &str)], rates: &Rates) -> std::fmt::Result {
    for (key, _) in names {
        match rates.get(*key) {
            Some(rate) => write!(text, "| {rate:.1} ")?,
            None => write!(text, "| - ")?,
        }
    }
    Ok(())
}

/// A table of rates with the ratio to the best peer, and geometric means under it.
fn rates(text: &mut String, title: &str, rows: &[Row], of: fn(&Row) -> &Rates) -> std::fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let names = present(rows, of);
    let errors = prediction_errors(rows);
    let last: &[&str] = if errors.is_some() { &["ratio", "of", "predicted", "schedule"] } else { &["ratio", "of"] };
    header(text, title, &names, last)?;
    for row in rows {
        cell(text, row)?;
        figures(text, &names, of(row))?;
        match ratio(of(row), &[OURS]) {
            Some((ratio, name)) => write!(text, "| {ratio:.3} | {name} ")?,
            None => write!(text, "| - | - ")?,
        }
        if errors.is_some() {
            match (row.predicted, &row.schedule) {
                (Some(rate), Some(schedule)) => write!(text, "| {rate:.1} | {schedule} ")?,
                _ => write!(text, "| - | - ")?,
            }
        }
        writeln!(text, "|")?;
    }
    means(text, "Ours over the best peer", rows, of, &[OURS])?;
    if rows.iter().any(|row| of(row).contains_key(LINEAR)) {
        means(text, "Ours with P linear over the best peer", rows, of, &[LINEAR])?;
        means(text, "The fastest of ours over the best peer", rows, of, &[OURS, LINEAR, ACCURATE])?;
    }
    if let Some((median, worst)) = errors {
        let (median, worst) = (100.0 * median, 100.0 * worst);
        let how = if rows.iter().any(|row| row.calibrated == Some(false)) { ", not calibrated for these" } else { "" };
        writeln!(text, "\nPredicted by the cost model{how}: median error {median:.1} %, worst {worst:.1} %.")?;
    }
    refusals(text, rows)
}

/// Geometric means of the fastest of `ours` over the best peer, over all cells that have both and by head dimension and mask.
fn means(text: &mut String, what: &str, rows: &[Row], of: fn(&Row) -> &Rates, ours: &[&str]) -> std::fmt::Result {
    let Some(all) = mean(rows.iter().map(of), ours) else { return Ok(()) };
    write!(text, "\n{what}, geometric mean: **{all:.3}**")?;
    let mut groups: Vec<(u32, bool)> = rows.iter().map(|row| (row.head_dim, row.causal)).collect();
    groups.sort_unstable();
    groups.dedup();
    for (head_dim, causal) in groups {
        let group = rows.iter().filter(|row| (row.head_dim, row.causal) == (head_dim, causal));
        if let Some(mean) = mean(group.map(of), ours) {
            write!(text, "; d{head_dim} {} {mean:.3}", if causal { "causal" } else { "full" })?;
        }
    }
    writeln!(text, ".")
}

/// Who was left out of some of the rows, with the reason.
pub(super) fn refusals(text: &mut String, rows: &[Row]) -> std::fmt::Result {
    let mut all: Vec<(&str, &str)> =
        rows.iter().flat_map(|row| row.left_out.iter().map(|(name, why)| (name.as_str(), why.as_str()))).collect();
    all.sort_unstable();
    all.dedup();
    for (name, why) in all {
        writeln!(text, "\n{name} left out where it is missing: {why}")?;
    }
    writeln!(text)
}

fn plain(text: &mut String, title: &str, rows: &[Row], of: fn(&Row) -> &Rates) -> std::fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let names = present(rows, of);
    header(text, title, &names, &[])?;
    for row in rows {
        cell(text, row)?;
        figures(text, &names, of(row))?;
        writeln!(text, "|")?;
    }
    writeln!(text)
}

/// Clock, power and efficiency of the sustained runs.
fn power(text: &mut String, rows: &[Row]) -> std::fmt::Result {
    if rows.iter().all(|row| row.held.values().all(|held| !held.contains_key("watts"))) {
        return Ok(());
    }
    let names: Vec<_> =
        EVERYBODY.into_iter().filter(|(key, _)| rows.iter().any(|row| row.held.contains_key(*key))).collect();
    header(text, "Sustained: MHz, watts, TFLOP/s per watt", &names, &[])?;
    for row in rows {
        cell(text, row)?;
        for (key, _) in &names {
            let found = |what: &str| row.held.get(*key).and_then(|held| held.get(what)).copied();
            match (found("mhz"), found("watts"), found("tflops_per_watt")) {
                (Some(mhz), Some(watts), Some(each)) => write!(text, "| {mhz:.0}, {watts:.0}, {each:.3} ")?,
                _ => write!(text, "| - ")?,
            }
        }
        writeln!(text, "|")?;
    }
    writeln!(text)
}

/// Relative errors of O and LSE.
fn errors(text: &mut String, rows: &[Row]) -> std::fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let names: Vec<_> =
        EVERYBODY.into_iter().filter(|(key, _)| rows.iter().any(|row| row.errors.contains_key(*key))).collect();
    let title = "Relative error against float64, O and LSE, batch 2, 4 heads, 1,024 rows";
    let titles: Vec<&str> = names.iter().map(|(_, name)| *name).collect();
    writeln!(text, "## {title}\n\n| head dim | mask | data | {} |", titles.join(" | "))?;
    writeln!(text, "|---|---|---|{}", "---|".repeat(titles.len()))?;
    for row in rows {
        write!(text, "| {} | {} | {} ", row.head_dim, row.mask(), row.data)?;
        for (key, _) in &names {
            let found = |what: &str| row.errors.get(*key).and_then(|errors| errors.get(what)).copied().flatten();
            let shown = |error: Option<f64>| error.map_or("-".to_owned(), |error| format!("{error:.2e}"));
            write!(text, "| {}, {} ", shown(found("o")), shown(found("lse")))?;
        }
        writeln!(text, "|")?;
    }
    writeln!(text)
}

/// Import and first result in a fresh process.
fn first_use(text: &mut String, results: &Results) -> std::fmt::Result {
    if results.first_use.is_empty() {
        return Ok(());
    }
    writeln!(text, "## First use in a fresh process, seconds, and installed size\n")?;
    writeln!(text, "| | compute cache | import | first result | installed MB |\n|---|---|---|---|---|")?;
    for (key, name) in EVERYBODY {
        let Some(states) = results.first_use.get(key) else { continue };
        let size = results.installed_mb.get(key).map_or("-".to_owned(), |mb| format!("{mb:.1}"));
        for (state, took) in states {
            let seconds = |what: &str| {
                took.get(what).and_then(serde_json::Value::as_f64).map_or("-".to_owned(), |s| format!("{s:.2}"))
            };
            writeln!(text, "| {name} | {state} | {} | {} | {size} |", seconds("import_s"), seconds("first_s"))?;
        }
    }
    writeln!(text)
}

#[cfg(test)]
mod tests {
    use super::markdown;
    use crate::bench::data::Results;

    #[test]
    fn a_run_with_few_sections_is_a_short_text() {
        let json = r#"{"meta": {"device": "NVIDIA H200"}, "forward": [
            {"head_dim": 128, "causal": true, "seqlen": 2048, "keys": 2048, "batch": 8, "heads": 16, "kv_heads": 16,
             "tflops": {"tilewright": 550.0, "fa3": 500.0, "matmul": 700.0}, "left_out": {"fa4": "ImportError"}}]}"#;
        let results: Results = serde_json::from_str(json).expect("reads");
        let text = markdown(&results);
        for part in
            ["NVIDIA H200", "| 128 | causal | 8 x 2048 | 550.0 | 500.0 | 1.100 | FlashAttention-3 |", "**1.100**"]
        {
            assert!(text.contains(part), "`{part}` in:\n{text}");
        }
        assert!(text.contains("fa4 left out where it is missing: ImportError"), "{text}");
        assert!(!text.contains("Decoding"), "{text}");
        // Nothing was predicted in this run.
        assert!(!text.contains("redicted") && !text.contains("schedule"), "{text}");
    }

    #[test]
    fn predictions_stand_beside_what_was_measured() {
        let json = r#"{"forward": [
            {"head_dim": 128, "seqlen": 512, "keys": 512, "batch": 32, "heads": 16, "kv_heads": 16,
             "tflops": {"tilewright": 600.0, "fa3": 500.0}, "predicted": 570.0, "schedule": "fwd_bf16_d128"},
            {"head_dim": 128, "seqlen": 1024, "keys": 1024, "batch": 16, "heads": 16, "kv_heads": 16,
             "tflops": {"tilewright": 600.0}}]}"#;
        let results: Results = serde_json::from_str(json).expect("reads");
        let text = markdown(&results);
        for part in [
            "| ratio | of | predicted | schedule |",
            "| 1.200 | FlashAttention-3 | 570.0 | fwd_bf16_d128 |",
            "| 600.0 | - | - | - | - | - |",
            "Predicted by the cost model: median error 5.0 %, worst 5.0 %.",
        ] {
            assert!(text.contains(part), "`{part}` in:\n{text}");
        }
    }
}
