//! The forward pass for lengths at which the main family is not the fastest.

use schedule_macros::schedule;

schedule! {
    /// Short causal sequences at head dimension 64: smaller tiles waste less at the diagonal, and the deeper ring has
    /// the next tile's keys there when its first scores begin.
    fwd_across for element in [bf16, f16], head_dim in [64], variant in [causal] {
        pass: forward,
        tile: 128 x 128,
        stages: { q: 2, kv: 4 },
        roles: {
            producer: warps(1) registers(24),
            consumer: warpgroups(2) registers(240),
        },
        overlap: [within_warpgroup, pingpong, across_tiles],
        rescale: match element {
            bf16 => on_overflow,
            f16 => always,
        },
        grid: persistent(dynamic) longest_first(l2: 32 MiB, heads: 32),
    }

    /// Short full sequences at head dimension 128: half the columns, so that a tile's first product waits for less, and
    /// twice the stages.
    fwd_deep for element in [bf16], head_dim in [128], variant in [full] {
        pass: forward,
        tile: 128 x 64,
        stages: { q: 2, kv: 4 },
        roles: {
            producer: warps(1) registers(24),
            consumer: warpgroups(2) registers(240),
        },
        overlap: [within_warpgroup, pingpong, across_tiles],
        rescale: on_overflow,
        grid: persistent(static),
    }

    /// Long causal sequences at head dimension 128, which run at the power limit: Q in registers is read from shared
    /// memory once a tile instead of once a step.
    fwd_held for element in [bf16], head_dim in [128], variant in [causal] {
        pass: forward,
        tile: 128 x 128,
        stages: { q: 1, kv: 2 },
        roles: {
            producer: warps(1) registers(24),
            consumer: warpgroups(2) registers(240),
        },
        overlap: [within_warpgroup, pingpong, across_tiles],
        queries: registers,
        rescale: on_overflow,
        grid: persistent(dynamic) longest_first(l2: 32 MiB, heads: 32),
    }
}
