//! Query tiles whose keys several blocks share: for problems with fewer query tiles than SMs.

use schedule_macros::schedule;

schedule! {
    /// The forward pass over shares of the keys, of which the last to arrive puts all together. Others of this kind are
    /// derived from the schedules that split nothing.
    fwd_split_bf16_d128 {
        pass: forward,
        element: bf16,
        head_dim: 128,
        tile: 128 x 128,
        stages: { q: 2, kv: 2 },
        roles: {
            producer: warps(1) registers(24),
            consumer: warpgroups(2) registers(240),
        },
        overlap: [within_warpgroup, pingpong],
        split: keys,
    }
}
