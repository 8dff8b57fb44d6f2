//! Arithmetic of the machine in single and half precision (PTX ISA, "Floating Point Instructions"; "cvt").
//!
//! Rounded operations are exact to the bit. The approximate ones (`ex2`, `lg2`, `rcp`) are correctly rounded here but for
//! ties of the last bit, which is inside the error that the manual admits; subnormals are flushed where it says `.ftz`.
//! Built from the four operations alone, so that a run is the same on every host.

/// bfloat16 to single.
pub(crate) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Single to bfloat16, to nearest even.
pub(crate) fn to_bf16(value: f32) -> u16 {
    if value.is_nan() {
        return 0x7fff;
    }
    let bits = value.to_bits();
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Half to single.
pub(crate) fn from_f16(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let (exponent, fraction) = (u32::from(bits >> 10 & 31), u32::from(bits & 0x3ff));
    match (exponent, fraction) {
        (31, _) => f32::from_bits(sign | 0xff << 23 | fraction << 13),
        // 2^-24 is the unit of the subnormals.
        (0, _) => f32::from_bits(sign | (fraction as f32 * f32::from_bits(103 << 23)).to_bits()),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// Single to half, to nearest even.
pub(crate) fn to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    if value.is_nan() {
        return 0x7fff;
    }
    let magnitude = bits & 0x7fff_ffff;
    // 65520 and above round to infinity.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    if magnitude < 0x3880_0000 {
        // Below 2^-14 the unit is 2^-24: adding 1/2 in that unit's place lets the host round.
        let rounded = f32::from_bits(magnitude) + 0.5;
        return sign | (rounded.to_bits() - 0.5f32.to_bits()) as u16;
    }
    let rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    sign | ((rounded - (112 << 23)) >> 13) as u16
}

/// No number has one form.
pub(crate) fn canonical(value: f32) -> f32 {
    if value.is_nan() { f32::from_bits(0x7fff_ffff) } else { value }
}

/// a * b + c, rounded once.
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    // The product is exact in double; the sum is rounded to odd, which a second rounding cannot spoil.
    let (p, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let s = p + c;
    if !s.is_finite() {
        return s as f32;
    }
    let part = s - p;
    let error = (p - (s - part)) + (c - part);
    let bits = s.to_bits();
    if error == 0.0 || bits & 1 == 1 {
        return s as f32;
    }
    let up = (error > 0.0) == (s > 0.0);
    f64::from_bits(if up { bits + 1 } else { bits - 1 }) as f32
}

/// The larger; a number rather than no number (PTX ISA, "max").
pub(crate) fn max(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => f32::from_bits(0x7fff_ffff),
        (true, false) => b,
        (false, true) => a,
        _ if a > b || (a == b && a.is_sign_positive()) => a,
        _ => b,
    }
}

/// The larger; no number if either is none (PTX ISA, "max", `.NaN`).
pub(crate) fn max_or_nan(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { canonical(f32::NAN) } else { max(a, b) }
}

/// The smaller; a number rather than no number (PTX ISA, "min").
pub(crate) fn min(a: f32, b: f32) -> f32 {
    match a.is_nan() || b.is_nan() {
        true => max(a, b),
        false => -max(-a, -b),
    }
}

/// Subnormals to zero.
fn flush(value: f32) -> f32 {
    match value.is_subnormal() {
        true => 0f32.copysign(value),
        false => value,
    }
}

/// 2^n for a normal result.
pub(crate) fn power(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

/// `ex2.approx.ftz`.
pub(crate) fn ex2(value: f32) -> f32 {
    let value = flush(value);
    if value.is_nan() {
        return f32::from_bits(0x7fff_ffff);
    }
    if value >= 128.0 {
        return f32::INFINITY;
    }
    if value < -127.0 {
        return 0.0;
    }
    let n = (value + 0.5).floor();
    let x = (f64::from(value) - f64::from(n)) * std::f64::consts::LN_2;
    // e^x for |x| <= ln(2) / 2, to 1e-15.
    let sum = (1..=12).rev().fold(1.0, |sum, k| 1.0 + sum * x / f64::from(k));
    flush((sum * power(n as i32)) as f32)
}

/// `lg2.approx.ftz`.
pub(crate) fn lg2(value: f32) -> f32 {
    let value = flush(value);
    if value.is_nan() || value < 0.0 {
        return f32::from_bits(0x7fff_ffff);
    }
    if value == 0.0 {
        return f32::NEG_INFINITY;
    }
    if value == f32::INFINITY {
        return value;
    }
    let bits = f64::from(value).to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if m > std::f64::consts::SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)).
    let t = (m - 1.0) / (m + 1.0);
    let square = t * t;
    let sum = (0..=12).rev().fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    (exponent as f64 + 2.0 * t * sum * std::f64::consts::LOG2_E) as f32
}

/// `rcp.approx.ftz`.
pub(crate) fn rcp(value: f32) -> f32 {
    flush((1.0 / f64::from(flush(value))) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_survive_a_round_trip() {
        for bits in 0..=u16::MAX {
            let (b, f) = (from_bf16(bits), from_f16(bits));
            assert!(b.is_nan() || to_bf16(b) == bits, "{bits:#x}");
            assert!(f.is_nan() || to_f16(f) == bits, "{bits:#x}: {f}");
        }
    }

    #[test]
    fn halves_round_to_nearest_even() {
        assert_eq!(to_bf16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(to_bf16(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(to_f16(1.0 + 1.0 / 2048.0), 0x3c00);
        assert_eq!(to_f16(1.0 + 3.0 / 2048.0), 0x3c02);
        assert_eq!(to_f16(65519.0), 0x7bff);
        assert_eq!(to_f16(65520.0), 0x7c00);
        assert_eq!(to_f16(2f32.powi(-25)), 0);
        assert_eq!(to_f16(1.5 * 2f32.powi(-25)), 1);
    }

    #[test]
    fn fused_is_rounded_once() {
        let mut x = 1u32;
        for _ in 0..100_000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = |n: u32| f32::from_bits(0x3f00_0000 + (x.rotate_left(n) & 0x01ff_ffff)) - 1.5;
            let (a, b, c) = (value(3), value(11), value(19) * f32::EPSILON);
            assert_eq!(fma(a, b, c), a.mul_add(b, c), "{a:e} {b:e} {c:e}");
        }
    }

    #[test]
    fn approximations_are_within_an_ulp() {
        for i in -1000..1000 {
            let x = i as f32 * 0.113;
            let close = |a: f32, b: f64| ((f64::from(a) - b) / b).abs() < 1e-7;
            assert!(close(ex2(x), f64::from(x).exp2()), "{x}");
            if i > 0 && i != 1 {
                assert!(close(lg2(x), f64::from(x).log2()), "{x}");
                assert!(close(rcp(x), 1.0 / f64::from(x)), "{x}");
            }
        }
        assert_eq!((ex2(f32::NEG_INFINITY), lg2(0.0), rcp(0.0)), (0.0, f32::NEG_INFINITY, f32::INFINITY));
        assert_eq!((ex2(0.0), ex2(-3.0), lg2(8.0), lg2(1.0)), (1.0, 0.125, 3.0, 0.0));
    }
}
