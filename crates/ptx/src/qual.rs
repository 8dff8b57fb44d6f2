//! Qualifiers: the `{slot}`s of a mnemonic, one enum a slot, with the manual's tokens.

/// A qualifier type: a closed set of tokens.
pub trait Qual: Sized {
    /// The manual's tokens, in order.
    const TOKENS: &'static [&'static str];

    /// The token of this value.
    fn token(self) -> &'static str;
}

macro_rules! quals {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $token:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum $name { $($variant),* }

        impl Qual for $name {
            const TOKENS: &'static [&'static str] = &[$($token),*];

            fn token(self) -> &'static str {
                match self { $($name::$variant => $token),* }
            }
        }
    )*};
}

quals! {
    /// Comparison of `setp`.
    Cmp { Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge" }
    /// Integer types.
    Int { U32 = "u32", S32 = "s32", U64 = "u64", S64 = "s64" }
    /// 32-bit integer types.
    Int32 { U32 = "u32", S32 = "s32" }
    /// Untyped bits.
    Bits { B32 = "b32", B64 = "b64" }
    /// Types of a right shift: zero or sign fill.
    Shr { U32 = "u32", S32 = "s32", U64 = "u64" }
    /// Types that compare.
    Num { U32 = "u32", S32 = "s32", U64 = "u64", F32 = "f32" }
    /// Types that are moved or selected.
    Value { B32 = "b32", B64 = "b64", F32 = "f32", B16 = "b16" }
    /// 16-bit float formats.
    Half { Bf16 = "bf16", F16 = "f16" }
    /// Pairs of 16-bit floats in 32 bits.
    HalfX2 { Bf16x2 = "bf16x2", F16x2 = "f16x2" }
    /// 8-bit float formats.
    Fp8 { E4m3 = "e4m3", E5m2 = "e5m2" }
    /// Pairs of 8-bit floats in 16 bits.
    Fp8X2 { E4m3x2 = "e4m3x2", E5m2x2 = "e5m2x2" }
    /// Lane patterns of `shfl.sync`.
    Shuffle { Idx = "idx", Bfly = "bfly", Up = "up", Down = "down" }
    /// Votes over a warp.
    Vote { All = "all", Any = "any" }
    /// Vector widths of loads and stores.
    Wide { V2 = "v2", V4 = "v4" }
    /// 8x8 matrices of `stmatrix` and `ldmatrix`.
    Matrices { X1 = "x1", X2 = "x2", X4 = "x4" }
    /// Rank of a tensor copy.
    Rank { D1 = "1d", D2 = "2d", D3 = "3d", D4 = "4d", D5 = "5d" }
    /// Direction of `setmaxnreg`.
    Regs { Inc = "inc", Dec = "dec" }
}

impl Rank {
    /// The rank with that many dimensions, 1 to 5.
    pub fn of(dims: usize) -> Option<Rank> {
        [Rank::D1, Rank::D2, Rank::D3, Rank::D4, Rank::D5].get(dims.checked_sub(1)?).copied()
    }
}

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident = $deep:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
            pub struct $name {
                index: usize,
            }

            impl $name {
                /// The shape with N columns; none if N is no multiple of 8 in 8..=256.
                pub fn n(n: u32) -> Option<$name> {
                    (n.is_multiple_of(8) && (8..=256).contains(&n)).then(|| $name { index: n as usize / 8 - 1 })
                }

                /// N of one of this type's tokens, such as `m64n128k16`.
                pub fn columns(token: &str) -> Option<u32> {
                    token.strip_prefix("m64n")?.strip_suffix($deep)?.parse().ok()
                }
            }

            impl Qual for $name {
                const TOKENS: &'static [&'static str] = tokens!($deep:
                    8 16 24 32 40 48 56 64 72 80 88 96 104 112 120 128
                    136 144 152 160 168 176 184 192 200 208 216 224 232 240 248 256
                );

                fn token(self) -> &'static str {
                    Self::TOKENS[self.index]
                }
            }
        )*

        /// N of the shape token of any wgmma.
        pub fn mma_columns(token: &str) -> Option<u32> {
            None$(.or_else(|| $name::columns(token)))*
        }
    };
}

macro_rules! tokens {
    ($deep:literal: $($n:literal)*) => { &[$(concat!("m64n", $n, $deep)),*] };
}

shapes! {
    /// Shape of a wgmma with 16-bit operands: 64 rows, N = 8 to 256 in steps of 8, 16 deep (PTX ISA, "Matrix shape").
    MmaK16 = "k16";
    /// Shape of a wgmma with 8-bit operands: 64 rows, N = 8 to 256 in steps of 8, 32 deep (PTX ISA, "Matrix shape").
    MmaK32 = "k32";
}
