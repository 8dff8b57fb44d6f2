//! Layouts of scales and of V, and what is refused.

use super::*;
use crate::{Element, ProblemBuilder, Strides};

fn small() -> ProblemBuilder {
    Problem::builder().element(Element::E4m3).batch(2).queries(300).keys(1000).heads(8).kv_heads(2).head_dim(128)
}

fn told(builder: ProblemBuilder) -> String {
    builder.build().expect_err("refused").to_string()
}

fn strided(by: ScaleBy, [batch, head, block]: [u64; 3]) -> ScaleLayout {
    ScaleLayout { by, strides: Some(ScaleStrides { batch, head, block }) }
}

#[test]
fn unless_said_otherwise_a_cache_is_read() {
    let problem = small().build().expect("fine");
    assert_eq!(problem.fp8(), Some(&Fp8::default()));
    assert_eq!((problem.output_element(), problem.element_bytes()), (Element::Bf16, [1, 1, 1, 2]));
    assert_eq!(problem.strides()[2], Strides::contiguous(1000, 2, 128));
    assert_eq!(problem.scale_elements(), [4; 3]);
    let words = problem.to_string();
    for part in ["e4m3 full attention", "V by rows", "scales by q kv_head, k kv_head, v kv_head", "O in bf16"] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn transposed_values_are_columns_of_whole_sixteens() {
    let problem = small().fp8(Fp8::quantized(96)).build().expect("fine");
    let v = problem.layouts()[2];
    assert_eq!(v.extents, [2, 128, 2, 1008]);
    assert_eq!(v.strides, Strides::new(2 * 128 * 1008, 1008, 128 * 1008));
    assert_eq!((v.reach(), problem.scale_elements()), (Some(2 * 2 * 128 * 1008), [2 * 8 * 5, 2 * 2 * 11, 2 * 2]));
    // A cache with room for more keys.
    let wide = small().fp8(Fp8::quantized(96)).v_strides([2 * 128 * 4096, 4096, 128 * 4096]).build().expect("fine");
    assert_eq!(wide.layouts()[2].strides.token, 4096);
    assert!(told(small().fp8(Fp8::quantized(96)).v_strides([2 * 128 * 1000, 1000, 128 * 1000])).contains("tensor v"));
    let keyless = small().keys(0).fp8(Fp8::quantized(96)).build().expect("fine");
    assert_eq!((keyless.layouts()[2].reach(), keyless.scale_elements()), (Some(0), [80, 0, 0]));
}

#[test]
fn scales_have_shapes_and_strides_of_their_own() {
    let of = |by: ScaleBy| {
        let fp8 = Fp8 { q: by.into(), k: ScaleBy::One.into(), ..Fp8::default() };
        small().fp8(fp8).build().expect("fine").scale_grids().expect("8 bits")[0]
    };
    let shapes = [ScaleBy::One, ScaleBy::Tensor, ScaleBy::KvHead, ScaleBy::Head, ScaleBy::Block(64)].map(of);
    let extents = shapes.map(|grid| grid.extents);
    assert_eq!(extents, [[1; 3], [1; 3], [2, 2, 1], [2, 8, 1], [2, 8, 5]]);
    let strides = shapes.map(|grid| grid.strides);
    assert_eq!(strides, [[0; 3], [0; 3], [2, 1, 0], [8, 1, 0], [40, 5, 1]]);
    // Expanded from one, and with gaps.
    let fp8 = Fp8 { q: strided(ScaleBy::KvHead, [0; 3]), v: strided(ScaleBy::Head, [100, 7, 3]), ..Fp8::default() };
    let problem = small().fp8(fp8).build().expect("fine");
    assert_eq!(problem.scale_elements(), [1, 4, 108]);
}

#[test]
fn scales_that_a_tensor_cannot_have_are_refused_by_its_name() {
    let q = |layout| Fp8 { q: layout, ..Fp8::default() };
    assert!(told(small().fp8(q(ScaleBy::Block(96).into()))).contains("q scales: block(96) is not there"));
    let v = Fp8 { v: ScaleBy::Block(64).into(), ..Fp8::default() };
    assert!(told(small().fp8(v)).contains("v scales: block(64) is not there"));
    let k = Fp8 { k: ScaleBy::Block(0).into(), ..Fp8::default() };
    assert!(told(small().fp8(k)).contains("k scales"));
    let far = told(small().fp8(q(strided(ScaleBy::Head, [1 << 32, 1, 1]))));
    assert!(far.contains("q scales: stride of batch"), "{far}");
    let long = told(small().fp8(q(strided(ScaleBy::Head, [u64::from(u32::MAX), 1, 1]))));
    assert!(long.contains("q scales: they reach over"), "{long}");
    assert!(told(small().element(Element::F16).fp8(Fp8::default())).contains("element type f16"));
    // 8 is a row of 8 bytes.
    assert!(told(small().head_dim(72)).contains("D = 72 is not a positive multiple of 16"));
}

#[test]
fn auto_is_accurate_from_long_rows_on() {
    let of = |accumulation: Accumulation| [1, Accumulation::LONG].map(|keys| accumulation.is_accurate(keys));
    assert_eq!(of(Accumulation::Fast), [false; 2]);
    assert_eq!(of(Accumulation::Accurate), [true; 2]);
    assert_eq!(of(Accumulation::Auto), [false, true]);
}
