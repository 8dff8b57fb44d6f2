//! A family, one of whose instances does not fit: the message says which.

use schedule_macros::schedule;

schedule! {
    fwd for head_dim in [64, 96, 128], variant in [full, causal] {
        pass: forward,
        element: bf16,
        tile: 128 x 128,
        stages: match (head_dim, variant) {
            (128, causal) => { q: 2, kv: 3 },
            _ => { q: 2, kv: 2 },
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
