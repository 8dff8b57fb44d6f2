//! The forward pass: one family over element types, head dimensions and masks.

use schedule_macros::schedule;

schedule! {
    /// FlashAttention-3 forward: one producer warp feeds two consumer warpgroups, three at head dimension 64, whose
    /// softmax runs beside each other's products; up to head dimension 128 the next query tile's first scores run
    /// beside this one's last output and its stores.
    fwd for element in [bf16, f16], head_dim in [64, 96, 128, 192, 256, (192, 128)], variant in [full, causal] {
        pass: forward,
        tile: match head_dim {
            64 => 192 x 128,
            96 | 128 => 128 x 128,
            192 | (192, 128) => 128 x 96,
            256 => 128 x 64,
        },
        stages: match (head_dim, variant) {
            (64, full) => { q: 2, kv: 3 },
            (64 | 96 | 128, _) => { q: 2, kv: 2 },
            _ => { q: 1, kv: 2 },
        },
        roles: match head_dim {
            64 => {
                producer: warps(1) registers(32),
                consumer: warpgroups(3) registers(160),
            },
            96 | 128 => {
                producer: warps(1) registers(24),
                consumer: warpgroups(2) registers(240),
            },
            _ => {
                producer: warps(1) registers(40),
                consumer: warpgroups(2) registers(232),
            },
        },
        overlap: match (head_dim, variant) {
            (64, causal) => [within_warpgroup, pingpong],
            (64 | 96 | 128, _) => [within_warpgroup, pingpong, across_tiles],
            _ => [within_warpgroup],
        },
        rescale: match (element, head_dim) {
            (bf16, _) => on_overflow,
            (f16, 256) => above(8.0),
            (f16, _) => always,
        },
        grid: match variant {
            full => persistent(static),
            causal => persistent(dynamic) longest_first(l2: 32 MiB, heads: 32),
        },
    }
}
