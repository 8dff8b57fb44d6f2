//! Quantizers, as `Quantize::for_hopper` makes them: of head dimensions and blocks of keys that an attention schedule in e4m3
//! is likely to have, and one for each granularity of scales.

use schedule_macros::quantizers;

quantizers! {
    /// A key block of one product and a half: the second takes rows of the first again and does not store them twice.
    quantize_bf16_d128_k96 {
        pass: quantize,
        element: bf16,
        head_dim: 128,
        rotation: hadamard,
        scales: { q: block(64), k: block(96), v: head },
        stages: 4,
        roles: {
            producer: warps(3) registers(24),
            consumer: warpgroups(3) registers(160),
        },
    }

    /// Two consumer warpgroups: a row's accumulators take half of a thread's registers.
    quantize_bf16_d256_k128 {
        pass: quantize,
        element: bf16,
        head_dim: 256,
        rotation: hadamard,
        scales: { q: block(64), k: block(128), v: head },
        stages: 3,
        roles: {
            producer: warps(2) registers(24),
            consumer: warpgroups(2) registers(240),
        },
    }

    /// Scales of heads, as a descale of shape [B, H]: Q and K are read twice, as V is.
    quantize_bf16_d128_q_head_k_head {
        pass: quantize,
        element: bf16,
        head_dim: 128,
        rotation: hadamard,
        scales: { q: head, k: head, v: head },
        stages: 4,
        roles: {
            producer: warps(3) registers(24),
            consumer: warpgroups(3) registers(160),
        },
    }

    /// One scale a tensor and nothing rotated, to compare with.
    quantize_f16_d64_q_tensor_k_tensor_v_tensor_unrotated {
        pass: quantize,
        element: f16,
        head_dim: 64,
        rotation: off,
        scales: { q: tensor, k: tensor, v: tensor },
        stages: 6,
        roles: {
            producer: warps(3) registers(24),
            consumer: warpgroups(3) registers(160),
        },
    }
}
