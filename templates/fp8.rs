//! The forward pass over 8-bit elements, with scales by block.

use schedule_macros::schedule;

schedule! {
    /// V comes transposed, as the quantizer writes it: nothing is moved in shared memory. The tensor cores add up the rows of
    /// P; O is corrected only where a maximum has grown by more than 2^3.8. Blocks of 8 bits are gone through twice as fast
    /// as those of 16, so the ring is deeper, and warpgroups that take turns would wait for one another.
    fwd for element in [e4m3], head_dim in [64, 96, 128, 192, 256], variant in [full, causal] {
        pass: forward,
        tile: match head_dim {
            64 | 96 => 192 x 128,
            128 => 192 x 96,
            192 | 256 => 128 x 128,
        },
        stages: match head_dim {
            64 | 96 | 128 => { q: 2, kv: 4 },
            192 | 256 => { q: 1, kv: 2 },
        },
        roles: match head_dim {
            64 | 96 | 128 => {
                producer: warps(1) registers(32),
                consumer: warpgroups(3) registers(160),
            },
            192 | 256 => {
                producer: warps(1) registers(24),
                consumer: warpgroups(2) registers(240),
            },
        },
        overlap: match (head_dim, variant) {
            (128, full) => [within_warpgroup, across_tiles],
            _ => [within_warpgroup],
        },
        rescale: above(3.8),
        row_sum: tensor_core,
        // At head dimension 64 the exponential unit has twice as much to do as the tensor cores.
        exponential: match head_dim {
            64 => polynomial(1),
            _ => unit,
        },
        grid: match variant {
            full => persistent(static),
            causal => persistent(dynamic) longest_first(l2: 32 MiB, heads: 32),
        },
    }

    /// V row by row, as KV caches hold it: the producer's warps transpose it, by registers consumers lack.
    fwd_rows for element in [e4m3], head_dim in [64, 96, 128, 192, 256], variant in [full, causal] {
        pass: forward,
        tile: match head_dim {
            64 | 96 => 192 x 128,
            128 => 192 x 96,
            192 => 128 x 128,
            256 => 128 x 64,
        },
        stages: match head_dim {
            64 | 96 | 128 => { q: 2, kv: 3 },
            192 | 256 => { q: 1, kv: 2 },
        },
        roles: match head_dim {
            64 | 96 | 128 => {
                producer: warps(4) registers(32),
                consumer: warpgroups(3) registers(160),
            },
            192 | 256 => {
                producer: warps(4) registers(40),
                consumer: warpgroups(2) registers(232),
            },
        },
        overlap: [within_warpgroup],
        rescale: above(3.8),
        row_sum: tensor_core,
        values: rows,
        grid: match variant {
            full => persistent(static),
            causal => persistent(dynamic) longest_first(l2: 32 MiB, heads: 32),
        },
    }

    /// Long contexts: after every four key tiles the sums go to a total in shared memory, as the tensor cores' keep few bits.
    fwd_long for element in [e4m3], head_dim in [64, 128], variant in [full, causal] {
        pass: forward,
        tile: match head_dim {
            64 => 192 x 128,
            128 => 192 x 96,
        },
        stages: match head_dim {
            64 => { q: 2, kv: 3 },
            128 => { q: 1, kv: 2 },
        },
        roles: {
            producer: warps(1) registers(32),
            consumer: warpgroups(3) registers(160),
        },
        overlap: match head_dim {
            64 => [within_warpgroup],
            128 => [within_warpgroup, pingpong],
        },
        rescale: above(3.8),
        row_sum: tensor_core,
        accumulate: every(4),
        grid: match variant {
            full => persistent(static),
            causal => persistent(dynamic) longest_first(l2: 32 MiB, heads: 32),
        },
    }

    /// P without the exponential unit, which up to head dimension 128 has as much to do as the tensor cores or more: bytes
    /// at once, by which most maxima are kept without comparing scores.
    fwd_linear for element in [e4m3], head_dim in [64, 128, 256], variant in [full, causal] {
        pass: forward,
        tile: match head_dim {
            64 => 192 x 128,
            128 => 192 x 96,
            256 => 128 x 128,
        },
        stages: match head_dim {
            64 | 128 => { q: 2, kv: 4 },
            256 => { q: 1, kv: 2 },
        },
        roles: match head_dim {
            64 | 128 => {
                producer: warps(1) registers(32),
                consumer: warpgroups(3) registers(160),
            },
            256 => {
                producer: warps(1) registers(24),
                consumer: warpgroups(2) registers(240),
            },
        },
        overlap: match (head_dim, variant) {
            (128, full) => [within_warpgroup, across_tiles],
            _ => [within_warpgroup],
        },
        rescale: above(3.8),
        row_sum: tensor_core,
        exponential: linear(4),
        grid: match variant {
            full => persistent(static),
            causal => persistent(dynamic) longest_first(l2: 32 MiB, heads: 32),
        },
    }

    /// What the others leave out: e5m2, one scale a head, O in f16, sums by threads, the next tile's scores beside this
    /// one's stores.
    fwd_e5m2_d128_heads {
        pass: forward,
        element: e5m2,
        head_dim: 128,
        tile: 128 x 96,
        stages: { q: 2, kv: 2 },
        roles: {
            producer: warps(4) registers(40),
            consumer: warpgroups(2) registers(232),
        },
        overlap: [within_warpgroup, pingpong, across_tiles],
        output: f16,
        scales: head,
        values: rows,
    }
}
