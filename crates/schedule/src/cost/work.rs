//! What is to be computed, as far as time depends on it.

/// Extents of one attention problem; element type, head dimensions and mask are the schedule's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Batch entries.
    pub batch: u64,
    /// Query rows of each.
    pub queries: u64,
    /// Keys of each.
    pub keys: u64,
    /// Query heads.
    pub heads: u64,
    /// Query heads that share a key head.
    pub group: u64,
}

impl Work {
    /// Query heads of all batch entries.
    pub fn heads_total(&self) -> f64 {
        self.batch as f64 * self.heads as f64
    }

    /// Keys that query row `row` sees, the first so many: all, or under a causal mask those up to `row + keys - queries`.
    pub fn visible(&self, row: u64, causal: bool) -> u64 {
        match causal {
            true => row.saturating_add(1).saturating_add(self.keys).saturating_sub(self.queries).min(self.keys),
            false => self.keys,
        }
    }

    /// Scores that some row sees.
    pub fn scores(&self, causal: bool) -> f64 {
        let (queries, keys) = (self.queries as f64, self.keys as f64);
        let one = match causal {
            false => queries * keys,
            true if keys >= queries => queries * (keys - queries) + queries * (queries + 1.0) / 2.0,
            true => keys * (keys + 1.0) / 2.0,
        };
        one * self.heads_total()
    }
}
