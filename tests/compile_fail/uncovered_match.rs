//! A match that leaves a head dimension out, and one with an arm that nothing reaches.

use schedule_macros::schedule;

schedule! {
    fwd for head_dim in [64, 96, 128], variant in [full, causal] {
        pass: forward,
        element: bf16,
        tile: match head_dim {
            64 => 128 x 128,
            128 => 128 x 128,
        },
        stages: match (head_dim, variant) {
            (64, full) => { q: 2, kv: 4 },
            _ => { q: 2, kv: 2 },
            (128, causal) => { q: 1, kv: 2 },
        },
        roles: {
            producer: warps(1) registers(24),
            consumer: warpgroups(2) registers(240),
        },
    }
}

fn main() {
    all();
}
