//! What a run of the benchmark wrote, as far as tables and charts need it.

use serde::Deserialize;
use std::collections::BTreeMap;

/// This package's name among the rates.
pub const OURS: &str = "tilewright";
/// Ours in 8 bits with P linear between powers of two.
pub const LINEAR: &str = "tilewright linear";
/// Ours in 8 bits with sums of O in a total apart.
pub const ACCURATE: &str = "tilewright accurate";

/// Everybody in the order of bars and columns, with the name that readers know.
pub const EVERYBODY: [(&str, &str); 7] = [
    (OURS, "tilewright"),
    (LINEAR, "tilewright, P linear"),
    (ACCURATE, "tilewright, accurate sums"),
    ("fa4", "FlashAttention-4"),
    ("fa3", "FlashAttention-3"),
    ("cudnn", "cuDNN"),
    ("fa2", "FlashAttention-2"),
];

/// A figure of everybody, by name.
pub type Rates = BTreeMap<String, f64>;

/// A whole run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Results {
    pub meta: BTreeMap<String, serde_json::Value>,
    pub ceilings: BTreeMap<String, BTreeMap<String, f64>>,
    pub forward: Vec<Row>,
    pub grouped: Vec<Row>,
    pub fp8_forward: Vec<Row>,
    pub fp8_road: Vec<Row>,
    pub rounding: Vec<Row>,
    pub fp8_accuracy: Vec<Row>,
    pub fp8_long: Vec<Row>,
    pub sustained: Vec<Row>,
    pub small: Vec<Row>,
    pub decode: Vec<Row>,
    pub accuracy: Vec<Row>,
    pub first_use: BTreeMap<String, BTreeMap<String, BTreeMap<String, serde_json::Value>>>,
    pub installed_mb: Rates,
    pub not_offered: Vec<String>,
    pub out_of_time: Vec<String>,
}

/// A cell with what was measured in its section.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Row {
    pub head_dim: u32,
    pub causal: bool,
    pub seqlen: u64,
    pub keys: u64,
    pub batch: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub tflops: Rates,
    pub ms: Rates,
    pub gbps: Rates,
    pub host_us: Rates,
    pub device_us: Rates,
    pub held: BTreeMap<String, Rates>,
    pub data: String,
    /// Of the 8-bit accuracy tables.
    pub figures: Rates,
    pub errors: BTreeMap<String, BTreeMap<String, Option<f64>>>,
    pub left_out: BTreeMap<String, String>,
    /// What the cost model said of ours, TFLOP/s, and the schedule that ran; runs of older revisions say neither.
    pub predicted: Option<f64>,
    pub schedule: Option<String>,
    /// Whether the model was held against measurements of such schedules.
    pub calibrated: Option<bool>,
}

impl Row {
    /// `full` or `causal`.
    pub fn mask(&self) -> &'static str {
        if self.causal { "causal" } else { "full" }
    }
}

impl Results {
    /// A word about the run, as it stands in its JSON.
    pub fn word(&self, key: &str) -> String {
        match self.meta.get(key) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => "unknown".into(),
        }
    }
}

/// The fastest of `ours` over the best peer's, and who that is.
pub fn ratio(rates: &Rates, ours: &[&str]) -> Option<(f64, &'static str)> {
    let ours = ours.iter().filter_map(|key| rates.get(*key).copied()).max_by(f64::total_cmp)?;
    let peers = EVERYBODY.iter().filter(|(key, _)| ![OURS, LINEAR, ACCURATE].contains(key));
    let peers = peers.filter_map(|(key, name)| Some((*rates.get(*key)?, *name)));
    let (best, name) = peers.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best > 0.0).then(|| (ours / best, name))
}

/// Median and largest magnitude of predicted over measured, less one, of the rows that have both; none of none.
pub fn prediction_errors(rows: &[Row]) -> Option<(f64, f64)> {
    let error = |row: &Row| Some((row.predicted? / row.tflops.get(OURS)? - 1.0).abs());
    let mut errors: Vec<f64> = rows.iter().filter_map(error).filter(|error| error.is_finite()).collect();
    errors.sort_by(f64::total_cmp);
    let upper = *errors.get(errors.len() / 2)?;
    let lower = errors[(errors.len() - 1) / 2];
    Some(((lower + upper) / 2.0, errors[errors.len() - 1]))
}

/// The geometric mean of the ratios of some rows; none of none.
pub fn mean<'a>(rates: impl Iterator<Item = &'a Rates>, ours: &[&str]) -> Option<f64> {
    let logs: Vec<f64> = rates.filter_map(|rates| ratio(rates, ours).map(|(ratio, _)| ratio.ln())).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::{ACCURATE, LINEAR, OURS, Rates, Row, mean, prediction_errors, ratio};

    fn rates(pairs: &[(&str, f64)]) -> Rates {
        pairs.iter().map(|&(name, rate)| (name.to_owned(), rate)).collect()
    }

    #[test]
    fn the_matrix_product_is_no_peer() {
        let cell = rates(&[("tilewright", 600.0), ("fa3", 500.0), ("cudnn", 400.0), ("matmul", 700.0)]);
        assert_eq!(ratio(&cell, &[OURS]), Some((1.2, "FlashAttention-3")));
        assert_eq!(ratio(&rates(&[("tilewright", 600.0), ("matmul", 700.0)]), &[OURS]), None);
        assert_eq!(ratio(&rates(&[("fa3", 600.0)]), &[OURS]), None);
    }

    #[test]
    fn ours_otherwise_is_no_peer_and_counts_where_asked_for() {
        let cell = rates(&[(OURS, 600.0), (LINEAR, 750.0), (ACCURATE, 550.0), ("fa3", 500.0)]);
        let found = [&[OURS][..], &[LINEAR], &[ACCURATE, OURS, LINEAR]].map(|ours| ratio(&cell, ours));
        assert_eq!(found, [1.2, 1.5, 1.5].map(|ratio| Some((ratio, "FlashAttention-3"))));
        assert_eq!(ratio(&rates(&[(OURS, 600.0), ("fa3", 500.0)]), &[LINEAR]), None);
    }

    #[test]
    fn predictions_are_held_against_ours_where_there_are_any() {
        let row =
            |predicted| Row { predicted, tflops: rates(&[("tilewright", 500.0), ("fa3", 1.0)]), ..Row::default() };
        let rows = [row(Some(550.0)), row(Some(400.0)), row(None)];
        let (median, worst) = prediction_errors(&rows).expect("two have one");
        assert!((median - 0.15).abs() < 1e-12 && (worst - 0.2).abs() < 1e-12, "{median} {worst}");
        assert_eq!(prediction_errors(&rows[2..]), None);
    }

    #[test]
    fn a_half_and_a_double_are_one_on_average() {
        let cells = [rates(&[("tilewright", 1.0), ("fa3", 2.0)]), rates(&[("tilewright", 4.0), ("fa2", 2.0)])];
        assert!(mean(cells.iter(), &[OURS]).is_some_and(|mean| (mean - 1.0).abs() < 1e-12));
        assert_eq!(mean([].iter(), &[OURS]), None);
    }
}
