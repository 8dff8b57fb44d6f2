//! The closed choices of a schedule, each with the keyword that the grammar knows it by.
//!
//! Knows nothing of the other fields: which choices go together is `feasible`'s business.

use crate::Threshold;
use std::fmt;
use std::num::NonZeroU32;

/// Declares an enum of plain keywords, its list in order and its `Display`.
macro_rules! keywords {
    ($(#[$meta:meta])* $name:ident { $($(#[$of:meta])* $case:ident = $word:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$of])* $case),* }

        impl $name {
            /// Every case, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$case),*];

            /// The word that the grammar, kernel names and messages use.
            pub const fn keyword(self) -> &'static str {
                match self { $(Self::$case => $word),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.keyword())
            }
        }
    };
}

keywords! {
    /// What is computed.
    Pass {
        /// O and the log-sum-exp of each row.
        Forward = "forward",
    }
}

keywords! {
    /// The type of Q, K and V in memory. Products accumulate in f32 whatever it is.
    Element {
        /// bfloat16: 8 bits of exponent, 7 of fraction.
        Bf16 = "bf16",
        /// IEEE half precision.
        F16 = "f16",
        /// 8-bit float with 4 bits of exponent and 3 of fraction, largest value 448. P is e4m3 too, O as `output` says.
        E4m3 = "e4m3",
        /// 8-bit float with 5 bits of exponent and 2 of fraction, largest value 57344. P is e4m3 all the same.
        E5m2 = "e5m2",
    }
}

impl Element {
    /// Bytes of one element of Q, K, V or P.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::E4m3 | Self::E5m2 => 1,
        }
    }

    /// Whether it is an 8-bit float, which comes with scales.
    pub const fn is_fp8(self) -> bool {
        self.bytes() == 1
    }

    /// Bytes of one element of O: the output of 8-bit inputs has 16 bits.
    pub const fn output_bytes(self) -> u64 {
        2
    }
}

keywords! {
    /// Which keys a query row sees.
    Variant {
        /// All of them.
        Full = "full",
        /// Those at or before it, the last query aligned with the last key.
        Causal = "causal",
    }
}

keywords! {
    /// Where Q is read from by the first product.
    Queries {
        /// From its shared tile, through a descriptor, by every key step again.
        Shared = "shared",
        /// From registers, as the A operand of wgmma: read from shared memory once a query tile.
        Registers = "registers",
    }
}

keywords! {
    /// Where P = exp(S) waits for the second product.
    Probabilities {
        /// In registers, as the A operand of wgmma.
        Registers = "registers",
        /// In a shared tile that the A descriptor points to.
        Shared = "shared",
    }
}

keywords! {
    /// Who adds up the rows of P.
    RowSum {
        /// Each thread adds its own elements and a quad reduces at the end.
        Threads = "threads",
        /// The second product, over eight columns of ones appended to V: of P as it was rounded, so that the weights of a
        /// row of O add up to one. The log-sum-exp takes the rounding over: in 8 bits 3 % over the root of the number of
        /// keys that count, 9 % at most.
        TensorCore = "tensor_core",
    }
}

keywords! {
    /// The type of O where Q, K and V have 8 bits.
    Output {
        /// bfloat16.
        Bf16 = "bf16",
        /// IEEE half precision.
        F16 = "f16",
    }
}

keywords! {
    /// What a scale of 8-bit Q and K stands for. V has one for each batch entry and KV head.
    Scales {
        /// All rows of a head: nothing is loaded for a key tile.
        Head = "head",
        /// 64 rows of Q, and as many rows of K as the tile has columns.
        Block = "block",
    }
}

keywords! {
    /// How 8-bit V lies in memory. Its product wants the keys of a column side by side.
    Values {
        /// So, the keys of every 16 in the order of the accumulator of S (`VALUES_ORDER` of `footprint`).
        Transposed = "transposed",
        /// Row by row as K; the producer's warps transpose every tile in shared memory.
        Rows = "rows",
    }
}

keywords! {
    /// Whether several blocks share the work of one query tile.
    Split {
        /// One block goes over all keys of a query tile.
        None = "none",
        /// The launch says into how many shares the key tiles of each query tile are split. Each share leaves its part of O
        /// and its row statistics in a workspace; the block that comes last puts them together, in the order of the shares.
        Keys = "keys",
    }
}

keywords! {
    /// How a persistent block finds its next tile.
    Scheduler {
        /// By stepping over the grid size.
        Static = "static",
        /// From a counter in global memory that all blocks add to.
        Dynamic = "dynamic",
    }
}

/// When the running output is rescaled to a new row maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rescale {
    /// At every key tile.
    Always,
    /// Only when the row maximum, in base-2 exponent units, grew by more than this. In 8 bits what is left of the range of
    /// P goes to its exponent, and with `within_warpgroup` maxima are compared with that range alone.
    Above(Threshold),
    /// Never where a row sees a whole block: the maximum of the blocks before it stands, so that neither a maximum nor a
    /// rescaling is left in that loop. Scores are then exponentiated against what need not be their maximum, which is
    /// exact while nothing overflows; a tile in which something did is done again with `always`.
    OnOverflow,
}

/// Where partial sums of O are kept. Products of 8-bit operands add to their accumulator with about 13 bits of fraction
/// below its largest term, which long rows notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Accumulate {
    /// In the accumulator of the tensor cores alone.
    TensorCore,
    /// In a total apart, to which the accumulator is added after every so many key tiles: in registers of its own where they
    /// hold it, else in shared memory.
    Every(u32),
}

/// Who makes P = 2^x of the scores where P has 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exponential {
    /// The exponential unit, and a conversion that rounds.
    Unit,
    /// For so many quarters of P the bits of x itself: exponent and fraction of x, rounded together, are those of 2^x if
    /// the fraction is taken for linear between powers of two (Schraudolph, Neural Computation 11(4), 1999). The mean
    /// over fractions is that of the unit, the deviation 2 % beside the 2.6 % of rounding to e4m3.
    Linear(u32),
    /// For so many eighths of P a polynomial of the second degree, within 0.2 % before it is rounded, where every row sees
    /// the whole block; the unit makes the others.
    Polynomial(u32),
}

impl Exponential {
    /// Whether all of P is exact but for rounding.
    pub fn is_exact(self) -> bool {
        !matches!(self, Self::Linear(_))
    }
}

/// In which order the tiles are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// All query tiles of one head, then the next head.
    HeadMajor,
    /// Inside a section of heads, the tiles with the most keys first.
    LongestFirst {
        /// Bytes of L2 that the K and V of one section may fill.
        l2_bytes: u64,
        /// The most query heads of one section: tiles of few keys, which wait for memory, then run beside tiles of many.
        heads: Option<NonZeroU32>,
    },
}

impl fmt::Display for Rescale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Above(threshold) => write!(f, "above({threshold})"),
            Self::OnOverflow => f.write_str("on_overflow"),
        }
    }
}

impl fmt::Display for Accumulate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TensorCore => f.write_str("tensor_core"),
            Self::Every(tiles) => write!(f, "every({tiles})"),
        }
    }
}

impl fmt::Display for Exponential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit => f.write_str("unit"),
            Self::Linear(quarters) => write!(f, "linear({quarters})"),
            Self::Polynomial(eighths) => write!(f, "polynomial({eighths})"),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KIB: u64 = 1024;
        const MIB: u64 = 1024 * KIB;
        match *self {
            Self::HeadMajor => f.write_str("head_major"),
            Self::LongestFirst { l2_bytes, heads } => {
                let (number, unit) = match l2_bytes {
                    _ if l2_bytes.is_multiple_of(MIB) => (l2_bytes / MIB, "MiB"),
                    _ if l2_bytes.is_multiple_of(KIB) => (l2_bytes / KIB, "KiB"),
                    _ => (l2_bytes, "bytes"),
                };
                write!(f, "longest_first(l2: {number} {unit}")?;
                heads.map_or(Ok(()), |heads| write!(f, ", heads: {heads}"))?;
                f.write_str(")")
            }
        }
    }
}
