//! Integer and predicate instructions as functions of 64-bit values. Widths and signs only; no lanes, no registers.

use ptx::Op;

fn signed(ty: &str, v: u64) -> i64 {
    if ty == "s32" { i64::from(v as u32 as i32) } else { v as i64 }
}

fn unsigned(ty: &str, v: u64) -> u64 {
    if matches!(ty, "u32" | "b32") { v & 0xffff_ffff } else { v }
}

/// A comparison, by its tokens.
pub(crate) fn compare(cmp: &str, ty: &str, a: u64, b: u64) -> bool {
    let order = match ty.starts_with('s') {
        true => signed(ty, a).cmp(&signed(ty, b)),
        false => unsigned(ty, a).cmp(&unsigned(ty, b)),
    };
    match cmp {
        "eq" => order.is_eq(),
        "ne" => order.is_ne(),
        "lt" => order.is_lt(),
        "le" => order.is_le(),
        "gt" => order.is_gt(),
        _ => order.is_ge(),
    }
}

/// Four of eight bytes, by a selector of four bits each; the highest of these asks for the byte's sign in all its bits.
fn permuted(bytes: u64, selector: u64) -> u64 {
    (0..4).fold(0, |out, i| {
        let pick = selector >> (4 * i) & 15;
        let byte = bytes >> (8 * (pick & 7)) & 0xff;
        let byte = match (pick >> 3, byte >> 7) {
            (0, _) => byte,
            (_, sign) => 0xff * sign,
        };
        out | byte << (8 * i)
    })
}

type Function = Box<dyn Fn(&[u64]) -> u64>;

/// The function of an integer or predicate row, over zero-extended operands; the caller cuts the result.
pub(crate) fn arithmetic(op: Op, ty: &'static str) -> Option<Function> {
    let is_signed = ty.starts_with('s');
    let ordered = move |a: u64, b: u64| compare("le", ty, a, b);
    Some(match op {
        Op::add => Box::new(|v| v[0].wrapping_add(v[1])),
        Op::sub => Box::new(|v| v[0].wrapping_sub(v[1])),
        Op::mul_lo => Box::new(|v| v[0].wrapping_mul(v[1])),
        Op::mad_lo => Box::new(|v| v[0].wrapping_mul(v[1]).wrapping_add(v[2])),
        Op::mul_wide_u32 => Box::new(|v| (v[0] & 0xffff_ffff).wrapping_mul(v[1] & 0xffff_ffff)),
        Op::mad_wide_u32 => Box::new(|v| (v[0] & 0xffff_ffff).wrapping_mul(v[1] & 0xffff_ffff).wrapping_add(v[2])),
        Op::mul_hi if ty == "u32" => Box::new(|v| ((v[0] & 0xffff_ffff) * (v[1] & 0xffff_ffff)) >> 32),
        Op::div if is_signed => Box::new(move |v| signed(ty, v[0]).checked_div(signed(ty, v[1])).unwrap_or(-1) as u64),
        Op::rem if is_signed => Box::new(move |v| signed(ty, v[0]).checked_rem(signed(ty, v[1])).unwrap_or(-1) as u64),
        Op::div => Box::new(move |v| unsigned(ty, v[0]).checked_div(unsigned(ty, v[1])).unwrap_or(u64::MAX)),
        Op::rem => Box::new(move |v| unsigned(ty, v[0]).checked_rem(unsigned(ty, v[1])).unwrap_or(u64::MAX)),
        Op::min => Box::new(move |v| if ordered(v[0], v[1]) { v[0] } else { v[1] }),
        Op::max => Box::new(move |v| if ordered(v[0], v[1]) { v[1] } else { v[0] }),
        Op::and | Op::and_pred => Box::new(|v| v[0] & v[1]),
        Op::or | Op::or_pred => Box::new(|v| v[0] | v[1]),
        Op::xor => Box::new(|v| v[0] ^ v[1]),
        Op::prmt => Box::new(|v| permuted(v[1] << 32 | v[0] & 0xffff_ffff, v[2])),
        Op::not_pred => Box::new(|v| u64::from(v[0] == 0)),
        Op::shl => Box::new(move |v| unsigned(ty, v[0]).checked_shl(v[1] as u32).unwrap_or(0)),
        Op::shr if is_signed => Box::new(move |v| (signed(ty, v[0]) >> (v[1] as u32).min(63)) as u64),
        Op::shr => Box::new(move |v| unsigned(ty, v[0]).checked_shr(v[1] as u32).unwrap_or(0)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::permuted;

    #[test]
    fn bytes_are_picked_and_signs_spread() {
        let bytes = 0x0786_0584_8302_8100;
        assert_eq!(permuted(bytes, 0x6420), 0x8684_0200);
        assert_eq!(permuted(bytes, 0x7531), 0x0705_8381);
        assert_eq!(permuted(bytes, 0xba98), 0xff00_ff00);
    }
}
