//! A field given twice.

use schedule_macros::schedule;

schedule! {
    fwd_bf16_d128 {
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
        element: f16,
    }
}

fn main() {
    all();
}
