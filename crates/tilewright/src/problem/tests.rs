//! What a problem accepts and refuses.

use super::*;

fn small() -> ProblemBuilder {
    Problem::builder().batch(2).queries(7).keys(9).heads(4).kv_heads(2).head_dim(64)
}

fn told(builder: ProblemBuilder) -> String {
    builder.build().expect_err("refused").to_string()
}

#[test]
fn defaults_are_the_house_conventions() {
    let problem = Problem::builder().queries(5).heads(3).head_dim(64).build().expect("fine");
    assert_eq!((problem.batch(), problem.keys(), problem.kv_heads(), problem.group()), (1, 5, 3, 1));
    assert_eq!((problem.element(), problem.causal(), problem.scale()), (Element::Bf16, false, 0.125));
    assert_eq!(problem.strides(), [Strides::new(5 * 3 * 64, 3 * 64, 64); 4]);
    assert_eq!(small().head_dims(192, 128).build().expect("fine").scale(), 192_f64.sqrt().recip());
}

#[test]
fn key_heads_divide_query_heads() {
    for (heads, kv_heads) in [(5, 1), (12, 2), (14, 2), (96, 8), (71, 1)] {
        let problem = small().heads(heads).kv_heads(kv_heads).build().expect("fine");
        assert_eq!(problem.group(), heads / kv_heads);
    }
    for (heads, kv_heads) in [(33, 2), (3, 2), (4, 0)] {
        let told = told(small().heads(heads).kv_heads(kv_heads));
        assert!(told.contains(&format!("kv_heads = {kv_heads} does not divide heads = {heads}")), "{told}");
    }
}

#[test]
fn empty_problems_are_fine() {
    for problem in [small().batch(0), small().queries(0), small().heads(0).kv_heads(0)] {
        assert!(problem.build().expect("fine").is_empty());
    }
    let keyless = small().keys(0).build().expect("fine");
    assert!(!keyless.is_empty());
    assert_eq!(keyless.visible(3), 0);
}

#[test]
fn causal_is_aligned_at_the_bottom_right() {
    let visible = |queries: u64, keys: u64| -> Vec<u64> {
        let problem = small().queries(queries).keys(keys).causal(true).build().expect("fine");
        (0..queries).map(|i| problem.visible(i)).collect()
    };
    assert_eq!(visible(2, 5), [4, 5]);
    assert_eq!(visible(1, 5), [5]);
    assert_eq!(visible(5, 2), [0, 0, 0, 1, 2]);
    assert!(!small().queries(1).causal(true).build().expect("fine").is_masked());
}

#[test]
fn flops_count_what_is_visible() {
    for (queries, keys, causal) in [(7, 9, true), (9, 7, true), (7, 9, false), (5, 5, true)] {
        let problem = small().queries(queries).keys(keys).causal(causal).build().expect("fine");
        let scores: u64 = (0..queries).map(|i| problem.visible(i)).sum();
        assert_eq!(problem.flops(), 4.0 * 64.0 * (scores * 2 * 4) as f64);
    }
}

#[test]
fn scales_are_finite_and_positive() {
    for scale in [0.0, -0.125, f64::INFINITY, f64::NAN, 1e-60, 1e60] {
        assert!(told(small().scale(scale)).contains("scale"), "{scale}");
    }
    assert_eq!(small().scale(1.0).build().expect("fine").scale(), 1.0);
}

#[test]
fn strides_that_the_engine_cannot_take_name_their_tensor() {
    type With = fn(ProblemBuilder, [u64; 3]) -> ProblemBuilder;
    let with: [(&str, With); 4] = [
        ("q", |b, s| b.q_strides(s)),
        ("k", |b, s| b.k_strides(s)),
        ("v", |b, s| b.v_strides(s)),
        ("o", |b, s| b.o_strides(s)),
    ];
    for (name, with) in with {
        let told = told(with(small(), [100_000, 260, 64]));
        assert!(told.contains(&format!("tensor {name}: stride of token is 520 bytes")), "{told}");
    }
    // One token: its stride is never used.
    assert!(small().queries(1).q_strides([1024, 3, 64]).build().is_ok());
    // Keys may be broadcast over the batch, an output may not.
    assert!(small().k_strides([0, 128, 64]).build().is_ok());
    assert!(told(small().o_strides([0, 256, 64])).contains("tensor o"));
}

#[test]
fn limits_are_named() {
    assert!(told(small().keys((1 << 30) + 1)).contains("keys = 1073741825"));
    assert!(told(small().queries(1 << 30).heads(1 << 20).kv_heads(1)).contains("2^48 rows"));
    assert!(told(small().head_dim(60)).contains("D = 60"));
    assert!(told(small().head_dim(0)).contains("D = 0"));
    assert!(told(small().element(Element::Bf16).fp8(crate::Fp8::default())).contains("bf16"));
    for (what, missing) in [
        ("queries", Problem::builder().heads(1).head_dim(64)),
        ("heads", Problem::builder().queries(1).head_dim(64)),
        ("head dimension", Problem::builder().queries(1).heads(1)),
    ] {
        assert!(told(missing).contains(what));
    }
}

#[test]
fn problems_read_as_shapes() {
    let problem = small().causal(true).build().expect("fine");
    assert_eq!(problem.to_string(), "bf16 causal attention of q [2, 7, 4, 64], k and v [2, 9, 2, 64]");
}
