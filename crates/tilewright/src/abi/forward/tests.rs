//! The parameter contract against every lowered kernel.

use std::num::NonZeroU32;

use super::*;
use crate::{Element, Fp8, ProblemBuilder, Registry, Strides};
use ptx::{Swizzle, TensorElement, TensorMap};
use schedule::Schedule;

fn small() -> ProblemBuilder {
    Problem::builder().batch(2).queries(300).keys(1000).heads(8).kv_heads(2).head_dim(128)
}

fn schedule(order: Order) -> Schedule {
    let entries = Registry::shipped().entries();
    let mut found = entries.iter().map(|entry| entry.schedule()).find(|s| s.head_dim.qk == 128).expect("d128").clone();
    found.grid.order = order;
    found
}

const AT: Addresses = Addresses { q: 0x1000, k: 0x2000, v: 0x3000, o: 0x4000, lse: 0x5000 };

#[test]
fn every_shipped_kernel_keeps_the_contract() {
    for entry in Registry::shipped().entries() {
        match entry.lowered() {
            Ok(lowered) => assert_eq!(check(lowered.kernel()), Ok(()), "{}", entry.schedule().name),
            Err(why) => assert!(!why.to_string().contains("launched with"), "{why}"),
        }
    }
}

#[test]
fn a_kernel_outside_of_the_contract_is_told_by_parameter() {
    let lowered = Registry::shipped().entries()[0].lowered().expect("lowers");
    let with = |change: &dyn Fn(&mut Vec<Param>)| {
        let mut kernel = lowered.kernel().clone();
        change(&mut kernel.params);
        check(&kernel).expect_err("outside")
    };
    assert!(with(&|params| params.retain(|p| p.name != "lse")).contains("no parameter `lse`"));
    assert!(with(&|params| params.push(Param { name: "window".into(), kind: ParamKind::U32 })).contains("`window`"));
    assert!(with(&|params| params.iter_mut().for_each(|p| p.kind = ParamKind::U64)).contains("`q` has another type"));
    let flat = TensorMap { element: TensorElement::Bf16, box_dims: vec![64, 64], swizzle: Swizzle::B128 };
    assert!(with(&|params| params[0].kind = ParamKind::Tensor(flat.clone())).contains("4 dimensions"));
}

#[test]
fn numbers_follow_from_problem_and_tile() {
    let mut schedule = schedule(Order::HeadMajor);
    schedule.tile.rows = 128;
    let found = scalars(&small().build().expect("fine"), &schedule).expect("within limits");
    let Scalars { queries, keys, heads, group, heads_total, query_tiles, tiles, section, .. } = found;
    assert_eq!((queries, keys, heads, group, heads_total), (300, 1000, 8, 4, 16));
    assert_eq!((query_tiles, tiles, section), (3, 48, 1));
    assert_eq!((grid(&found, 132), grid(&found, 16)), ([48, 1, 1], [16, 1, 1]));
}

#[test]
fn a_section_is_the_heads_that_fill_the_l2_share() {
    let of = |keys: u64, mib: u64, most: u32| {
        let problem = small().keys(keys).build().expect("fine");
        scalars(&problem, &schedule(Order::LongestFirst { l2_bytes: mib << 20, heads: NonZeroU32::new(most) }))
            .expect("fine")
            .section
    };
    // K and V of a key head of 16384 keys take 8 MiB, those of a query head a quarter of it.
    assert_eq!((of(16_384, 32, 0), of(16_384, 8, 0), of(16_384, 4, 0), of(16_384, 2, 0)), (16, 4, 2, 1));
    assert_eq!((of(1 << 22, 32, 0), of(1000, 32, 0), of(0, 32, 0)), (1, 16, 16));
    // And no more than the schedule says.
    assert_eq!((of(16_384, 32, 6), of(16_384, 8, 6), of(1000, 32, 32), of(1 << 22, 32, 6)), (6, 4, 16, 1));
}

#[test]
fn scales_are_in_base_two() {
    let of = |scale: f64| {
        let found = scalars(&small().scale(scale).build().expect("fine"), &schedule(Order::HeadMajor)).expect("fine");
        (found.scale_log2, found.scale_pow2)
    };
    let log2e = std::f64::consts::LOG2_E;
    assert_eq!(of(0.125), ((0.125 * log2e) as f32, 0.25));
    assert_eq!(of(128_f64.sqrt().recip()), ((128_f64.sqrt().recip() * log2e) as f32, 0.125));
    assert_eq!(of(1.0), (log2e as f32, 2.0));
    for exponent in [-100, 100] {
        let (scale, pow2) = of(2_f64.powi(exponent));
        assert!(scale.is_normal() && pow2.is_normal() && (0.7..1.5).contains(&(scale / pow2)), "{scale} {pow2}");
    }
}

#[test]
fn limits_are_refused_before_anything_is_encoded() {
    let many = Problem::builder().batch(1 << 16).queries(1).heads(1 << 16).head_dim(128).build().expect("builds");
    let told = scalars(&many, &schedule(Order::HeadMajor)).expect_err("2^32 heads").to_string();
    assert!(told.contains("4294967296 heads in all batches") && told.contains("2^31 - 1"), "{told}");
    let tall = Problem::builder().batch(1 << 20).queries(1 << 19).heads(1 << 9).head_dim(128).build().expect("builds");
    let told = scalars(&tall, &schedule(Order::HeadMajor)).expect_err("2^41 tiles").to_string();
    assert!(told.contains("query tiles in all heads"), "{told}");
    // Far above the 65535 blocks of the y and z dimensions, and fine.
    for problem in [small().batch(65_537).queries(1).heads(1).kv_heads(1), small().queries(64 * 65_535 + 1)] {
        assert!(scalars(&problem.build().expect("fine"), &schedule(Order::HeadMajor)).is_ok());
    }
}

#[test]
fn tensors_are_innermost_first_in_bytes_and_pass_the_engines_rules() {
    let heads_first = Strides::heads_first(1000, 2, 128);
    let problem = small().k_strides(heads_first).build().expect("fine");
    let [q, k, v, o] = tensors(&problem, &AT);
    assert_eq!(q, ("q", 0x1000, [128, 300, 8, 2], [2048, 256, 300 * 2048]));
    assert_eq!(k, ("k", 0x2000, [128, 1000, 2, 2], [256, 256_000, 512_000]));
    assert_eq!(v, ("v", 0x3000, [128, 1000, 2, 2], [512, 256, 512_000]));
    assert_eq!(o, ("o", 0x4000, [128, 300, 8, 2], [2048, 256, 300 * 2048]));
    let spec = TensorMap { element: TensorElement::Bf16, box_dims: vec![64, 128, 1, 1], swizzle: Swizzle::B128 };
    for (name, address, dims, strides) in [q, k, v, o] {
        assert!(runtime::check_tensor(name, &spec, address, &dims, &strides).is_ok());
        for offset in [2, 8] {
            let told =
                runtime::check_tensor(name, &spec, address + offset, &dims, &strides).expect_err("odd").to_string();
            assert!(told.contains(&format!("tensor {name}")) && told.contains("16 bytes"), "{told}");
        }
    }
}

#[test]
fn without_keys_the_maps_are_of_memory_that_is_there() {
    let problem = small().keys(0).build().expect("fine");
    let [_, k, v, _] = tensors(&problem, &Addresses { k: 0, v: 0, ..AT });
    assert_eq!((k, v), (("k", 0x1000, [128, 1, 1, 1], [0; 3]), ("v", 0x1000, [128, 1, 1, 1], [0; 3])));
    let transposed = small().element(Element::E4m3).fp8(Fp8::quantized(96)).keys(0).build().expect("fine");
    let [_, k, v, _] = tensors(&transposed, &Addresses { k: 0, v: 0, ..AT });
    assert_eq!((k, v), (("k", 0x1000, [128, 1, 1, 1], [0; 3]), ("v", 0x1000, [1; 4], [0; 3])));
}

#[test]
fn an_odd_or_missing_lse_is_refused() {
    let problem = small().build().expect("fine");
    let scalars = scalars(&problem, &schedule(Order::HeadMajor)).expect("fine");
    for lse in [0, 0x5002] {
        let told = arguments(&[], &problem, &scalars, &Addresses { lse, ..AT }, &ScaleAddresses::default(), 0)
            .expect_err("odd")
            .to_string();
        assert!(told.contains("tensor lse"), "{told}");
    }
}
