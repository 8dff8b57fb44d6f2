//! The quantizer as plain data: `pass: quantize` writes Q, K and V of 16 bits as e4m3 with their scales, in the layouts
//! that an attention kernel of `element: e4m3` reads.
//!
//! It is a value of its own beside [`crate::Schedule`], whose fields (a tile of scores, what overlaps, where P waits) it
//! does not have; words that both have mean the same. Reading its text is `parse::quantizers`' business.

use std::fmt;

use crate::target::{HOPPER, MBARRIER_BYTES, Target, WARP_THREADS, WARPGROUP_THREADS, WGMMA_ROWS};
use crate::{Consumer, Element, HeadDim, Producer, Roles, fnv1a};

/// One quantizing kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Quantize {
    /// The kernel's name: an ASCII identifier.
    pub name: String,
    /// Its documentation, lines joined by `\n`, without the comment marks.
    pub doc: String,
    /// The type of Q, K and V as they are read: 16 bits.
    pub element: Element,
    /// Row lengths.
    pub head_dim: HeadDim,
    /// What Q and K are multiplied with before they are rounded.
    pub rotation: Rotation,
    /// How many elements share a scale.
    pub scales: Granularities,
    /// Slots of the ring of each consumer warpgroup. One holds 64 rows; longer tiles take as many as they need.
    pub stages: u32,
    /// Who loads and who rounds, with how many registers.
    pub roles: Roles,
}

/// What rows of Q and K are multiplied with. Both by the same, so that their products stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rotation {
    /// Nothing.
    Off,
    /// Random signs, then a Hadamard matrix over the head dimension, in blocks of the largest power of two that divides
    /// it (FlashAttention-3, arXiv 2407.08608, section 3.3).
    Hadamard,
}

/// Which elements share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Granularity {
    /// So many rows of a head.
    Block(u32),
    /// A head of a batch entry.
    Head,
    /// The whole tensor.
    Tensor,
}

/// The scales of the three tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Granularities {
    /// Of Q.
    pub q: Granularity,
    /// Of K.
    pub k: Granularity,
    /// Of V: a head or the tensor.
    pub v: Granularity,
}

/// Elements of a V tile that one warpgroup transposes at a time: each thread a block of 16 keys by 8 columns.
const VALUE_TILE: u32 = WARPGROUP_THREADS * 128;
/// Columns to which rows are filled up with zeros, so that those of e4m3 start on 16-byte boundaries.
const COLUMN_STEP: u32 = 16;
/// Registers that a thread needs beside its accumulators.
const WORKING_REGISTERS: u32 = 40;
/// Registers that the transposition of V needs: 16 keys by 8 columns, read and rounded.
const TRANSPOSING_REGISTERS: u32 = 128;
/// Registers of a block of 16 keys by 8 columns.
const BLOCK_REGISTERS: u32 = 64;
/// Rows of a slot: those of one product.
const SLOT_ROWS: u32 = WGMMA_ROWS;
/// Slots of a ring that [`Quantize::for_hopper`] makes, at most. Rows of neighbouring heads share cache lines, so that what
/// is drawn long before it is written costs more than a deeper ring brings.
const MOST_STAGES: u32 = 6;
/// Bytes that say what a slot holds, and bytes of a warpgroup's maxima.
const WORDS_BYTES: u32 = 16;

impl Granularity {
    /// Rows that are read at a time: those of a block, or as many as one product has.
    pub const fn rows(self) -> u32 {
        match self {
            Self::Block(rows) => rows,
            _ => WGMMA_ROWS,
        }
    }

    /// Whether a scale is known only when more than one tile has been read.
    pub const fn needs_two_reads(self) -> bool {
        !matches!(self, Self::Block(_))
    }
}

impl Quantize {
    /// The quantizer of that much on [`HOPPER`]: three consumer warpgroups, or two where a row takes more registers than a
    /// third of the file, with rings as deep as shared memory allows. Its name says what it does.
    pub fn for_hopper(element: Element, head_dim: HeadDim, rotation: Rotation, scales: Granularities) -> Quantize {
        let target = &HOPPER;
        let name = name(element, head_dim, rotation, scales);
        // A warp for each warpgroup's ring.
        let roles = |warpgroups, registers| Roles {
            producer: Producer { warps: warpgroups, registers: target.setmaxnreg_min },
            consumer: Consumer { warpgroups, registers },
        };
        let made = |roles, stages| Quantize {
            name: name.clone(),
            doc: String::new(),
            element,
            head_dim,
            rotation,
            scales,
            stages,
            roles,
        };
        let choices = [roles(3, 160), roles(2, 240)]
            .into_iter()
            .flat_map(|roles| (1..=MOST_STAGES).rev().map(move |stages| (roles, stages)));
        let fitting: Vec<Quantize> =
            choices.map(|(roles, stages)| made(roles, stages)).filter(|q| q.findings(target).is_empty()).collect();
        // With a slot more than a tile takes, something is on its way while it is worked on.
        let best = fitting.iter().find(|q| q.stages > q.most_parts()).or(fitting.first());
        // What fits nowhere is left to be refused with its arithmetic.
        best.cloned().unwrap_or_else(|| made(roles(2, 240), 1))
    }

    /// The tensors, counted Q, K, V, in the order in which their items are drawn: the shorter tiles of Q after those of K, so
    /// that warpgroups end together.
    pub const DRAWN: [usize; 3] = [1, 0, 2];

    /// Columns of Q and K as they are written: the head dimension, filled up to a multiple of 16.
    pub const fn columns(&self) -> u32 {
        self.head_dim.qk.next_multiple_of(COLUMN_STEP)
    }

    /// Columns of V as they are written.
    pub const fn value_columns(&self) -> u32 {
        self.head_dim.v.next_multiple_of(COLUMN_STEP)
    }

    /// Columns that the rotation mixes: the largest power of two that divides the head dimension; 1 without one.
    pub const fn block(&self) -> u32 {
        match self.rotation {
            Rotation::Off => 1,
            Rotation::Hadamard => 1 << self.head_dim.qk.trailing_zeros(),
        }
    }

    /// Columns of one product: its matrix is so long and so wide.
    pub const fn unit(&self) -> u32 {
        let power = 1 << self.columns().trailing_zeros();
        if power > 64 { 64 } else { power }
    }

    /// Keys of a V tile: those of one block a thread, or of two where a thread has registers for them and a tile of Q or K is
    /// as long.
    pub const fn value_keys(&self) -> u32 {
        let two = self.roles.consumer.registers >= TRANSPOSING_REGISTERS + BLOCK_REGISTERS;
        let (q, k) = (self.scales.q.rows(), self.scales.k.rows());
        let longer = (if q > k { q } else { k }).saturating_mul(self.columns());
        let mut keys = 256;
        while keys > COLUMN_STEP && keys * self.value_columns() > VALUE_TILE {
            let held = two && keys * self.value_columns() <= 2 * VALUE_TILE;
            if held && keys * self.value_columns() <= longer {
                break;
            }
            keys /= 2;
        }
        keys
    }

    /// Slots that a tile of so many rows takes.
    pub const fn parts(rows: u32) -> u32 {
        rows.div_ceil(SLOT_ROWS)
    }

    /// Slots of the longest tile.
    pub fn most_parts(&self) -> u32 {
        [self.scales.q.rows(), self.scales.k.rows(), self.value_keys()].map(Self::parts).into_iter().max().unwrap_or(1)
    }

    /// Bytes of a slot of a ring: 64 rows of the longer ones, on its alignment.
    pub fn slot_bytes(&self, target: &Target) -> u64 {
        let columns = self.columns().max(self.value_columns());
        (u64::from(SLOT_ROWS) * u64::from(columns) * self.element.bytes()).next_multiple_of(target.tile_align)
    }

    /// Bytes of shared memory of a block: slots, the rotation's matrices, barriers, what slots hold, maxima.
    pub fn shared_bytes(&self, target: &Target) -> u64 {
        let groups = u64::from(self.roles.consumer.warpgroups);
        let slots = groups.saturating_mul(u64::from(self.stages));
        let matrices = u64::from(self.columns()) * u64::from(self.unit()) * self.element.bytes();
        let small = slots.saturating_mul(2 * MBARRIER_BYTES + u64::from(WORDS_BYTES));
        slots
            .saturating_mul(self.slot_bytes(target))
            .saturating_add(matrices)
            .saturating_add(small)
            .saturating_add(groups.saturating_mul(2 * u64::from(WORDS_BYTES)))
    }

    /// Threads of a block: the consumers' and the producer's warpgroups.
    pub const fn threads(&self) -> u32 {
        self.roles.consumer.warpgroups.saturating_add(1).saturating_mul(WARPGROUP_THREADS)
    }

    /// What cannot be, each as the field's name and the arithmetic.
    pub fn findings(&self, target: &Target) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let mut push = |field, message| found.push((field, message));
        if self.element.bytes() != 2 {
            push("element", format!("{} is not read, only bf16 and f16 are", self.element));
        }
        for (what, dim) in [("Q and K", self.head_dim.qk), ("V", self.head_dim.v)] {
            if !dim.is_multiple_of(8) || !(8..=256).contains(&dim) {
                push("head_dim", format!("{dim} columns of {what} are not a multiple of 8 from 8 to 256"));
            }
        }
        for (tensor, scale) in [("q", self.scales.q), ("k", self.scales.k)] {
            let rows = scale.rows();
            if !rows.is_multiple_of(32) || !(WGMMA_ROWS..=target.tma_box_max).contains(&rows) {
                let limits = format!("a multiple of 32 from {WGMMA_ROWS} to {}", target.tma_box_max);
                push("scales", format!("{tensor}: a block of {rows} rows is not {limits}"));
            }
        }
        if let Granularity::Block(_) = self.scales.v {
            push("scales", format!("v: {} is not there, V has a scale for each head or for the tensor", self.scales.v));
        }
        self.role_findings(target, &mut push);
        if found.is_empty() && self.stages < self.most_parts() {
            let parts = self.most_parts();
            found.push((
                "stages",
                format!("the longest tile takes {parts} slots of {SLOT_ROWS} rows, there are {}", self.stages),
            ));
        }
        if found.is_empty() && self.shared_bytes(target) > target.shared_bytes {
            let (needs, has) = (self.shared_bytes(target), target.shared_bytes);
            let slots = format!("{} slots of {} bytes", self.roles.consumer.warpgroups * self.stages, {
                self.slot_bytes(target)
            });
            found
                .push(("stages", format!("{slots} and the rest need {needs} bytes of shared memory, there are {has}")));
        }
        found
    }

    fn role_findings(&self, target: &Target, push: &mut impl FnMut(&'static str, String)) {
        let (producer, consumer) = (self.roles.producer, self.roles.consumer);
        if producer.warps != consumer.warpgroups {
            let (warps, groups) = (producer.warps, consumer.warpgroups);
            push(
                "roles",
                format!("producer: {warps} warps do not load for {groups} warpgroups, each has one of its own"),
            );
        }
        if consumer.warpgroups == 0 || self.threads() > target.threads_per_block {
            let most = target.threads_per_block / WARPGROUP_THREADS - 1;
            push("roles", format!("consumer: {} warpgroups are not 1 to {most}", consumer.warpgroups));
            return;
        }
        for (role, registers) in [("producer", producer.registers), ("consumer", consumer.registers)] {
            let (least, most, step) = (target.setmaxnreg_min, target.setmaxnreg_max, target.register_step);
            if !(least..=most).contains(&registers) || !registers.is_multiple_of(step) {
                push(
                    "roles",
                    format!("{role}: {registers} registers are not a multiple of {step} from {least} to {most}"),
                );
            }
        }
        let entry = target.entry_allocation(self.threads());
        let asked = producer.registers + consumer.warpgroups * consumer.registers;
        let held = (consumer.warpgroups + 1) * entry;
        if asked > held || producer.registers > entry {
            push("roles", format!("{asked} registers for a thread of each warpgroup are asked for, {held} are there"));
        }
        let needed = (self.columns() / 2 + WORKING_REGISTERS).max(TRANSPOSING_REGISTERS);
        if consumer.registers < needed {
            push("roles", format!("consumer: {} registers hold no tile, {needed} do", consumer.registers));
        }
    }

    /// [`fnv1a`] of the text.
    pub fn hash(&self) -> u64 {
        fnv1a(self.to_string().as_bytes())
    }

    /// Warps of all consumers, each of which says by itself that it is done.
    pub const fn consumer_warps(&self) -> u32 {
        self.roles.consumer.warpgroups * (WARPGROUP_THREADS / WARP_THREADS)
    }
}

/// `quantize_bf16_d128_k128`: what is not the usual (Q by 64 rows, V by head, rotated) is added.
fn name(element: Element, head_dim: HeadDim, rotation: Rotation, scales: Granularities) -> String {
    let dim = match head_dim {
        HeadDim { qk, v } if qk == v => qk.to_string(),
        HeadDim { qk, v } => format!("{qk}x{v}"),
    };
    let word = |scale: Granularity| match scale {
        Granularity::Block(rows) => rows.to_string(),
        other => format!("_{other}"),
    };
    let mut name = format!("quantize_{element}_d{dim}");
    for (tensor, scale, usual) in [
        ("q", scales.q, Some(Granularity::Block(WGMMA_ROWS))),
        ("k", scales.k, None),
        ("v", scales.v, Some(Granularity::Head)),
    ] {
        if usual != Some(scale) {
            name += &format!("_{tensor}{}", word(scale));
        }
    }
    if rotation == Rotation::Off {
        name += "_unrotated";
    }
    name
}

impl Rotation {
    /// Every case.
    pub const ALL: &'static [Self] = &[Self::Off, Self::Hadamard];

    /// The word that the grammar uses.
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Hadamard => "hadamard",
        }
    }
}

impl fmt::Display for Rotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.keyword())
    }
}

/// `block(64)`, `head` or `tensor`.
impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(rows) => write!(f, "block({rows})"),
            Self::Head => f.write_str("head"),
            Self::Tensor => f.write_str("tensor"),
        }
    }
}

/// The text that reads back, every field in it.
impl fmt::Display for Quantize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.doc.is_empty() {
            for line in self.doc.split('\n') {
                let space = if line.is_empty() { "" } else { " " };
                writeln!(f, "///{space}{line}")?;
            }
        }
        let Granularities { q, k, v } = self.scales;
        let Roles { producer, consumer } = self.roles;
        writeln!(f, "{} {{", self.name)?;
        writeln!(f, "    pass: quantize,")?;
        writeln!(f, "    element: {},", self.element)?;
        writeln!(f, "    head_dim: {},", self.head_dim)?;
        writeln!(f, "    rotation: {},", self.rotation)?;
        writeln!(f, "    scales: {{ q: {q}, k: {k}, v: {v} }},")?;
        writeln!(f, "    stages: {},", self.stages)?;
        writeln!(f, "    roles: {{")?;
        writeln!(f, "        producer: warps({}) registers({}),", producer.warps, producer.registers)?;
        writeln!(f, "        consumer: warpgroups({}) registers({}),", consumer.warpgroups, consumer.registers)?;
        writeln!(f, "    }},")?;
        write!(f, "}}")
    }
}
