//! The forward pass as grouped bars, as in the FlashAttention-3 paper: one panel for each head dimension and mask.

use super::data::{EVERYBODY, OURS, Results, Row, mean};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::collections::BTreeSet;

/// Pixels of one panel, and of what stands above all of them.
const PANEL: (u32, u32) = (560, 330);
const HEAD: u32 = 96;
/// Bars of a group fill this share of its width.
const FILL: f64 = 0.86;

const INK: RGBColor = RGBColor(40, 44, 52);
const GRID: RGBColor = RGBColor(226, 229, 234);
const FAINT: RGBColor = RGBColor(120, 126, 136);

/// Ours stands out; the rest are told apart, also without colours by lightness.
fn colour(name: &str) -> RGBColor {
    match name {
        OURS => RGBColor(214, 84, 39),
        "fa4" => RGBColor(28, 73, 114),
        "fa3" => RGBColor(69, 130, 181),
        "cudnn" => RGBColor(122, 168, 96),
        _ => RGBColor(190, 196, 204),
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The chart of a run.
///
/// # Errors
/// What the drawing library says.
pub fn svg(results: &Results) -> Result<String> {
    let dims: Vec<u32> = results.forward.iter().map(|row| row.head_dim).collect::<BTreeSet<_>>().into_iter().collect();
    let masks: Vec<bool> = results.forward.iter().map(|row| row.causal).collect::<BTreeSet<_>>().into_iter().collect();
    let size = (PANEL.0 * dims.len() as u32, HEAD + PANEL.1 * masks.len() as u32);
    let mut text = String::new();
    {
        let all = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&all, results, &dims, &masks).map_err(|error| anyhow!("the chart cannot be drawn: {error}"))?;
    }
    text.push('\n');
    Ok(text)
}

type Drawn<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn draw(all: &Area<'_>, results: &Results, dims: &[u32], masks: &[bool]) -> Drawn {
    all.fill(&WHITE)?;
    let (head, body) = all.split_vertically(HEAD);
    let everybody: Vec<(&str, &str)> = EVERYBODY
        .into_iter()
        .filter(|(key, _)| results.forward.iter().any(|row| row.tflops.contains_key(*key)))
        .collect();
    title(&head, results, &everybody)?;
    let top = results.forward.iter().flat_map(|row| row.tflops.values()).copied().fold(100.0, f64::max);
    for (area, (causal, dim)) in body
        .split_evenly((masks.len(), dims.len()))
        .iter()
        .zip(masks.iter().flat_map(|&causal| dims.iter().map(move |&dim| (causal, dim))))
    {
        let rows: Vec<&Row> =
            results.forward.iter().filter(|row| (row.head_dim, row.causal) == (dim, causal)).collect();
        panel(area, &rows, dim, causal, top * 1.12, &everybody)?;
    }
    all.present()?;
    Ok(())
}

/// What was measured where, and whose bar is whose.
fn title(area: &Area<'_>, results: &Results, everybody: &[(&str, &str)]) -> Drawn {
    let word = |key| results.word(key);
    let large = ("sans-serif", 24).into_font().style(FontStyle::Bold).color(&INK);
    let small = ("sans-serif", 14).into_font().color(&FAINT);
    area.draw_text(&format!("Attention forward, bf16, on {}", word("device")), &large, (24, 16))?;
    let (driver, torch, revision) = (word("driver"), word("torch"), word("revision"));
    let about = format!(
        "TFLOP/s, median of bursts taken in turn; 16,384 tokens, hidden size 2,048. driver {driver}, torch {torch}, revision {revision}"
    );
    area.draw_text(&about, &small, (24, 48))?;
    let label = ("sans-serif", 15).into_font().color(&INK);
    let mut x = 24;
    for (key, name) in everybody {
        area.draw(&Rectangle::new([(x, 72), (x + 14, 86)], colour(key).filled()))?;
        area.draw_text(name, &label, (x + 20, 71))?;
        x += 46 + 7 * name.len() as i32;
    }
    area.draw(&PathElement::new([(x, 79), (x + 26, 79)], INK.stroke_width(1)))?;
    area.draw_text("matrix product of the same round", &label, (x + 32, 71))?;
    Ok(())
}

/// One head dimension and mask: a group of bars for every length.
fn panel(area: &Area<'_>, rows: &[&Row], dim: u32, causal: bool, top: f64, everybody: &[(&str, &str)]) -> Drawn {
    let mask = if causal { "causal" } else { "full" };
    let ratio = mean(rows.iter().map(|row| &row.tflops), &[OURS]);
    let ratio = ratio.map_or(String::new(), |ratio| format!("  ({ratio:.2} of the best peer)"));
    let mut chart = ChartBuilder::on(area)
        .caption(format!("head dim {dim}, {mask}{ratio}"), ("sans-serif", 17).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(44)
        .build_cartesian_2d(0.0..rows.len() as f64, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_labels(6)
        .y_label_formatter(&|rate| format!("{rate:.0}"))
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(TRANSPARENT)
        .label_style(("sans-serif", 13).into_font().color(&FAINT))
        .draw()?;
    let width = FILL / everybody.len() as f64;
    let value = TextStyle::from(("sans-serif", 12).into_font()).pos(Pos::new(HPos::Center, VPos::Bottom));
    let length = TextStyle::from(("sans-serif", 14).into_font()).pos(Pos::new(HPos::Center, VPos::Top)).color(&INK);
    for (at, row) in rows.iter().enumerate() {
        let start = at as f64 + (1.0 - FILL) / 2.0;
        if let Some(&rate) = row.tflops.get("matmul") {
            let line = PathElement::new([(start, rate), (start + FILL, rate)], INK.stroke_width(1));
            chart.draw_series(std::iter::once(line))?;
        }
        for (bar, (key, _)) in everybody.iter().enumerate() {
            let Some(&rate) = row.tflops.get(*key) else { continue };
            let left = start + bar as f64 * width;
            let shape = Rectangle::new([(left, 0.0), (left + width * 0.94, rate)], colour(key).filled());
            chart.draw_series(std::iter::once(shape))?;
            if *key == OURS {
                let ours = colour(key);
                let style = value.clone().color(&ours);
                let text = Text::new(format!("{rate:.0}"), (left + width * 0.5, rate + top * 0.008), style);
                chart.draw_series(std::iter::once(text))?;
            }
        }
        let (x, y) = chart.backend_coord(&(at as f64 + 0.5, 0.0));
        let (left, above) = area.get_base_pixel();
        area.draw_text(&short(row.seqlen), &length, (x - left, y - above + 6))?;
    }
    Ok(())
}

/// 512, 1k, 16k.
fn short(length: u64) -> String {
    if length >= 1024 && length.is_multiple_of(1024) { format!("{}k", length / 1024) } else { length.to_string() }
}

#[cfg(test)]
mod tests {
    use super::{short, svg};
    use crate::bench::data::Results;

    #[test]
    fn lengths_are_short() {
        assert_eq!(
            (short(512), short(1024), short(16384), short(1500)),
            ("512".into(), "1k".into(), "16k".into(), "1500".into())
        );
    }

    #[test]
    fn a_panel_for_each_mask_and_a_bar_for_each_rate() {
        let json = r#"{"meta": {"device": "NVIDIA H200"}, "forward": [
            {"head_dim": 64, "causal": false, "seqlen": 512, "tflops": {"tilewright": 300.0, "fa3": 280.0}},
            {"head_dim": 64, "causal": true, "seqlen": 512, "tflops": {"tilewright": 200.0, "matmul": 700.0}}]}"#;
        let results: Results = serde_json::from_str(json).expect("reads");
        let drawn = svg(&results).expect("draws");
        for part in ["head dim 64, full", "head dim 64, causal", "NVIDIA H200", "300", "512"] {
            assert!(drawn.contains(part), "`{part}` is not in the chart");
        }
    }
}
