//! What is refused of buffers before anything is launched.

use super::*;
use crate::{E4m3, E5m2, Element, Fp8, Values};
use half::{bf16, f16};

fn problem(fp8: Fp8) -> Problem {
    let builder = Problem::builder().element(Element::E4m3).batch(2).queries(3).keys(5).heads(4).kv_heads(2);
    builder.head_dim(64).fp8(fp8).build().expect("fine")
}

#[test]
fn scales_of_another_shape_are_told_by_tensor() {
    let layout = Fp8 { q: ScaleBy::Block(64).into(), v: ScaleBy::One.into(), ..Fp8::default() };
    let [q, k, v] = problem(layout).scale_grids().expect("8 bits");
    let right = [(q, Some(8)), (k, Some(4)), (v, None)];
    assert!(right.iter().all(|(grid, found)| check_scales(grid, *found) == Ok(())));
    let told = |grid: &ScaleGrid, found| check_scales(grid, found).expect_err("refused").to_string();
    assert!(told(&q, Some(7)).contains("tensor q scales: needs 8 elements"));
    // One batch too many: [B + 1, Hk].
    assert!(told(&k, Some(6)).contains("k scales: by kv_head they are [2, 2, 1] without gaps, 4 in all"));
    assert!(told(&k, None).contains("k scales: the problem has them by kv_head"));
    assert!(told(&v, Some(4)).contains("v scales: the problem has none"));
    // With strides, a buffer may be longer.
    let strides = Some(crate::ScaleStrides { batch: 0, head: 1, block: 0 });
    let expanded = Fp8 { k: crate::ScaleLayout { by: ScaleBy::Head, strides }, ..Fp8::default() };
    let grid = problem(expanded).scale_grids().expect("8 bits")[1];
    assert_eq!((check_scales(&grid, Some(2)), check_scales(&grid, Some(9))), (Ok(()), Ok(())));
    assert!(check_scales(&grid, Some(1)).is_err());
}

#[test]
fn buffers_of_another_type_are_refused() {
    let eight = problem(Fp8 { values: Values::Transposed, ..Fp8::default() });
    assert_eq!(check_elements::<E4m3, bf16>(&eight), Ok(()));
    assert_eq!(check_elements::<u8, bf16>(&eight), Ok(()));
    assert!(matches!(check_elements::<E5m2, bf16>(&eight), Err(Error::Element { .. })));
    assert!(matches!(check_elements::<E4m3, f16>(&eight), Err(Error::Element { .. })));
    let sixteen = Problem::builder().queries(3).heads(4).head_dim(64).build().expect("fine");
    assert!(matches!(check_elements::<u8, bf16>(&sixteen), Err(Error::Element { .. })));
}
