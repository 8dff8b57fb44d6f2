//! What is derived, and that it makes kernels.

use std::collections::HashSet;

use super::*;
use crate::{Entry, Registry};
use schedule::{Values, Variant};

fn derived() -> Vec<&'static Schedule> {
    Registry::shipped().derived().iter().map(|entry| entry.schedule()).collect()
}

#[test]
fn names_and_kernels_are_new_and_possible() {
    let (shipped, derived) = (templates::all(), derived());
    let names: HashSet<&str> = shipped.iter().chain(derived.iter().copied()).map(|s| s.name.as_str()).collect();
    assert_eq!(names.len(), shipped.len() + derived.len());
    for (at, schedule) in derived.iter().enumerate() {
        assert_eq!(feasible::check(schedule, &HOPPER), [], "{}", schedule.name);
        let others = shipped.iter().chain(derived[..at].iter().copied());
        assert!(others.clone().all(|other| !other.is_kernel_of(schedule)), "{}", schedule.name);
    }
}

#[test]
fn accurate_sums_are_there_up_to_head_dimension_128_for_both_orders_of_v() {
    let all: Vec<Schedule> = templates::all().into_iter().chain(derived().into_iter().cloned()).collect();
    for element in [Element::E4m3, Element::E5m2] {
        for output in [Output::Bf16, Output::F16] {
            for (dim, values) in
                [64, 96, 128, 192, 256].into_iter().flat_map(|dim| Values::ALL.iter().map(move |v| (dim, *v)))
            {
                for variant in [Variant::Full, Variant::Causal] {
                    let is = |accurate: bool| {
                        all.iter().any(|s| {
                            let same = (s.element, s.head_dim.qk, s.variant) == (element, dim, variant);
                            same && s.fp8.is_some_and(|fp8| {
                                (fp8.output, fp8.values) == (output, values)
                                    && (fp8.accumulate != Accumulate::TensorCore) == accurate
                            })
                        })
                    };
                    let what = format!("{element} {output} d{dim} {values} {variant}");
                    assert_eq!((is(false), is(true)), (true, dim <= 128), "{what}");
                }
            }
        }
    }
}

#[test]
fn derived_schedules_are_lowered_and_proven() {
    for name in [
        "fwd_e4m3_d128_causal_f16_out",
        "fwd_rows_e4m3_d64_f16_out",
        "fwd_long_e4m3_d96",
        "fwd_long_rows_e4m3_d64_causal",
        "fwd_long_rows_e4m3_d128",
        "fwd_rows_e5m2_d256_causal",
        "fwd_long_e5m2_d96_causal_f16_out",
    ] {
        let entry = Registry::shipped().named(name).unwrap_or_else(|| panic!("{name} is derived"));
        assert!(entry.lowered().is_ok(), "{name}: {:?}", entry.refusal());
    }
}

#[test]
fn nothing_follows_from_sixteen_bits_or_from_what_approximates() {
    let sixteen = templates::named("fwd_bf16_d128").expect("it ships");
    let linear = templates::named("fwd_linear_e4m3_d128").expect("it ships");
    assert_eq!(from(&[&sixteen, &linear]), []);
    let one = templates::named("fwd_e4m3_d256").expect("it ships");
    let names: Vec<String> = from(&[&one]).into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["fwd_e5m2_d256", "fwd_e4m3_d256_f16_out", "fwd_e5m2_d256_f16_out"]);
    assert!(Entry::new(from(&[&one]).remove(0)).lowered().is_ok());
}
