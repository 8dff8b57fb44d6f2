//! Test data that is the same on every machine.

/// Numbers in (0, 1] from a seed.
fn uniform(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    // SplitMix64 (Steele, Lea, Flood 2014): the upper 53 bits.
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

/// Box and Muller (1958).
fn bell(a: f64, b: f64) -> f64 {
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// Standard normal numbers from a seed.
pub fn normal(seed: u64, count: usize) -> Vec<f32> {
    let mut uniform = uniform(seed);
    (0..count).map(|_| bell(uniform(), uniform()) as f32).collect()
}

/// Numbers as activations of large models have them: standard normal, and one in a thousand with another of variance 100
/// added to it (FlashAttention-3, arXiv 2407.08608, section 4.3).
pub fn with_outliers(seed: u64, count: usize) -> Vec<f32> {
    let mut uniform = uniform(seed);
    let one = |_| {
        let (plain, far) = (bell(uniform(), uniform()), 10.0 * bell(uniform(), uniform()));
        (if uniform() <= 0.001 { plain + far } else { plain }) as f32
    };
    (0..count).map(one).collect()
}
