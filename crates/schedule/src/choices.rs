//! The closed choices of a schedule, each with the keyword that the grammar knows it by.
//!
//! Knows nothing of the other fields: which choices go together is `feasible`'s business.

use crate::Threshold;
use std::fmt;

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
        /// 8-bit float with 4 bits of exponent and 3 of fraction, largest value 448. O is bf16.
        E4m3 = "e4m3",
    }
}

impl Element {
    /// Bytes of one element of Q, K, V or P.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::E4m3 => 1,
        }
    }

    /// Bytes of one element of O: the output of 8-bit inputs is bf16.
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
        /// The second product, over eight columns of ones appended to V.
        TensorCore = "tensor_core",
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
    /// Only when the row maximum, in base-2 exponent units, grew by more than this.
    Above(Threshold),
    /// Never where a row sees a whole block: the maximum of the blocks before it stands, so that neither a maximum nor a
    /// rescaling is left in that loop. Scores are then exponentiated against what need not be their maximum, which is
    /// exact while nothing overflows; a tile in which something did is done again with `always`.
    OnOverflow,
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

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KIB: u64 = 1024;
        const MIB: u64 = 1024 * KIB;
        match *self {
            Self::HeadMajor => f.write_str("head_major"),
            Self::LongestFirst { l2_bytes } if l2_bytes.is_multiple_of(MIB) => {
                write!(f, "longest_first(l2: {} MiB)", l2_bytes / MIB)
            }
            Self::LongestFirst { l2_bytes } if l2_bytes.is_multiple_of(KIB) => {
                write!(f, "longest_first(l2: {} KiB)", l2_bytes / KIB)
            }
            Self::LongestFirst { l2_bytes } => write!(f, "longest_first(l2: {l2_bytes} bytes)"),
        }
    }
}
