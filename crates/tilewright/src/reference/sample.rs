//! Test data that is the same on every machine.

/// Standard normal numbers from a seed.
pub fn normal(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    // SplitMix64 (Steele, Lea, Flood 2014): the upper 53 bits as a number in (0, 1].
    let mut uniform = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    };
    // Box and Muller (1958).
    let one = |(a, b): (f64, f64)| ((-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()) as f32;
    (0..count).map(|_| one((uniform(), uniform()))).collect()
}
