//! Instructions that touch registers alone (PTX ISA, "Integer Arithmetic Instructions", "Floating Point Instructions",
//! "Comparison and Selection Instructions", "Logic and Shift Instructions", "Data Movement and Conversion Instructions").

use crate::clock::LANES;
use crate::float;
use crate::program::{Bin, Cmp, Code, Float1, Float2, Num, S32, Sp, Special};
use crate::warp::{Lanes, Lanes64, Warp};

/// Values that are the same for a whole launch or CTA.
pub(crate) struct Constants<'a> {
    pub cta: u32,
    pub grid: u32,
    pub threads: u32,
    /// By parameter.
    pub words: &'a [u64],
}

/// Where parameters lie in the parameter space, and what makes such an address generic.
const PARAM_SPACE: u64 = 0x210;
const GENERIC: u64 = 1 << 62;
const MAP_BYTES: u64 = 128;

/// The parameter of a tensor map's generic address.
pub(crate) fn param_of_map(address: u64) -> Option<usize> {
    let offset = address.checked_sub(GENERIC + PARAM_SPACE)?;
    offset.is_multiple_of(MAP_BYTES).then_some((offset / MAP_BYTES) as usize)
}

/// A value for each lane.
pub(super) fn each(f: impl Fn(usize) -> u32) -> Lanes {
    std::array::from_fn(f)
}

fn wide(f: impl Fn(usize) -> u64) -> Lanes64 {
    std::array::from_fn(f)
}

fn mask(f: impl Fn(usize) -> bool) -> u32 {
    (0..LANES).fold(0, |m, lane| m | u32::from(f(lane)) << lane)
}

/// Runs an instruction in the lanes; false if it is of another kind.
pub(crate) fn arithmetic(warp: &mut Warp, code: &Code, lanes: u32, constants: &Constants<'_>) -> bool {
    match *code {
        Code::Bin32(op, d, a, b) => {
            let values = bin32(op, &warp.s32(a), &warp.s32(b));
            warp.set32(d, lanes, &values);
        }
        Code::Mad32(d, a, b, c) => {
            let (a, b, c) = (warp.s32(a), warp.s32(b), warp.s32(c));
            warp.set32(d, lanes, &each(|l| a[l].wrapping_mul(b[l]).wrapping_add(c[l])));
        }
        Code::Float2(op, d, a, b) => {
            let values = float2(op, &warp.s32(a), &warp.s32(b));
            warp.set32(d, lanes, &values);
        }
        Code::Fma(d, a, b, c) => {
            let (a, b, c) = (warp.s32(a), warp.s32(b), warp.s32(c));
            let f = f32::from_bits;
            warp.set32(d, lanes, &each(|l| float::canonical(float::fma(f(a[l]), f(b[l]), f(c[l]))).to_bits()));
        }
        Code::Float1(op, d, a) => {
            let a = warp.s32(a);
            let values = each(|l| {
                let x = f32::from_bits(a[l]);
                match op {
                    Float1::Neg => -x,
                    Float1::Abs => x.abs(),
                    Float1::Inverse => float::canonical(1.0 / x),
                    Float1::Rcp => float::canonical(float::rcp(x)),
                    Float1::Ex2 => float::ex2(x),
                    Float1::Lg2 => float::lg2(x),
                }
                .to_bits()
            });
            warp.set32(d, lanes, &values);
        }
        Code::Setp32(cmp, num, d, a, b) => {
            let holds = setp32(cmp, num, &warp.s32(a), &warp.s32(b));
            warp.set_pred(d, lanes, holds);
        }
        Code::Setp64(cmp, d, a, b) => {
            let (a, b) = (warp.s64(a), warp.s64(b));
            warp.set_pred(d, lanes, mask(|l| compare(cmp, a[l].cmp(&b[l]))));
        }
        Code::Select32(d, a, b, p) => {
            let (a, b, p) = (warp.s32(a), warp.s32(b), warp.preds[p as usize]);
            warp.set32(d, lanes, &each(|l| if p >> l & 1 != 0 { a[l] } else { b[l] }));
        }
        Code::Mov32(d, a) => {
            let a = warp.s32(a);
            warp.set32(d, lanes, &a);
        }
        Code::Pred { d, a, b, or, negate } => {
            let (a, b) = (warp.sp(a), warp.sp(b));
            let both = if or { a | b } else { a & b };
            warp.set_pred(d, lanes, if negate { !both } else { both });
        }
        Code::Special(d, special) => {
            let first = (warp.index * LANES) as u32;
            let values = each(|l| match special {
                Special::Tid => first + l as u32,
                Special::Ntid => constants.threads,
                Special::Ctaid => constants.cta,
                Special::Nctaid => constants.grid,
                Special::Lane => l as u32,
                Special::Zero => 0,
            });
            warp.set32(d, lanes, &values);
        }
        Code::Param(d, param) => warp.set32(d, lanes, &[constants.words[param] as u32; LANES]),
        _ => return arithmetic64(warp, code, lanes, constants),
    }
    true
}

fn arithmetic64(warp: &mut Warp, code: &Code, lanes: u32, constants: &Constants<'_>) -> bool {
    let values = match *code {
        Code::Bin64(op, _, a, b) => {
            let (a, b) = (warp.s64(a), warp.s64(b));
            wide(|l| bin64(op, a[l], b[l]))
        }
        Code::Shift64(op, _, a, b) => {
            let (a, b) = (warp.s64(a), warp.s32(b));
            wide(|l| bin64(op, a[l], u64::from(b[l])))
        }
        Code::Mad64(_, a, b, c) => {
            let (a, b, c) = (warp.s64(a), warp.s64(b), warp.s64(c));
            wide(|l| a[l].wrapping_mul(b[l]).wrapping_add(c[l]))
        }
        Code::MadWide(_, a, b, c) => {
            let (a, b, c) = (warp.s32(a), warp.s32(b), warp.s64(c));
            wide(|l| (u64::from(a[l]) * u64::from(b[l])).wrapping_add(c[l]))
        }
        Code::Select64(_, a, b, p) => {
            let (a, b, p) = (warp.s64(a), warp.s64(b), warp.sp(Sp::R(p)));
            wide(|l| if p >> l & 1 != 0 { a[l] } else { b[l] })
        }
        Code::Mov64(_, a) => warp.s64(a),
        Code::Param64(_, param) => [constants.words[param]; LANES],
        Code::MapAddress(_, param) => [PARAM_SPACE + MAP_BYTES * param as u64; LANES],
        Code::MapGeneric(_, a) => {
            let a = warp.regs64[a as usize];
            wide(|l| a[l].wrapping_add(GENERIC))
        }
        Code::Pack(_, low, high) => {
            let (low, high) = (warp.s32(S32::R(low)), warp.s32(S32::R(high)));
            wide(|l| u64::from(high[l]) << 32 | u64::from(low[l]))
        }
        Code::Widen(_, a) => {
            let a = warp.s32(S32::R(a));
            wide(|l| u64::from(a[l]))
        }
        _ => return false,
    };
    let (Code::Bin64(_, d, ..)
    | Code::Shift64(_, d, ..)
    | Code::Mad64(d, ..)
    | Code::MadWide(d, ..)
    | Code::Select64(d, ..)
    | Code::Mov64(d, _)
    | Code::Param64(d, _)
    | Code::MapAddress(d, _)
    | Code::MapGeneric(d, _)
    | Code::Pack(d, ..)
    | Code::Widen(d, _)) = *code
    else {
        return false;
    };
    warp.set64(d, lanes, &values);
    true
}

fn bin32(op: Bin, a: &Lanes, b: &Lanes) -> Lanes {
    match op {
        Bin::Add => each(|l| a[l].wrapping_add(b[l])),
        Bin::Sub => each(|l| a[l].wrapping_sub(b[l])),
        Bin::Mul => each(|l| a[l].wrapping_mul(b[l])),
        Bin::MulHiU => each(|l| ((u64::from(a[l]) * u64::from(b[l])) >> 32) as u32),
        Bin::MulHiS => each(|l| ((i64::from(a[l] as i32) * i64::from(b[l] as i32)) >> 32) as u32),
        // Division by zero has no defined value: all ones.
        Bin::DivU => each(|l| a[l].checked_div(b[l]).unwrap_or(u32::MAX)),
        Bin::DivS => each(|l| if b[l] == 0 { u32::MAX } else { (a[l] as i32).wrapping_div(b[l] as i32) as u32 }),
        Bin::RemU => each(|l| a[l].checked_rem(b[l]).unwrap_or(u32::MAX)),
        Bin::RemS => each(|l| if b[l] == 0 { u32::MAX } else { (a[l] as i32).wrapping_rem(b[l] as i32) as u32 }),
        Bin::MinU => each(|l| a[l].min(b[l])),
        Bin::MinS => each(|l| (a[l] as i32).min(b[l] as i32) as u32),
        Bin::MaxU => each(|l| a[l].max(b[l])),
        Bin::MaxS => each(|l| (a[l] as i32).max(b[l] as i32) as u32),
        Bin::And => each(|l| a[l] & b[l]),
        Bin::Or => each(|l| a[l] | b[l]),
        Bin::Xor => each(|l| a[l] ^ b[l]),
        // Shifts by more than the width clamp to it.
        Bin::Shl => each(|l| a[l].checked_shl(b[l]).unwrap_or(0)),
        Bin::ShrU => each(|l| a[l].checked_shr(b[l]).unwrap_or(0)),
        Bin::ShrS => each(|l| ((a[l] as i32) >> b[l].min(31)) as u32),
    }
}

fn bin64(op: Bin, a: u64, b: u64) -> u64 {
    let (sa, sb) = (a as i64, b as i64);
    match op {
        Bin::Add => a.wrapping_add(b),
        Bin::Sub => a.wrapping_sub(b),
        Bin::Mul => a.wrapping_mul(b),
        Bin::MulHiU => ((u128::from(a) * u128::from(b)) >> 64) as u64,
        Bin::MulHiS => ((i128::from(sa) * i128::from(sb)) >> 64) as u64,
        Bin::DivU => a.checked_div(b).unwrap_or(u64::MAX),
        Bin::DivS => {
            if b == 0 {
                u64::MAX
            } else {
                sa.wrapping_div(sb) as u64
            }
        }
        Bin::RemU => a.checked_rem(b).unwrap_or(u64::MAX),
        Bin::RemS => {
            if b == 0 {
                u64::MAX
            } else {
                sa.wrapping_rem(sb) as u64
            }
        }
        Bin::MinU => a.min(b),
        Bin::MinS => sa.min(sb) as u64,
        Bin::MaxU => a.max(b),
        Bin::MaxS => sa.max(sb) as u64,
        Bin::And => a & b,
        Bin::Or => a | b,
        Bin::Xor => a ^ b,
        Bin::Shl => {
            if b > 63 {
                0
            } else {
                a << b
            }
        }
        Bin::ShrU => {
            if b > 63 {
                0
            } else {
                a >> b
            }
        }
        Bin::ShrS => (sa >> b.min(63)) as u64,
    }
}

fn float2(op: Float2, a: &Lanes, b: &Lanes) -> Lanes {
    let f = f32::from_bits;
    match op {
        Float2::Add => each(|l| float::canonical(f(a[l]) + f(b[l])).to_bits()),
        Float2::Sub => each(|l| float::canonical(f(a[l]) - f(b[l])).to_bits()),
        Float2::Mul => each(|l| float::canonical(f(a[l]) * f(b[l])).to_bits()),
        Float2::Div => each(|l| float::canonical(f(a[l]) / f(b[l])).to_bits()),
        Float2::Max => each(|l| float::max(f(a[l]), f(b[l])).to_bits()),
        Float2::MaxNan => each(|l| float::max_or_nan(f(a[l]), f(b[l])).to_bits()),
        Float2::Min => each(|l| float::min(f(a[l]), f(b[l])).to_bits()),
    }
}

fn compare(cmp: Cmp, order: std::cmp::Ordering) -> bool {
    match cmp {
        Cmp::Eq => order.is_eq(),
        Cmp::Ne => order.is_ne(),
        Cmp::Lt => order.is_lt(),
        Cmp::Le => order.is_le(),
        Cmp::Gt => order.is_gt(),
        Cmp::Ge => order.is_ge(),
    }
}

fn setp32(cmp: Cmp, num: Num, a: &Lanes, b: &Lanes) -> u32 {
    mask(|l| match num {
        Num::Unsigned => compare(cmp, a[l].cmp(&b[l])),
        Num::Signed => compare(cmp, (a[l] as i32).cmp(&(b[l] as i32))),
        // Ordered comparisons: false if either is no number.
        Num::Float => f32::from_bits(a[l]).partial_cmp(&f32::from_bits(b[l])).is_some_and(|o| compare(cmp, o)),
    })
}
