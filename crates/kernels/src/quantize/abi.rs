//! Parameters by name. The launch side knows the kernel by these.

use ptx::{R32, R64};
use schedule::{Granularity, Quantize};
use tile::Program;

use super::memory::{Memory, Tile};

/// The kernel's parameters in registers.
pub(super) struct Abi {
    pub(super) q: Tensor,
    pub(super) k: Tensor,
    pub(super) v: Tensor,
    /// Bytes from one column of the transposed V to the next: keys, rounded up to 16.
    pub(super) v_pitch: R32,
    /// Address of one word for each tile of V that is dealt and read once: its largest magnitude. Zero before and after the
    /// launch. The address is zero where V is read twice.
    pub(super) v_maxima: R64,
    /// Chooses the signs of the rotation.
    pub(super) seed: Option<R32>,
    /// Address of the counter that items are drawn from, zero before and after the launch.
    pub(super) counter: R64,
}

/// One tensor's parameters.
pub(super) struct Tensor {
    /// What there is of the tensor in the kernel's schedule.
    pub(super) granularity: Granularity,
    /// The tensor map of what is read.
    pub(super) map: R64,
    /// Address of the codes.
    pub(super) codes: R64,
    /// Where rows of codes lie; none for V, whose transposed tiles lie close.
    pub(super) code_strides: Option<Strides>,
    /// Address of the f32 scales: of blocks, of heads or one.
    pub(super) scales: R64,
    /// Rows a head; none for V, whose rows past the end are loaded as zeros and stored up to the pitch.
    pub(super) rows: Option<R32>,
    /// Heads of a batch entry.
    pub(super) heads: Divisor,
    /// Heads that stand abreast in the order of items: those of a section or a round, or of all batch entries.
    pub(super) abreast: Divisor,
    /// Tiles of a head.
    pub(super) tiles: R32,
    /// What is shared by the tiles of a scale, where they are several.
    pub(super) shares: Option<Shares>,
    /// One past the tensor's last item; items that take maxima first and are no section's second half.
    pub(super) end: R32,
}

/// A number that others are divided by.
#[derive(Clone, Copy)]
pub(super) struct Divisor {
    pub(super) number: R32,
    /// (2^32 - 1) / number, rounded down.
    pub(super) inverse: R32,
}

/// Strides of the codes in bytes.
#[derive(Clone, Copy)]
pub(super) struct Strides {
    pub(super) batch: R64,
    pub(super) token: R64,
    pub(super) head: R64,
}

/// What is shared by the tiles of a scale.
#[derive(Clone, Copy)]
pub(super) struct Shares {
    /// Address of four words for each scale: maximum, tiles that added to it, tiles that used it, nothing. Zero before
    /// and after the launch.
    pub(super) words: R64,
    /// Tiles that share a scale.
    pub(super) tiles: R32,
    /// Tiles of a section or a round.
    pub(super) section: R32,
    /// Tiles of two sections.
    pub(super) pair: Divisor,
    /// Sections or rounds.
    pub(super) sections: R32,
    /// Heads of all batch entries.
    pub(super) heads: R32,
    /// One past the tensor's first section's first reading.
    pub(super) lead_end: R32,
}

impl Divisor {
    fn declare(program: &mut Program, name: &str) -> Divisor {
        Divisor { number: program.u32(name), inverse: program.u32(&format!("{name}_inverse")) }
    }
}

impl Abi {
    pub(super) fn declare(program: &mut Program, schedule: &Quantize, memory: &Memory) -> Abi {
        let scales = schedule.scales;
        let maps = [("q", &memory.q), ("k", &memory.k), ("v", &memory.v)]
            .map(|(name, tile): (&str, &Tile)| program.tensor(name, tile.slot.tensor_map(tile.slot.rows())));
        let mut tensor = |name: &str, map, granularity: Granularity, rows_of_codes: bool| Tensor {
            granularity,
            map,
            codes: program.u64(&format!("{name}_codes")),
            code_strides: rows_of_codes.then(|| Strides {
                batch: program.u64(&format!("{name}_code_batch")),
                token: program.u64(&format!("{name}_code_token")),
                head: program.u64(&format!("{name}_code_head")),
            }),
            scales: program.u64(&format!("{name}_scales")),
            rows: rows_of_codes.then(|| program.u32(&format!("{name}_rows"))),
            heads: Divisor::declare(program, &format!("{name}_heads")),
            abreast: Divisor::declare(program, &format!("{name}_abreast")),
            tiles: program.u32(&format!("{name}_tiles")),
            shares: granularity.needs_two_reads().then(|| Shares {
                words: program.u64(&format!("{name}_shares")),
                tiles: program.u32(&format!("{name}_sharing")),
                section: program.u32(&format!("{name}_section")),
                pair: Divisor::declare(program, &format!("{name}_pair")),
                sections: program.u32(&format!("{name}_sections")),
                heads: program.u32(&format!("{name}_heads_total")),
                lead_end: program.u32(&format!("{name}_lead_end")),
            }),
            end: program.u32(&format!("{name}_end")),
        };
        let q = tensor("q", maps[0], scales.q, true);
        let k = tensor("k", maps[1], scales.k, true);
        let v = tensor("v", maps[2], scales.v, false);
        let v_pitch = program.u32("v_pitch");
        let v_maxima = program.u64("v_maxima");
        let seed = (schedule.block() > 1).then(|| program.u32("seed"));
        Abi { q, k, v, v_pitch, v_maxima, seed, counter: program.u64("counter") }
    }

    pub(super) fn tensors(&self) -> [&Tensor; 3] {
        [&self.q, &self.k, &self.v]
    }
}
