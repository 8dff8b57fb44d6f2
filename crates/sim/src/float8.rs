//! 8-bit floats, as products multiply and conversions round them (PTX ISA, "Alternate Floating-Point Data Formats",
//! "cvt"; Micikevicius et al., "FP8 Formats for Deep Learning", 2022).
//!
//! | format | exponent | fraction | greatest | least | no number |
//! |---|---|---|---|---|---|
//! | e4m3 | 4 bits, bias 7 | 3 bits | 448 | 2^-9 | 0x7f, 0xff; no infinities |
//! | e5m2 | 5 bits, bias 15 | 2 bits | 57344 | 2^-16 | exponent 31 with a fraction; infinities as in half |
//!
//! Knows bits and singles alone.

use crate::float::{from_f16, power, to_f16};

/// An 8-bit format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Float8 {
    /// Four bits of exponent, three of fraction.
    E4m3,
    /// Five bits of exponent, two of fraction.
    E5m2,
}

impl Float8 {
    /// The format of a token of `ptx::qual::Fp8` or `ptx::qual::Fp8X2`.
    pub(crate) fn of(token: &str) -> Option<Float8> {
        match token.strip_suffix("x2").unwrap_or(token) {
            "e4m3" => Some(Float8::E4m3),
            "e5m2" => Some(Float8::E5m2),
            _ => None,
        }
    }

    /// Bits of the fraction, and the exponent of its least bit where the number is least.
    fn shape(self) -> (u32, i32) {
        match self {
            Float8::E4m3 => (3, -9),
            Float8::E5m2 => (2, -16),
        }
    }

    /// The exponent of the least normal number, which subnormal ones share.
    pub(crate) fn least_exponent(self) -> i32 {
        let (fraction, least) = self.shape();
        least + fraction as i32
    }

    /// The greatest number.
    pub fn greatest(self) -> f32 {
        match self {
            Float8::E4m3 => 448.0,
            Float8::E5m2 => 57344.0,
        }
    }

    /// The single with the same value: exact.
    pub fn to_single(self, bits: u8) -> f32 {
        match self {
            // The upper byte of a half.
            Float8::E5m2 => from_f16(u16::from(bits) << 8),
            Float8::E4m3 if bits & 0x7f == 0x7f => f32::NAN,
            Float8::E4m3 => {
                let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
                let magnitude = match exponent {
                    0 => fraction * power(-9),
                    _ => (8.0 + fraction) * power(exponent - 10),
                } as f32;
                if bits >> 7 == 0 { magnitude } else { -magnitude }
            }
        }
    }

    /// `cvt.rn.satfinite`: to nearest even; what is greater than the greatest number, infinities among it, becomes that
    /// number, and no number becomes 0x7f.
    pub fn of_single(self, value: f32) -> u8 {
        if value.is_nan() {
            return 0x7f;
        }
        let (fraction, least) = self.shape();
        let magnitude = value.abs().min(self.greatest());
        // The exponent of the unit: that of the number, less its fraction, but not below the least.
        let exponent = (magnitude.to_bits() >> 23) as i32 - 127 - fraction as i32;
        let exponent = exponent.max(least);
        // Whole units, exactly: a power of two scales without rounding, and what underflows is below half a unit.
        let scaled = f64::from(magnitude) * power(-exponent);
        let floor = scaled.floor();
        let (units, rest) = (floor as u32, scaled - floor);
        let up = rest > 0.5 || (rest == 0.5 && units & 1 == 1);
        // Units beyond a power of two carry into the exponent by themselves.
        let bits = ((exponent - least) as u32) << fraction;
        let sign = (value.to_bits() >> 24) as u8 & 0x80;
        sign | (bits + units + u32::from(up)) as u8
    }

    /// `cvt.rn.f16x2`: the half with the same value, which always exists.
    pub(crate) fn to_half(self, bits: u8) -> u16 {
        to_f16(self.to_single(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Float8; 2] = [Float8::E4m3, Float8::E5m2];

    fn finite(format: Float8) -> Vec<(f32, u8)> {
        let mut all: Vec<(f32, u8)> = (0..=0x7f).map(|bits| (format.to_single(bits), bits)).collect();
        all.retain(|(value, _)| value.is_finite());
        all
    }

    #[test]
    fn values_are_those_of_the_formats() {
        let e4m3 = |bits| Float8::E4m3.to_single(bits);
        assert_eq!([e4m3(0), e4m3(1), e4m3(7), e4m3(8)], [0.0, 1.0 / 512.0, 7.0 / 512.0, 1.0 / 64.0]);
        assert_eq!([e4m3(0x38), e4m3(0xb9), e4m3(0x7e), e4m3(0xfe)], [1.0, -1.125, 448.0, -448.0]);
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan() && e4m3(0x80).is_sign_negative());
        let e5m2 = |bits| Float8::E5m2.to_single(bits);
        assert_eq!([e5m2(1), e5m2(4), e5m2(0x3c), e5m2(0x7b)], [1.0 / 65536.0, 1.0 / 16384.0, 1.0, 57344.0]);
        assert_eq!([e5m2(0x7c), e5m2(0xfc)], [f32::INFINITY, f32::NEG_INFINITY]);
        assert!(e5m2(0x7d).is_nan() && e5m2(0xff).is_nan());
    }

    #[test]
    fn what_is_representable_survives_a_round_trip() {
        for format in BOTH {
            for bits in 0..=u8::MAX {
                let value = format.to_single(bits);
                if value.is_finite() {
                    assert_eq!(format.of_single(value), bits, "{format:?} {bits:#x}");
                    assert_eq!(from_f16(format.to_half(bits)).to_bits(), value.to_bits(), "{format:?} {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn between_two_neighbours_the_nearer_is_taken_and_of_two_the_even_one() {
        for format in BOTH {
            for pair in finite(format).windows(2) {
                let ((low, down), (high, up)) = (pair[0], pair[1]);
                // Exact: neighbours differ in few bits.
                let middle = (low + high) / 2.0;
                let even = if down & 1 == 0 { down } else { up };
                let below = f32::from_bits(middle.to_bits() - 1);
                let above = f32::from_bits(middle.to_bits() + 1);
                for (value, expected) in [(middle, even), (below, down), (above, up)] {
                    assert_eq!(format.of_single(value), expected, "{format:?} {value:e}");
                    assert_eq!(format.of_single(-value), expected | 0x80, "{format:?} -{value:e}");
                }
            }
        }
    }

    #[test]
    fn every_class_of_singles_is_rounded_to_the_nearest() {
        let nearest = |format: Float8, table: &[(f32, u8)], value: f32| {
            let apart = |at: f32| (f64::from(at) - f64::from(value.min(format.greatest()))).abs();
            let order =
                |a: &&(f32, u8), b: &&(f32, u8)| apart(a.0).total_cmp(&apart(b.0)).then((a.1 & 1).cmp(&(b.1 & 1)));
            table.iter().min_by(order).map_or(0, |t| t.1) | format.of_single(value) & 0x80
        };
        for format in BOTH {
            let table = finite(format);
            // All exponents and the leading bits of the fraction, with nothing, one and everything below them.
            for bits in 0..=u16::MAX {
                for low in [0, 1, 0xffff] {
                    let value = f32::from_bits(u32::from(bits) << 16 | low);
                    let expected = if value.is_nan() { 0x7f } else { nearest(format, &table, value.abs()) };
                    let sign = if value.is_nan() { 0 } else { u8::from(value.is_sign_negative()) << 7 };
                    assert_eq!(format.of_single(value), expected & 0x7f | sign, "{format:?} {value:e}");
                }
            }
            assert_eq!(format.to_single(format.of_single(f32::INFINITY)), format.greatest());
        }
    }
}
