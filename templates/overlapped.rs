//! The forward pass for short sequences: the end of a query tile is hidden under the beginning of the next.

use schedule_macros::schedule;

schedule! {
    /// The next query tile's first scores run beside this one's last output and its stores: where a tile has few key
    /// steps, its prologue and epilogue are a large share of it.
    fwd_across for element in [bf16, f16], head_dim in [64, 128], variant in [full, causal] {
        pass: forward,
        tile: 128 x 128,
        stages: match head_dim {
            64 => { q: 2, kv: 4 },
            128 => { q: 2, kv: 2 },
        },
        roles: {
            producer: warps(1) registers(24),
            consumer: warpgroups(2) registers(240),
        },
        overlap: [within_warpgroup, pingpong, across_tiles],
        grid: match variant {
            full => persistent(static),
            causal => persistent(dynamic) longest_first(l2: 32 MiB),
        },
    }
}
