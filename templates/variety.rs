//! Schedules beside the main family: each takes one option that the family does not, so that every option is lowered
//! and tried.

use schedule_macros::schedule;

schedule! {
    /// One consumer warpgroup, for short sequences.
    fwd_bf16_d128_one_warpgroup {
        pass: forward,
        element: bf16,
        head_dim: 128,
        tile: 64 x 128,
        stages: { q: 2, kv: 2 },
        roles: {
            producer: warps(1) registers(56),
            consumer: warpgroups(1) registers(240),
        },
        overlap: [within_warpgroup],
    }

    /// P goes through shared memory: it leaves its registers free while the next scores are computed.
    fwd_bf16_d64_shared_probabilities {
        pass: forward,
        element: bf16,
        head_dim: 64,
        tile: 128 x 64,
        stages: { q: 1, kv: 2 },
        roles: {
            producer: warps(1) registers(24),
            consumer: warpgroups(2) registers(240),
        },
        overlap: [within_warpgroup, pingpong],
        probabilities: shared,
    }

    /// Q waits in registers: it is read from shared memory once a query tile, not once a step. All tiles cost the same and are
    /// still taken from a counter, for devices whose SMs are shared with other work.
    fwd_bf16_d64_register_queries {
        pass: forward,
        element: bf16,
        head_dim: 64,
        tile: 128 x 64,
        stages: { q: 1, kv: 2 },
        roles: {
            producer: warps(1) registers(24),
            consumer: warpgroups(2) registers(240),
        },
        overlap: [within_warpgroup, pingpong],
        queries: registers,
        grid: persistent(dynamic),
    }

    /// One thing after another: the plainest schedule.
    fwd_bf16_d64_no_overlap {
        pass: forward,
        element: bf16,
        head_dim: 64,
        tile: 128 x 64,
        stages: { q: 1, kv: 2 },
        roles: {
            producer: warps(1) registers(24),
            consumer: warpgroups(2) registers(240),
        },
    }

    /// Ping-pong alone: two warpgroups take turns, and each waits for its own products.
    fwd_bf16_d64_pingpong_only {
        pass: forward,
        element: bf16,
        head_dim: 64,
        tile: 128 x 64,
        stages: { q: 2, kv: 2 },
        roles: {
            producer: warps(1) registers(24),
            consumer: warpgroups(2) registers(240),
        },
        overlap: [pingpong],
    }
}
