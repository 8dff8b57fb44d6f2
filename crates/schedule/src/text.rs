//! A schedule as `schedule!` text, and its hash, which is the hash of that text.
//!
//! Every field that the element type has is printed, also those at their default, but `split` where nothing is. Reading text is `parse`'s business.

use crate::Order;
use crate::data::{Fp8, Grid, HeadDim, Overlap, Roles, Schedule, Tile};
use std::fmt;

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.doc.is_empty() {
            for line in self.doc.split('\n') {
                let space = if line.is_empty() { "" } else { " " };
                writeln!(f, "///{space}{line}")?;
            }
        }
        writeln!(f, "{} {{", self.name)?;
        writeln!(f, "    pass: {},", self.pass)?;
        writeln!(f, "    element: {},", self.element)?;
        writeln!(f, "    variant: {},", self.variant)?;
        writeln!(f, "    head_dim: {},", self.head_dim)?;
        writeln!(f, "    tile: {},", self.tile)?;
        writeln!(f, "    stages: {{ q: {}, kv: {} }},", self.stages.q, self.stages.kv)?;
        writeln!(f, "    roles: {{")?;
        let Roles { producer, consumer } = self.roles;
        writeln!(f, "        producer: warps({}) registers({}),", producer.warps, producer.registers)?;
        writeln!(f, "        consumer: warpgroups({}) registers({}),", consumer.warpgroups, consumer.registers)?;
        writeln!(f, "    }},")?;
        writeln!(f, "    overlap: {},", self.overlap)?;
        writeln!(f, "    queries: {},", self.queries)?;
        writeln!(f, "    probabilities: {},", self.probabilities)?;
        writeln!(f, "    rescale: {},", self.rescale)?;
        writeln!(f, "    row_sum: {},", self.row_sum)?;
        if let Some(Fp8 { output, scales, values, accumulate, exponential }) = self.fp8 {
            writeln!(f, "    output: {output},")?;
            writeln!(f, "    scales: {scales},")?;
            writeln!(f, "    values: {values},")?;
            writeln!(f, "    accumulate: {accumulate},")?;
            writeln!(f, "    exponential: {exponential},")?;
        }
        if self.splits() {
            writeln!(f, "    split: {},", self.split)?;
        }
        writeln!(f, "    grid: {},", self.grid)?;
        write!(f, "}}")
    }
}

/// `128`, or `(192, 128)` where they differ.
impl fmt::Display for HeadDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.qk == self.v { write!(f, "{}", self.qk) } else { write!(f, "({}, {})", self.qk, self.v) }
    }
}

/// `128 x 96`.
impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.rows, self.columns)
    }
}

/// `[within_warpgroup, pingpong]`.
impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = Overlap::WORDS.into_iter().filter(|word| self.has(word)).collect();
        write!(f, "[{}]", words.join(", "))
    }
}

impl Overlap {
    /// The words of the grammar, in the order in which they are printed.
    pub const WORDS: [&'static str; 3] = ["within_warpgroup", "pingpong", "across_tiles"];

    /// The switch that a word names.
    pub fn switch(&mut self, word: &str) -> Option<&mut bool> {
        match word {
            "within_warpgroup" => Some(&mut self.within_warpgroup),
            "pingpong" => Some(&mut self.pingpong),
            "across_tiles" => Some(&mut self.across_tiles),
            _ => None,
        }
    }

    /// Whether the switch that a word names is on.
    pub fn has(mut self, word: &str) -> bool {
        self.switch(word).is_some_and(|on| *on)
    }
}

/// `persistent(dynamic) longest_first(l2: 32 MiB)`; the head-major order is what is meant when none is named.
impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "persistent({})", self.scheduler)?;
        match self.order {
            Order::HeadMajor => Ok(()),
            order => write!(f, " {order}"),
        }
    }
}

impl Schedule {
    /// [`fnv1a`] of the schedule's text.
    pub fn hash(&self) -> u64 {
        fnv1a(self.to_string().as_bytes())
    }
}

/// FNV-1a, 64 bits: the same in every run and on every platform.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}
