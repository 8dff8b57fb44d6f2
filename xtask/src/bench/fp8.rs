//! Tables of 8-bit attention that have columns of their own: from bfloat16 and back, and what it costs in accuracy.

use super::data::{Results, Row};
use super::table::{cell, refusals};
use std::fmt::Write as _;

/// What is measured of accuracy, by key and in words.
const FIGURES: [(&str, &str); 8] = [
    ("bf16", "bf16"),
    ("fp8", "e4m3, rotated, scales by block"),
    ("fp8_unrotated", "not rotated"),
    ("fp8_head", "scales by head"),
    ("fp8_tensor", "one scale a tensor"),
    ("fast", "e4m3, sums in the tensor cores"),
    ("accurate", "e4m3, accurate sums"),
    ("fa3", "FlashAttention-3, e4m3, one scale a tensor"),
];

/// From bfloat16 to bfloat16, and the rounding alone.
pub fn road(text: &mut String, results: &Results) -> std::fmt::Result {
    let rows = &results.fp8_road;
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(text, "## From bf16 to bf16 in e4m3, milliseconds, beside our own bf16 attention\n")?;
    writeln!(
        text,
        "| head dim | mask | shape | bf16 | rounding + e4m3 | ratio | rounding alone | GB/s | of the copy |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|---|---|---|")?;
    let copy = results.ceilings.get("copy").and_then(|copy| copy.get("gbps"));
    let mut logs = Vec::new();
    for row in rows {
        let [sixteen, eight, rounding] = ["bf16", "fp8", "quantize"].map(|name| row.ms.get(name).copied());
        let gbps = row.gbps.get("quantize").copied();
        let ratio = sixteen.zip(eight).map(|(sixteen, eight)| sixteen / eight);
        logs.extend(ratio.map(f64::ln));
        let share = gbps.zip(copy).map(|(gbps, copy)| gbps / copy);
        cell(text, row)?;
        let [sixteen, eight, ratio, rounding] = [sixteen, eight, ratio, rounding].map(|figure| shown(figure, 3));
        writeln!(text, "| {sixteen} | {eight} | {ratio} | {rounding} | {} | {} |", shown(gbps, 0), shown(share, 2))?;
    }
    if !logs.is_empty() {
        let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        writeln!(text, "\nbf16 over e4m3, geometric mean: **{mean:.3}**.")?;
    }
    writeln!(text)
}

fn shown(figure: Option<f64>, digits: usize) -> String {
    figure.map_or("-".to_owned(), |figure| format!("{figure:.digits$}"))
}

/// Errors against float64.
pub fn accuracy(text: &mut String, results: &Results) -> std::fmt::Result {
    let title = "e4m3: RMSE against float64, entries N(0, 1) + N(0, 100) Bernoulli(0.001), d128, 1,024 rows";
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
                "tflops": {"tilewright": 1200.0, "fa3": 800.0, "matmul": 1400.0},
                "predicted": 1080.0, "schedule": "fwd_e4m3_d128", "calibrated": false}],
            "fp8_road": [{"head_dim": 128, "causal": true, "seqlen": 8192, "keys": 8192, "batch": 2, "heads": 16,
                "kv_heads": 16, "ms": {"bf16": 0.75, "fp8": 0.5, "quantize": 0.1}, "gbps": {"quantize": 3000.0}}],
            "fp8_accuracy": [{"keys": 4096, "figures": {"bf16": 0.0002, "fp8": 0.009, "fa3": 0.024}}],
            "fp8_long": [{"keys": 131072, "figures": {"fast": 0.1, "accurate": 0.004},
                "left_out": {"fa3": "ImportError"}}]}"#;
        let text = markdown(&serde_json::from_str::<Results>(json).expect("reads"));
        for part in [
            "| 1200.0 | 800.0 | 1.500 | FlashAttention-3 | 1080.0 | fwd_e4m3_d128 |",
            "Predicted by the cost model, not calibrated for these: median error 10.0 %",
            "| 128 | causal | 2 x 8192 | 0.750 | 0.500 | 1.500 | 0.100 | 3000 | 0.75 |",
            "geometric mean: **1.500**",
            "| keys | bf16 | e4m3, rotated, scales by block | FlashAttention-3, e4m3, one scale a tensor |",
            "| 4096 | 2.00e-4 | 9.00e-3 | 2.40e-2 |",
            "| 131072 | 1.00e-1 | 4.00e-3 |",
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
