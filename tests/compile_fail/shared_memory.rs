//! Three stages of K and V, which 227 KiB of shared memory cannot hold.

use schedule_macros::schedule;

schedule! {
    fwd_bf16_d128 {
        pass: forward,
        element: bf16,
        head_dim: 128,
        tile: 128 x 128,
        stages: { q: 2, kv: 3 },
        roles: {
            producer: warps(1) registers(24),
            consumer: warpgroups(2) registers(240),
        },
        overlap: [within_warpgroup, pingpong],
    }
}

fn main() {
    all();
}
