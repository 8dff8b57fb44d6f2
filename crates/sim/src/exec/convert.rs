//! Conversions between formats, and the bytes and halves of registers (PTX ISA, "cvt", "prmt", "mov").
//!
//! A 16-bit register is the lower half of one of 32 bits; what is above it has no meaning.

use super::arith::each;
use crate::float;
use crate::program::{Code, Half, S32};
use crate::warp::Warp;

/// Runs an instruction in the lanes; false if it is of another kind.
pub(super) fn convert(warp: &mut Warp, code: &Code, lanes: u32) -> bool {
    let reg = |warp: &Warp, r: u32| warp.s32(S32::R(r));
    let (d, values) = match *code {
        Code::CvtPair(half, d, high, low) => {
            let (high, low) = (warp.s32(high), warp.s32(low));
            (d, each(|l| pack(round(half, high[l]), round(half, low[l]))))
        }
        Code::CvtReluPair(half, d, high, low) => {
            let (high, low) = (warp.s32(high), warp.s32(low));
            // What is below zero becomes zero, and no number all ones but the sign (PTX ISA, "cvt").
            let cut = |bits: u32| match f32::from_bits(bits) {
                value if value.is_nan() => 0x7fff,
                value => round(half, value.max(0.0).to_bits()),
            };
            (d, each(|l| pack(cut(high[l]), cut(low[l]))))
        }
        Code::CvtHalf(half, d, a) => {
            let a = warp.s32(a);
            (d, each(|l| u32::from(round(half, a[l]))))
        }
        Code::CvtSingle(half, d, a) => {
            let a = reg(warp, a);
            // A bfloat16 is the upper half of a single, whatever it says; a half that is no number becomes the one form.
            let widen = |bits| match half {
                Half::Bf16 => single(half, bits),
                Half::F16 => float::canonical(single(half, bits)),
            };
            (d, each(|l| widen(a[l] as u16).to_bits()))
        }
        Code::CvtPair8(format, d, high, low) => {
            let (high, low) = (warp.s32(high), warp.s32(low));
            let round = |bits| u32::from(format.of_single(f32::from_bits(bits)));
            (d, each(|l| round(high[l]) << 8 | round(low[l])))
        }
        Code::AbsPair(d, a) => {
            let a = reg(warp, a);
            (d, each(|l| a[l] & 0x7fff_7fff))
        }
        Code::MaxPair(half, d, a, b) => {
            let (a, b) = (reg(warp, a), reg(warp, b));
            (d, each(|l| pack(larger(half, a[l] >> 16, b[l] >> 16), larger(half, a[l], b[l]))))
        }
        Code::CvtHalves(format, d, a) => {
            let a = reg(warp, a);
            (d, each(|l| pack(format.to_half((a[l] >> 8) as u8), format.to_half(a[l] as u8))))
        }
        Code::Pack16(d, low, high) => {
            let (low, high) = (reg(warp, low), reg(warp, high));
            (d, each(|l| pack(high[l] as u16, low[l] as u16)))
        }
        Code::Unpack16(low, high, a) => {
            let a = reg(warp, a);
            warp.set32(low, lanes, &each(|l| a[l] & 0xffff));
            (high, each(|l| a[l] >> 16))
        }
        Code::Permute(d, a, b, selector) => {
            let (a, b, selector) = (warp.s32(a), warp.s32(b), warp.s32(selector));
            (d, each(|l| permute(a[l], b[l], selector[l])))
        }
        _ => return false,
    };
    warp.set32(d, lanes, &values);
    true
}

fn pack(high: u16, low: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

fn round(half: Half, bits: u32) -> u16 {
    match half {
        Half::Bf16 => float::to_bf16(f32::from_bits(bits)),
        Half::F16 => float::to_f16(f32::from_bits(bits)),
    }
}

/// The larger of two 16-bit numbers; of a number and none the number, of none 0x7fff (PTX ISA, "max").
fn larger(half: Half, a: u32, b: u32) -> u16 {
    let (a, b) = (a as u16, b as u16);
    let (left, right) = (single(half, a), single(half, b));
    match (left.is_nan(), right.is_nan()) {
        (true, true) => 0x7fff,
        (true, false) => b,
        (false, true) => a,
        _ if left < right => b,
        _ => a,
    }
}

/// A 16-bit number as a single.
pub(super) fn single(half: Half, bits: u16) -> f32 {
    match half {
        Half::Bf16 => float::from_bf16(bits),
        Half::F16 => float::from_f16(bits),
    }
}

/// Four bytes of the eight of `b` and `a`, `a` the lower: a selector of four bits each, whose highest bit asks for the
/// sign of the byte in all eight of its bits.
fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    u32::from_le_bytes(std::array::from_fn(|i| {
        let pick = selector >> (4 * i) & 15;
        let byte = bytes[pick as usize & 7];
        match pick & 8 {
            0 => byte,
            _ if byte & 0x80 != 0 => 0xff,
            _ => 0,
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::permute;

    #[test]
    fn bytes_are_picked_from_both_and_signs_spread() {
        let (a, b) = (0x8302_8100, 0x0786_0584);
        assert_eq!(permute(a, b, 0x3210), a);
        assert_eq!(permute(a, b, 0x7654), b);
        // The even bytes of both, and the odd ones: what a transposition of byte pairs takes.
        assert_eq!(permute(a, b, 0x6420), 0x8684_0200);
        assert_eq!(permute(a, b, 0x7531), 0x0705_8381);
        assert_eq!(permute(a, b, 0xfedc), 0x00ff_00ff);
        assert_eq!(permute(a, b, 0xba98), 0xff00_ff00);
        assert_eq!(permute(a, b, 0xffff_0000), 0);
    }
}
