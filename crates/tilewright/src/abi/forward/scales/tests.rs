//! Strides and addresses of scales by their parameters' names.

use super::*;
use crate::{Element, Fp8, ScaleLayout, ScaleStrides};

fn problem(fp8: Fp8) -> Problem {
    let builder = Problem::builder().element(Element::E4m3).batch(2).queries(300).keys(1000).heads(8).kv_heads(2);
    builder.head_dim(128).fp8(fp8).build().expect("fine")
}

fn named(problem: &Problem, name: &str) -> u32 {
    strides(problem).into_iter().find(|(known, _)| *known == name).expect("a stride").1
}

#[test]
fn strides_follow_from_what_shares_a_scale() {
    let blocks = problem(Fp8::quantized(96));
    let of = |problem: &Problem, names: &[&str]| names.iter().map(|name| named(problem, name)).collect::<Vec<_>>();
    assert_eq!(of(&blocks, STRIDES[0]), [40, 5, 0, 1]);
    assert_eq!(of(&blocks, STRIDES[1]), [22, 11, 1]);
    assert_eq!(of(&blocks, STRIDES[2]), [2, 1]);
    // FlashAttention-3's: query heads find their scale by their key head.
    let cache = problem(Fp8::default());
    assert_eq!(of(&cache, STRIDES[0]), [2, 0, 1, 0]);
    assert_eq!(of(&cache, STRIDES[1]), [2, 1, 0]);
    let heads = problem(Fp8 { q: ScaleBy::Head.into(), ..Fp8::default() });
    assert_eq!(of(&heads, STRIDES[0]), [8, 1, 0, 0]);
    let one = problem(Fp8 { q: ScaleBy::One.into(), k: ScaleBy::Tensor.into(), ..Fp8::default() });
    assert_eq!((of(&one, STRIDES[0]), of(&one, STRIDES[1])), (vec![0; 4], vec![0; 3]));
    let strides = Some(ScaleStrides { batch: 64, head: 3, block: 9 });
    let gaps = problem(Fp8 { k: ScaleLayout { by: ScaleBy::Head, strides }, ..Fp8::default() });
    assert_eq!(of(&gaps, STRIDES[1]), [64, 3, 0]);
}

#[test]
fn null_and_odd_addresses_are_told_by_tensor() {
    let at = ScaleAddresses { q: 0x10, k: 0x20, v: 0x30 };
    let blocks = problem(Fp8::quantized(96));
    let found = arguments(&blocks, &at, 0).expect("fine");
    assert_eq!(found.len(), 12);
    assert_eq!(
        found[..3],
        [("q_scales", 0x10), ("k_scales", 0x20), ("v_scales", 0x30)].map(|(n, a)| (n, Argument::U64(a)))
    );
    for (name, at) in [
        ("q scales", ScaleAddresses { q: 0, ..at }),
        ("k scales", ScaleAddresses { k: 0x22, ..at }),
        ("v scales", ScaleAddresses { v: 0, ..at }),
    ] {
        let told = arguments(&blocks, &at, 0).expect_err("odd").to_string();
        assert!(told.contains(&format!("tensor {name}: base address")), "{told}");
    }
    let one = Fp8 { q: ScaleBy::One.into(), k: ScaleBy::One.into(), v: ScaleBy::One.into(), ..Fp8::default() };
    let found = arguments(&problem(one), &ScaleAddresses::default(), 0x1230).expect("no scales");
    assert!(found[..3].iter().all(|(_, address)| *address == Argument::U64(0x1230)));
}

#[test]
fn without_keys_the_scales_of_k_and_v_are_memory_that_is_there() {
    let keyless = Problem::builder().element(Element::E4m3).batch(2).queries(3).keys(0).heads(4).kv_heads(2);
    let keyless = keyless.head_dim(64).build().expect("fine");
    let found = arguments(&keyless, &ScaleAddresses { q: 0x10, ..Default::default() }, 0).expect("fine");
    assert!(found[..3].iter().all(|(_, address)| *address == Argument::U64(0x10)));
    assert!(strides(&keyless).iter().all(|(name, stride)| name.starts_with('q') || *stride == 0));
}

#[test]
fn sixteen_bits_have_none() {
    let problem = Problem::builder().queries(3).heads(4).head_dim(64).build().expect("fine");
    assert_eq!(arguments(&problem, &ScaleAddresses::default(), 0), Ok(Vec::new()));
}
