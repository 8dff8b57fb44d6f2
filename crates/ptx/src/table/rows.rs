//! The rows: one instruction a line. Mnemonics keep the manual's spelling with `_` for `.`.
//!
//! Columns: name = mnemonic [qualifiers] (operands: access kind) least version, target, proxy, completion, section.
//! Access: `R` read, `W` written, `U` updated, `P` written and joined to the operand before it with `|`.

use super::{Access, Completion, Kind, Len, OperandSpec, Proxy, Space, Spec};
use crate::inst::Inst;
use crate::module::Version;
use crate::operand::Operand;
use crate::qual::*;
use crate::reg::Class;

use Class::{B16, B32, B64, F32, Pred};
use Kind::{At, Int as Imm, Label, Reg, Sink, Special, Src, Symbol, Tensor, Typed, TypedSrc, TypedVec, Vec as Regs_};
use Space::{Generic as Gen, Global, Param, Shared};

macro_rules! access {
    (R) => {
        Access::Read
    };
    (U) => {
        Access::Update
    };
    ($written:ident) => {
        Access::Write
    };
}

macro_rules! piped {
    (P) => {
        true
    };
    ($other:ident) => {
        false
    };
}

macro_rules! arch {
    (any) => {
        false
    };
    (a90) => {
        true
    };
}

macro_rules! rows {
    ($(
        $name:ident = $pattern:literal [$($q:ident: $qt:ty),*]
        ($($arg:ident: $acc:ident $kind:expr),*)
        $major:literal $minor:literal $arch:ident $proxy:ident $completion:ident $section:literal;
    )*) => {
        /// Every instruction of the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(non_camel_case_types, missing_docs)]
        #[non_exhaustive]
        pub enum Op { $($name),* }

        impl Op {
            /// All rows, in table order.
            pub const ALL: &'static [Op] = &[$(Op::$name),*];

            /// The row.
            pub fn spec(self) -> &'static Spec {
                match self {
                    $(Op::$name => {
                        static SPEC: Spec = Spec {
                            pattern: $pattern,
                            slots: &[$(<$qt as Qual>::TOKENS),*],
                            operands: &[$(OperandSpec {
                                name: stringify!($arg),
                                access: access!($acc),
                                kind: $kind,
                                piped: piped!($acc),
                            }),*],
                            version: Version { major: $major, minor: $minor },
                            arch_specific: arch!($arch),
                            proxy: Proxy::$proxy,
                            completion: Completion::$completion,
                            section: $section,
                        };
                        &SPEC
                    })*
                }
            }
        }

        /// One constructor a row: qualifiers first, then operands in the manual's order.
        pub mod op {
            use super::*;
            $(
                #[doc = concat!("`", $pattern, "` (PTX ISA, \"", $section, "\").")]
                #[allow(clippy::too_many_arguments, clippy::ptr_arg)]
                pub fn $name($($q: $qt,)* $($arg: impl Into<Operand>),*) -> Inst {
                    Inst::new(Op::$name, vec![$($q.token()),*], vec![$($arg.into()),*])
                }
            )*
        }
    };
}

#[rustfmt::skip]
rows! {
    // Integers and bits
    add          = "add.{int}"                     [t: Int]             (d: W Typed, a: R TypedSrc, b: R TypedSrc)               1 0 any Nothing Now "add";
    sub          = "sub.{int}"                     [t: Int]             (d: W Typed, a: R TypedSrc, b: R TypedSrc)               1 0 any Nothing Now "sub";
    mul_lo       = "mul.lo.{int}"                  [t: Int]             (d: W Typed, a: R TypedSrc, b: R TypedSrc)               1 0 any Nothing Now "mul";
    mul_wide_u32 = "mul.wide.u32"                  []                   (d: W Reg(B64), a: R Src(B32), b: R Src(B32))            1 0 any Nothing Now "mul";
    mul_hi       = "mul.hi.{int}"                  [t: Int]             (d: W Typed, a: R TypedSrc, b: R TypedSrc)               1 0 any Nothing Now "mul";
    mad_lo       = "mad.lo.{int}"                  [t: Int]             (d: W Typed, a: R TypedSrc, b: R TypedSrc, c: R TypedSrc) 1 0 any Nothing Now "mad";
    mad_wide_u32 = "mad.wide.u32"                  []                   (d: W Reg(B64), a: R Src(B32), b: R Src(B32), c: R Src(B64)) 1 0 any Nothing Now "mad";
    div          = "div.{int}"                     [t: Int]             (d: W Typed, a: R TypedSrc, b: R TypedSrc)               1 0 any Nothing Now "div";
    rem          = "rem.{int}"                     [t: Int]             (d: W Typed, a: R TypedSrc, b: R TypedSrc)               1 0 any Nothing Now "rem";
    min          = "min.{int}"                     [t: Int]             (d: W Typed, a: R TypedSrc, b: R TypedSrc)               1 0 any Nothing Now "min";
    max          = "max.{int}"                     [t: Int]             (d: W Typed, a: R TypedSrc, b: R TypedSrc)               1 0 any Nothing Now "max";
    and          = "and.{bits}"                    [t: Bits]            (d: W Typed, a: R TypedSrc, b: R TypedSrc)               1 0 any Nothing Now "and";
    or           = "or.{bits}"                     [t: Bits]            (d: W Typed, a: R TypedSrc, b: R TypedSrc)               1 0 any Nothing Now "or";
    xor          = "xor.{bits}"                    [t: Bits]            (d: W Typed, a: R TypedSrc, b: R TypedSrc)               1 0 any Nothing Now "xor";
    shl          = "shl.{bits}"                    [t: Bits]            (d: W Typed, a: R TypedSrc, b: R Src(B32))               1 0 any Nothing Now "shl";
    shr          = "shr.{shr}"                     [t: Shr]             (d: W Typed, a: R TypedSrc, b: R Src(B32))               1 0 any Nothing Now "shr";
    prmt         = "prmt.b32"                      []                   (d: W Reg(B32), a: R Src(B32), b: R Src(B32), c: R Src(B32)) 2 0 any Nothing Now "prmt";

    // Predicates and selection
    setp         = "setp.{cmp}.{num}"              [c: Cmp, t: Num]     (p: W Reg(Pred), a: R TypedSrc, b: R TypedSrc)           1 0 any Nothing Now "setp";
    selp         = "selp.{value}"                  [t: Value]           (d: W Typed, a: R TypedSrc, b: R TypedSrc, c: R Reg(Pred)) 1 0 any Nothing Now "selp";
    and_pred     = "and.pred"                      []                   (d: W Reg(Pred), a: R Reg(Pred), b: R Reg(Pred))         1 0 any Nothing Now "and";
    or_pred      = "or.pred"                       []                   (d: W Reg(Pred), a: R Reg(Pred), b: R Reg(Pred))         1 0 any Nothing Now "or";
    not_pred     = "not.pred"                      []                   (d: W Reg(Pred), a: R Reg(Pred))                         1 0 any Nothing Now "not";

    // Moves and conversions
    mov          = "mov.{value}"                   [t: Value]           (d: W Typed, a: R TypedSrc)                              1 0 any Nothing Now "mov";
    mov_pred     = "mov.pred"                      []                   (d: W Reg(Pred), a: R Src(Pred))                         1 0 any Nothing Now "mov";
    mov_special  = "mov.u32"                       []                   (d: W Reg(B32), a: R Special)                            1 0 any Nothing Now "mov";
    mov_shared   = "mov.u32"                       []                   (d: W Reg(B32), a: R Symbol)                             1 0 any Nothing Now "mov";
    mov_param    = "mov.b64"                       []                   (d: W Reg(B64), a: R Symbol)                             1 0 any Nothing Now "mov";
    mov_pack     = "mov.b64"                       []                   (d: W Reg(B64), a: R Regs_(B32, Len::Fixed(2)))          1 0 any Nothing Now "mov";
    mov_bits     = "mov.b32"                       []                   (d: W Reg(B32), a: R Reg(F32))                           1 0 any Nothing Now "mov";
    mov_float    = "mov.b32"                       []                   (d: W Reg(F32), a: R Reg(B32))                           1 0 any Nothing Now "mov";
    mov_pack_b16 = "mov.b32"                       []                   (d: W Reg(B32), a: R Regs_(B16, Len::Fixed(2)))          1 0 any Nothing Now "mov";
    mov_unpack_b16 = "mov.b32"                     []                   (d: W Regs_(B16, Len::Fixed(2)), a: R Reg(B32))          1 0 any Nothing Now "mov";
    cvta_param   = "cvta.param.u64"                []                   (d: W Reg(B64), a: R Reg(B64))                           7 7 any Nothing Now "cvta";
    cvt_u64_u32  = "cvt.u64.u32"                   []                   (d: W Reg(B64), a: R Reg(B32))                           1 0 any Nothing Now "cvt";
    cvt_rn_pair  = "cvt.rn.{pair}.f32"             [t: HalfX2]          (d: W Reg(B32), hi: R Reg(F32), lo: R Reg(F32))          7 0 any Nothing Now "cvt";
    cvt_rn_relu_pair = "cvt.rn.relu.{pair}.f32"    [t: HalfX2]          (d: W Reg(B32), hi: R Reg(F32), lo: R Reg(F32))          7 0 any Nothing Now "cvt";
    cvt_rn_half  = "cvt.rn.{half}.f32"             [t: Half]            (d: W Reg(B16), a: R Reg(F32))                           7 0 any Nothing Now "cvt";
    cvt_f32_half = "cvt.f32.{half}"                [t: Half]            (d: W Reg(F32), a: R Reg(B16))                           7 8 any Nothing Now "cvt";
    cvt_rn_f8    = "cvt.rn.satfinite.{pair}.f32"   [t: Fp8X2]           (d: W Reg(B16), hi: R Reg(F32), lo: R Reg(F32))          7 8 any Nothing Now "cvt";
    cvt_f16_f8   = "cvt.rn.f16x2.{pair}"           [t: Fp8X2]           (d: W Reg(B32), a: R Reg(B16))                           7 8 any Nothing Now "cvt";

    // Single-precision arithmetic
    add_f32      = "add.f32"                       []                   (d: W Reg(F32), a: R Src(F32), b: R Src(F32))            1 0 any Nothing Now "add";
    sub_f32      = "sub.f32"                       []                   (d: W Reg(F32), a: R Src(F32), b: R Src(F32))            1 0 any Nothing Now "sub";
    mul_f32      = "mul.f32"                       []                   (d: W Reg(F32), a: R Src(F32), b: R Src(F32))            1 0 any Nothing Now "mul";
    mul_rn_f32   = "mul.rn.f32"                    []                   (d: W Reg(F32), a: R Src(F32), b: R Src(F32))            1 0 any Nothing Now "mul";
    fma_rn_f32   = "fma.rn.f32"                    []                   (d: W Reg(F32), a: R Src(F32), b: R Src(F32), c: R Src(F32)) 2 0 any Nothing Now "fma";
    max_f32      = "max.f32"                       []                   (d: W Reg(F32), a: R Src(F32), b: R Src(F32))            1 0 any Nothing Now "max";
    max_nan_f32  = "max.NaN.f32"                   []                   (d: W Reg(F32), a: R Src(F32), b: R Src(F32))            1 0 any Nothing Now "max";
    min_f32      = "min.f32"                       []                   (d: W Reg(F32), a: R Src(F32), b: R Src(F32))            1 0 any Nothing Now "min";
    div_rn_f32   = "div.rn.f32"                    []                   (d: W Reg(F32), a: R Src(F32), b: R Src(F32))            1 4 any Nothing Now "div";
    rcp_rn_f32   = "rcp.rn.f32"                    []                   (d: W Reg(F32), a: R Reg(F32))                           1 4 any Nothing Now "rcp";
    neg_f32      = "neg.f32"                       []                   (d: W Reg(F32), a: R Reg(F32))                           1 0 any Nothing Now "neg";
    abs_f32      = "abs.f32"                       []                   (d: W Reg(F32), a: R Reg(F32))                           1 0 any Nothing Now "abs";
    abs_pair     = "abs.{pair}"                    [t: HalfX2]          (d: W Reg(B32), a: R Reg(B32))                           7 0 any Nothing Now "abs";
    max_pair     = "max.{pair}"                    [t: HalfX2]          (d: W Reg(B32), a: R Reg(B32), b: R Reg(B32))            7 0 any Nothing Now "max";
    rcp_approx   = "rcp.approx.ftz.f32"            []                   (d: W Reg(F32), a: R Reg(F32))                           1 4 any Nothing Now "rcp";
    ex2_approx   = "ex2.approx.ftz.f32"            []                   (d: W Reg(F32), a: R Reg(F32))                           1 4 any Nothing Now "ex2";
    lg2_approx   = "lg2.approx.ftz.f32"            []                   (d: W Reg(F32), a: R Reg(F32))                           1 4 any Nothing Now "lg2";

    // Memory in the generic proxy
    ld_param_b32 = "ld.param.b32"                  []                   (d: W Reg(B32), a: R At(Param))                          1 0 any Nothing Now "ld";
    ld_param_b64 = "ld.param.b64"                  []                   (d: W Reg(B64), a: R At(Param))                          1 0 any Nothing Now "ld";
    ld_param_f32 = "ld.param.f32"                  []                   (d: W Reg(F32), a: R At(Param))                          1 0 any Nothing Now "ld";
    ld_shared    = "ld.shared.{value}"             [t: Value]           (d: W Typed, a: R At(Shared))                            1 0 any Generic Now "ld";
    ld_shared_v  = "ld.shared.{wide}.{value}"      [w: Wide, t: Value]  (d: W TypedVec(Len::Wide), a: R At(Shared))              1 0 any Generic Now "ld";
    st_shared    = "st.shared.{value}"             [t: Value]           (a: R At(Shared), b: R Typed)                            1 0 any Generic Now "st";
    st_shared_v  = "st.shared.{wide}.{value}"      [w: Wide, t: Value]  (a: R At(Shared), b: R TypedVec(Len::Wide))              1 0 any Generic Now "st";
    ld_global    = "ld.global.{value}"             [t: Value]           (d: W Typed, a: R At(Global))                            1 0 any Generic Now "ld";
    st_global    = "st.global.{value}"             [t: Value]           (a: R At(Global), b: R Typed)                            1 0 any Generic Now "st";
    ld_global_v  = "ld.global.{wide}.{value}"      [w: Wide, t: Value]  (d: W TypedVec(Len::Wide), a: R At(Global))              1 0 any Generic Now "ld";
    st_global_v  = "st.global.{wide}.{value}"      [w: Wide, t: Value]  (a: R At(Global), b: R TypedVec(Len::Wide))              1 0 any Generic Now "st";
    ld_global_nc = "ld.global.nc.{value}"          [t: Value]           (d: W Typed, a: R At(Global))                            3 1 any Generic Now "ld.global.nc";
    ld_global_nc_v = "ld.global.nc.{wide}.{value}" [w: Wide, t: Value]  (d: W TypedVec(Len::Wide), a: R At(Global))              3 1 any Generic Now "ld.global.nc";
    ld_global_once_v = "ld.global.nc.L1::no_allocate.{wide}.{value}" [w: Wide, t: Value] (d: W TypedVec(Len::Wide), a: R At(Global)) 7 4 any Generic Now "ld.global.nc";
    ld_acquire   = "ld.acquire.gpu.global.u32"     []                   (d: W Reg(B32), a: R At(Global))                         6 0 any Generic Now "ld";
    st_release   = "st.release.gpu.global.u32"     []                   (a: R At(Global), b: R Reg(B32))                         6 0 any Generic Now "st";
    atom_add     = "atom.global.add.u32"           []                   (d: W Reg(B32), a: R At(Global), b: R Src(B32))          1 1 any Generic Now "atom";
    atom_inc     = "atom.global.inc.u32"           []                   (d: W Reg(B32), a: R At(Global), b: R Src(B32))          1 1 any Generic Now "atom";
    atom_exch    = "atom.global.exch.b32"          []                   (d: W Reg(B32), a: R At(Global), b: R Src(B32))          1 1 any Generic Now "atom";
    atom_max     = "atom.global.max.u32"           []                   (d: W Reg(B32), a: R At(Global), b: R Src(B32))          1 1 any Generic Now "atom";
    red_add      = "red.global.add.u32"            []                   (a: R At(Global), b: R Src(B32))                         1 2 any Generic Now "red";
    red_max      = "red.global.max.u32"            []                   (a: R At(Global), b: R Src(B32))                         1 2 any Generic Now "red";
    red_and      = "red.global.and.b32"            []                   (a: R At(Global), b: R Src(B32))                         1 2 any Generic Now "red";
    fence_gpu    = "fence.acq_rel.gpu"             []                   ()                                                       6 0 any Generic Now "membar/fence";
    stmatrix     = "stmatrix.sync.aligned.m8n8.{num}.shared.b16"       [n: Matrices] (a: R At(Shared), s: R Regs_(B32, Len::Matrices)) 7 8 any Generic Now "stmatrix";
    stmatrix_t   = "stmatrix.sync.aligned.m8n8.{num}.trans.shared.b16" [n: Matrices] (a: R At(Shared), s: R Regs_(B32, Len::Matrices)) 7 8 any Generic Now "stmatrix";
    ldmatrix     = "ldmatrix.sync.aligned.m8n8.{num}.shared.b16"       [n: Matrices] (d: W Regs_(B32, Len::Matrices), a: R At(Shared)) 6 5 any Generic Now "ldmatrix";
    ldmatrix_t   = "ldmatrix.sync.aligned.m8n8.{num}.trans.shared.b16" [n: Matrices] (d: W Regs_(B32, Len::Matrices), a: R At(Shared)) 6 5 any Generic Now "ldmatrix";

    // The warp
    shfl_sync    = "shfl.sync.{mode}.b32"          [m: Shuffle]         (d: W Reg(B32), a: R Reg(B32), b: R Src(B32), c: R Imm, mask: R Imm) 6 0 any Nothing Now "shfl.sync";
    shfl_sync_f  = "shfl.sync.{mode}.b32"          [m: Shuffle]         (d: W Reg(F32), a: R Reg(F32), b: R Src(B32), c: R Imm, mask: R Imm) 6 0 any Nothing Now "shfl.sync";
    vote_sync    = "vote.sync.{mode}.pred"         [m: Vote]            (p: W Reg(Pred), a: R Reg(Pred), mask: R Imm)            6 0 any Nothing Now "vote.sync";
    elect_sync   = "elect.sync"                    []                   (d: W Sink, p: P Reg(Pred), mask: R Imm)               8 0 any Nothing Now "elect.sync";
    bar_warp_sync = "bar.warp.sync"                []                   (mask: R Imm)                                            6 0 any Generic Now "bar.warp.sync";

    // Named barriers
    bar_sync_all = "bar.sync"                      []                   (id: R Src(B32))                                         1 0 any Generic Now "bar";
    bar_sync     = "bar.sync"                      []                   (id: R Src(B32), threads: R Src(B32))                    2 0 any Generic Now "bar";
    bar_arrive   = "bar.arrive"                    []                   (id: R Src(B32), threads: R Src(B32))                    2 0 any Generic Now "bar";

    // Barriers in shared memory
    mbarrier_init      = "mbarrier.init.shared::cta.b64"              [] (a: R At(Shared), count: R Imm)                         8 0 any Generic Now "mbarrier.init";
    mbarrier_arrive    = "mbarrier.arrive.shared::cta.b64"            [] (s: W Sink, a: R At(Shared))                            8 0 any Generic Now "mbarrier.arrive";
    mbarrier_arrive_n  = "mbarrier.arrive.shared::cta.b64"            [] (s: W Sink, a: R At(Shared), count: R Imm)              8 0 any Generic Now "mbarrier.arrive";
    mbarrier_expect_tx = "mbarrier.arrive.expect_tx.shared::cta.b64"  [] (s: W Sink, a: R At(Shared), bytes: R Src(B32))         8 0 any Generic Now "mbarrier.arrive";
    mbarrier_try_wait  = "mbarrier.try_wait.parity.shared::cta.b64"   [] (p: W Reg(Pred), a: R At(Shared), parity: R Src(B32))   8 0 any Generic Now "mbarrier.test_wait/mbarrier.try_wait";
    fence_mbarrier_init = "fence.mbarrier_init.release.cluster"       [] ()                                                      8 0 any Generic Now "membar/fence";
    fence_proxy_async  = "fence.proxy.async.shared::cta"              [] ()                                                      8 0 any Generic Now "membar/fence";

    // Tensor copies
    prefetch_tensormap = "prefetch.tensormap"                         [] (a: R At(Gen))                                          8 0 any Nothing Now "prefetch";
    tensor_load  = "cp.async.bulk.tensor.{rank}.shared::cluster.global.tile.mbarrier::complete_tx::bytes" [r: Rank] (dst: R At(Shared), src: R Tensor, bar: R At(Shared)) 8 0 any Async Mbarrier "cp.async.bulk.tensor";
    tensor_load_hint = "cp.async.bulk.tensor.{rank}.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint" [r: Rank] (dst: R At(Shared), src: R Tensor, bar: R At(Shared), policy: R Src(B64)) 8 0 any Async Mbarrier "cp.async.bulk.tensor";
    tensor_store = "cp.async.bulk.tensor.{rank}.global.shared::cta.tile.bulk_group" [r: Rank] (dst: R Tensor, src: R At(Shared))  8 0 any Async BulkGroup "cp.async.bulk.tensor";
    bulk_commit  = "cp.async.bulk.commit_group"    []                   ()                                                       8 0 any Async Now "cp.async.bulk.commit_group";
    bulk_wait    = "cp.async.bulk.wait_group"      []                   (n: R Imm)                                               8 0 any Async Now "cp.async.bulk.wait_group";
    bulk_wait_read = "cp.async.bulk.wait_group.read" []                 (n: R Imm)                                               8 0 any Async Now "cp.async.bulk.wait_group";

    // Warpgroup matrix products
    wgmma_fence  = "wgmma.fence.sync.aligned"      []                   ()                                                       8 0 a90 Nothing Now "wgmma.fence";
    wgmma_commit = "wgmma.commit_group.sync.aligned" []                 ()                                                       8 0 a90 Nothing Now "wgmma.commit_group";
    wgmma_wait   = "wgmma.wait_group.sync.aligned" []                   (n: R Imm)                                               8 0 a90 Nothing Now "wgmma.wait_group";
    wgmma_ss_bf16 = "wgmma.mma_async.sync.aligned.{shape}.f32.bf16.bf16" [s: MmaK16] (d: U Regs_(F32, Len::Accumulator), a: R Reg(B64), b: R Reg(B64), scale_d: R Src(Pred), scale_a: R Imm, scale_b: R Imm, trans_a: R Imm, trans_b: R Imm) 8 0 a90 Async WgmmaGroup "wgmma.mma_async";
    wgmma_rs_bf16 = "wgmma.mma_async.sync.aligned.{shape}.f32.bf16.bf16" [s: MmaK16] (d: U Regs_(F32, Len::Accumulator), a: R Regs_(B32, Len::Fixed(4)), b: R Reg(B64), scale_d: R Src(Pred), scale_a: R Imm, scale_b: R Imm, trans_b: R Imm) 8 0 a90 Async WgmmaGroup "wgmma.mma_async";
    wgmma_ss_f16 = "wgmma.mma_async.sync.aligned.{shape}.f32.f16.f16" [s: MmaK16] (d: U Regs_(F32, Len::Accumulator), a: R Reg(B64), b: R Reg(B64), scale_d: R Src(Pred), scale_a: R Imm, scale_b: R Imm, trans_a: R Imm, trans_b: R Imm) 8 0 a90 Async WgmmaGroup "wgmma.mma_async";
    wgmma_rs_f16 = "wgmma.mma_async.sync.aligned.{shape}.f32.f16.f16" [s: MmaK16] (d: U Regs_(F32, Len::Accumulator), a: R Regs_(B32, Len::Fixed(4)), b: R Reg(B64), scale_d: R Src(Pred), scale_a: R Imm, scale_b: R Imm, trans_b: R Imm) 8 0 a90 Async WgmmaGroup "wgmma.mma_async";
    wgmma_ss_f8 = "wgmma.mma_async.sync.aligned.{shape}.f32.{a}.{b}" [s: MmaK32, ta: Fp8, tb: Fp8] (d: U Regs_(F32, Len::Accumulator), a: R Reg(B64), b: R Reg(B64), scale_d: R Src(Pred), scale_a: R Imm, scale_b: R Imm) 8 0 a90 Async WgmmaGroup "wgmma.mma_async";
    wgmma_rs_f8 = "wgmma.mma_async.sync.aligned.{shape}.f32.{a}.{b}" [s: MmaK32, ta: Fp8, tb: Fp8] (d: U Regs_(F32, Len::Accumulator), a: R Regs_(B32, Len::Fixed(4)), b: R Reg(B64), scale_d: R Src(Pred), scale_a: R Imm, scale_b: R Imm) 8 0 a90 Async WgmmaGroup "wgmma.mma_async";

    // Control
    setmaxnreg   = "setmaxnreg.{dir}.sync.aligned.u32" [d: Regs]        (n: R Imm)                                               8 0 a90 Nothing Now "setmaxnreg";
    bra          = "bra"                           []                   (target: R Label)                                        1 0 any Nothing Now "bra";
    ret          = "ret"                           []                   ()                                                       1 0 any Nothing Now "ret";
}
