//! e4m3 on the CPU: one sign bit, four of exponent (bias 7), three of fraction; largest 448, no infinity.

/// The largest finite number.
pub const MAX: f32 = 448.0;
/// The code of not-a-number.
pub const NAN: u8 = 0x7f;
/// Exponent of the smallest normal number.
const EXPONENT_MIN: i32 = -6;

/// Rounded to nearest, ties to even; what is larger than [`MAX`], infinities among it, becomes [`MAX`], not-a-number
/// stays (PTX ISA, "cvt.rn.satfinite.e4m3x2").
pub fn encode(value: f32) -> u8 {
    if value.is_nan() {
        return NAN;
    }
    let sign = u8::from(value.is_sign_negative()) << 7;
    let magnitude = f64::from(value.abs().min(MAX));
    // The exponent field of f64 is the exponent; zero has the least.
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(EXPONENT_MIN);
    let steps = (magnitude * f64::from(3 - exponent).exp2()).round_ties_even() as i32;
    // Eight steps more than a normal number's fraction carry into the exponent by themselves.
    sign | (((exponent + 7) << 3) + steps - 8) as u8
}

/// The number of a code.
pub fn decode(code: u8) -> f32 {
    let (exponent, fraction) = (i32::from(code >> 3 & 15), f32::from(code & 7));
    let magnitude = match exponent {
        _ if code & NAN == NAN => f32::NAN,
        0 => fraction * (-9_f32).exp2(),
        _ => (8.0 + fraction) * ((exponent - 10) as f32).exp2(),
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// How many codes lie between two, on the line of numbers; none between a number and not-a-number, which are never near.
pub fn steps_apart(a: u8, b: u8) -> Option<u32> {
    let place = |code: u8| if code & 0x80 == 0 { i32::from(code) } else { -i32::from(code & NAN) };
    match (decode(a).is_nan(), decode(b).is_nan()) {
        (false, false) => Some(place(a).abs_diff(place(b))),
        (true, true) => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back() {
        for code in (0..=u8::MAX).filter(|code| code & NAN != NAN) {
            assert_eq!(encode(decode(code)), code);
        }
        assert!(decode(NAN).is_nan() && decode(0xff).is_nan());
        assert_eq!((encode(f32::NAN), encode(f32::INFINITY), encode(-1e30)), (NAN, 0x7e, 0xfe));
    }

    #[test]
    fn neighbours_are_one_step_apart() {
        assert_eq!([steps_apart(3, 4), steps_apart(0x81, 1), steps_apart(0x80, 0)], [Some(1), Some(2), Some(0)]);
        assert_eq!([steps_apart(NAN, 0xff), steps_apart(NAN, 0x7e), steps_apart(0x7e, 0xff)], [Some(0), None, None]);
    }

    #[test]
    fn halfway_goes_to_the_even_neighbour() {
        for code in 0..0x7d {
            let (low, high) = (decode(code), decode(code + 1));
            let middle = f32::midpoint(low, high);
            assert_eq!(encode(middle), code + (code & 1), "{middle}");
            assert_eq!(encode(f32::midpoint(low, middle)), code);
            assert_eq!(encode(f32::midpoint(middle, high)), code + 1);
        }
        assert_eq!([decode(1), decode(8), decode(0x38), decode(0x7e)], [1.0 / 512.0, 1.0 / 64.0, 1.0, 448.0]);
    }
}
