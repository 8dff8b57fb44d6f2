//! Tables of 8-bit attention that have columns of their own: from bfloat16 and back, and what it costs in accuracy.

use super::data::{Rates, Results, Row};
use super::table::{cell, refusals};
use std::fmt::Write as _;

/// What is measured of accuracy, by key and in words.
const FIGURES: [(&str, &str); 12] = [
    ("bf16", "bf16"),
    ("fp8", "e4m3, rotated, scales by block"),
    ("fp8_linear", "the same, P linear"),
    ("fp8_accurate", "the same, accurate sums"),
    ("fp8_unrotated", "not rotated"),
    ("fp8_head", "scales by head"),
    ("fp8_tensor", "one scale a tensor"),
    ("fp8_plain", "one scale a tensor, not rotated"),
    ("fast", "e4m3, sums in the tensor cores"),
    ("linear", "e4m3, sums in the tensor cores, P linear"),
    ("accurate", "e4m3, accurate sums"),
    ("fa3", "FlashAttention-3, e4m3, one scale a tensor"),
];

/// From bfloat16 to bfloat16.
pub fn road(text: &mut String, results: &Results) -> std::fmt::Result {
    let rows = &results.fp8_road;
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(text, "## From bf16 to bf16 in e4m3, milliseconds, beside our own bf16 attention\n")?;
    writeln!(text, "| head dim | mask | shape | bf16 | rounding + e4m3 | ratio | with P linear | ratio |")?;
    writeln!(text, "|---|---|---|---|---|---|---|---|")?;
    for row in rows {
        let [sixteen, eight, linear] = ["bf16", "fp8", "fp8_linear"].map(|name| shown(row.ms.get(name).copied(), 3));
        let [exactly, linearly] = ["fp8", "fp8_linear"].map(|name| shown(gain(row, name), 3));
        cell(text, row)?;
        writeln!(text, "| {sixteen} | {eight} | {exactly} | {linear} | {linearly} |")?;
    }
    if let Some(mean) = geometric(rows.iter().filter_map(|row| gain(row, "fp8"))) {
        writeln!(text, "\nbf16 over e4m3, geometric mean: **{mean:.3}**.")?;
    }
    let both = || rows.iter().filter(|row| row.ms.contains_key("fp8_linear"));
    let [exact, linear] = ["fp8", "fp8_linear"].map(|name| geometric(both().filter_map(|row| gain(row, name))));
    if let Some((exact, linear)) = exact.zip(linear) {
        writeln!(text, "\nWhere P may be linear: **{linear:.3}** with it, {exact:.3} with exact exponentials.")?;
    }
    writeln!(text)
}

/// Rounding alone, and the copy of as many bytes that took turns with it.
pub fn rounding(text: &mut String, results: &Results) -> std::fmt::Result {
    let rows = &results.rounding;
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(text, "## Rounding from bf16 to e4m3 alone, beside a copy of as many bytes\n")?;
    writeln!(text, "| head dim | mask | shape | rounding, us | GB/s | copy, us | GB/s | of the copy |")?;
    writeln!(text, "|---|---|---|---|---|---|---|---|")?;
    for row in rows {
        let of = |rates: &Rates, name: &str, digits| shown(rates.get(name).copied(), digits);
        let share = row.gbps.get("quantize").zip(row.gbps.get("copy")).map(|(rounding, copy)| rounding / copy);
        cell(text, row)?;
        for name in ["quantize", "copy"] {
            write!(text, "| {} | {} ", of(&row.device_us, name, 1), of(&row.gbps, name, 0))?;
        }
        writeln!(text, "| {} |", shown(share, 3))?;
    }
    writeln!(text)
}

/// bf16 over 8 bits.
fn gain(row: &Row, name: &str) -> Option<f64> {
    Some(row.ms.get("bf16")? / row.ms.get(name)?)
}

/// The geometric mean; none of none.
fn geometric(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = ratios.map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

fn shown(figure: Option<f64>, digits: usize) -> String {
    figure.map_or("-".to_owned(), |figure| format!("{figure:.digits$}"))
}

/// Errors against float64.
pub fn accuracy(text: &mut String, results: &Results) -> std::fmt::Result {
    let title = "e4m3: RMSE against float64, entries N(0, 1) + N(0, 100) Bernoulli(0.001), d128, 4 heads of 1,024 rows, 8 draws";
    errors(text, title, &results.fp8_accuracy)?;
    let title = "e4m3: relative error against float64 where all values are positive, d128, 128 rows";
    errors(text, title, &results.fp8_long)
}

fn errors(text: &mut String, title: &str, rows: &[Row]) -> std::fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let names = FIGURES.into_iter().filter(|(key, _)| rows.iter().any(|row| row.figures.contains_key(*key)));
    let names: Vec<_> = names.collect();
    let titles: Vec<&str> = names.iter().map(|(_, title)| *title).collect();
    writeln!(text, "## {title}\n\n| keys | {} |", titles.join(" | "))?;
    writeln!(text, "|---|{}", "---|".repeat(titles.len()))?;
    for row in rows {
        write!(text, "| {} ", row.keys)?;
        for (key, _) in &names {
            match row.figures.get(*key) {
                Some(error) => write!(text, "| {error:.2e} ")?,
                None => write!(text, "| - ")?,
            }
        }
        writeln!(text, "|")?;
    }
    refusals(text, rows)
}

#[cfg(test)]
mod tests {
    use crate::bench::data::Results;
    use crate::bench::table::markdown;

    #[test]
    fn eight_bits_have_tables_of_their_own() {
        let json = r#"{"ceilings": {"copy": {"gbps": 4000.0}}, "forward": [],
            "fp8_forward": [{"head_dim": 128, "seqlen": 8192, "keys": 8192, "batch": 2, "heads": 16, "kv_heads": 16,
                "tflops": {"tilewright": 1200.0, "tilewright linear": 1400.0, "tilewright accurate": 1150.0, "fa3": 800.0,
                    "matmul": 1400.0},
                "predicted": 1080.0, "schedule": "fwd_e4m3_d128", "calibrated": false}],
            "fp8_road": [{"head_dim": 128, "causal": true, "seqlen": 8192, "keys": 8192, "batch": 2, "heads": 16,
                "kv_heads": 16, "ms": {"bf16": 0.75, "fp8": 0.5, "fp8_linear": 0.4}},
                {"head_dim": 256, "seqlen": 8192, "keys": 8192, "batch": 2, "heads": 8, "kv_heads": 8,
                "ms": {"bf16": 1.0, "fp8": 0.6}}],
            "rounding": [{"head_dim": 128, "seqlen": 8192, "keys": 8192, "batch": 2, "heads": 16, "kv_heads": 16,
                "device_us": {"quantize": 80.0, "copy": 72.0}, "gbps": {"quantize": 3690.0, "copy": 4100.0}}],
            "fp8_accuracy": [{"keys": 4096, "figures": {"bf16": 0.0002, "fp8": 0.009, "fp8_linear": 0.01, "fa3": 0.024}}],
            "fp8_long": [{"keys": 131072, "figures": {"fast": 0.1, "linear": 0.11, "accurate": 0.004},
                "left_out": {"fa3": "ImportError"}}]}"#;
        let text = markdown(&serde_json::from_str::<Results>(json).expect("reads"));
        for part in [
            "| tilewright | tilewright, P linear | tilewright, accurate sums | FlashAttention-3 | ratio |",
            "| 1200.0 | 1400.0 | 1150.0 | 800.0 | 1.500 | FlashAttention-3 | 1080.0 | fwd_e4m3_d128 |",
            "Ours over the best peer, geometric mean: **1.500**; d128 full 1.500.",
            "Ours with P linear over the best peer, geometric mean: **1.750**; d128 full 1.750.",
            "The fastest of ours over the best peer, geometric mean: **1.750**; d128 full 1.750.",
            "Predicted by the cost model, not calibrated for these: median error 10.0 %",
            "| 128 | causal | 2 x 8192 | 0.750 | 0.500 | 1.500 | 0.400 | 1.875 |",
            "| 256 | full | 2 x 8192 | 1.000 | 0.600 | 1.667 | - | - |",
            "| 128 | full | 2 x 8192 | 80.0 | 3690 | 72.0 | 4100 | 0.900 |",
            "bf16 over e4m3, geometric mean: **1.581**.",
            "Where P may be linear: **1.875** with it, 1.500 with exact exponentials.",
            "| keys | bf16 | e4m3, rotated, scales by block | the same, P linear | FlashAttention-3, e4m3, one scale a tensor |",
            "| 4096 | 2.00e-4 | 9.00e-3 | 1.00e-2 | 2.40e-2 |",
            "| 131072 | 1.00e-1 | 1.10e-1 | 4.00e-3 |",
            "fa3 left out where it is missing: ImportError",
        ] {
            assert!(text.contains(part), "`{part}` in:\n{text}");
        }
    }

    #[test]
    fn a_run_without_them_says_nothing_of_them() {
        let text = markdown(&Results::default());
        assert!(!text.contains("e4m3"), "{text}");
    }
}
