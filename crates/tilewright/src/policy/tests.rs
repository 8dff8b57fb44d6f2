//! What may run, and what is preferred.

use super::*;
use crate::ProblemBuilder;
use schedule::{Element, Variant};

fn small() -> ProblemBuilder {
    Problem::builder().batch(2).queries(1024).heads(16).kv_heads(4).head_dim(128)
}

fn chosen(builder: ProblemBuilder) -> Arc<Entry> {
    choose(Registry::shipped(), &builder.build().expect("fine"), USUAL_SMS).expect("supported")
}

#[test]
fn the_choice_has_the_problems_element_head_dimension_and_mask() {
    for element in [Element::Bf16, Element::F16] {
        for dim in [64, 128, 256] {
            for causal in [false, true] {
                let entry = chosen(small().element(element).head_dim(dim).causal(causal));
                let schedule = entry.schedule();
                let variant = if causal { Variant::Causal } else { Variant::Full };
                assert_eq!((schedule.element, schedule.head_dim.qk, schedule.variant), (element, dim, variant));
            }
        }
    }
}

#[test]
fn one_causal_query_needs_no_mask_and_a_mask_never_serves_a_full_problem() {
    let single = small().queries(1).keys(4096).causal(true).build().expect("fine");
    let full = small().build().expect("fine");
    for entry in Registry::shipped().entries().iter().filter(|entry| entry.schedule().head_dim.qk == 128) {
        let schedule = entry.schedule();
        if schedule.element == Element::Bf16 && schedule.head_dim.v == 128 {
            assert_eq!(eligible(schedule, &single), Ok(()), "{}", schedule.name);
            assert_eq!(eligible(schedule, &full).is_ok(), schedule.variant == Variant::Full, "{}", schedule.name);
        }
    }
}

#[test]
fn an_unsupported_head_dimension_lists_the_supported() {
    let problem = small().head_dim(40).build().expect("builds");
    let told = choose(Registry::shipped(), &problem, USUAL_SMS).expect_err("no such kernel").to_string();
    assert!(told.contains("head dimension 40 of bf16") && told.contains("64, ") && told.contains("128"), "{told}");
}

#[test]
fn nothing_eligible_brings_every_reason() {
    let causal: Vec<_> = templates::all().into_iter().filter(|s| s.variant == Variant::Causal).collect();
    let registry = Registry::new(causal);
    let told = choose(&registry, &small().build().expect("fine"), USUAL_SMS).expect_err("no full kernel").to_string();
    assert!(told.contains("bf16 full attention") && told.contains("has the causal mask"), "{told}");
    assert_eq!(told.lines().count(), 1 + registry.entries().len(), "{told}");
}

#[test]
fn a_schedule_that_does_not_lower_is_passed_over() {
    let first = chosen(small()).schedule().clone();
    let mut broken = first.clone();
    broken.name = "fwd_broken".into();
    broken.tile.columns = 12;
    let registry = Registry::new(vec![broken.clone(), first.clone()]);
    let problem = small().build().expect("fine");
    assert_eq!(choose(&registry, &problem, USUAL_SMS).expect("the other").schedule(), &first);
    let alone = choose(&Registry::new(vec![broken]), &problem, USUAL_SMS).expect_err("none").to_string();
    assert!(alone.contains("fwd_broken makes no kernel"), "{alone}");
}

#[test]
fn the_registrys_order_holds_unless_a_schedule_is_clearly_faster() {
    let mut plain = chosen(small()).schedule().clone();
    plain.name = "fwd_plain".into();
    plain.overlap.across_tiles = false;
    let mut same = plain.clone();
    same.name = "fwd_same".into();
    let problem = small().build().expect("fine");
    let registry = Registry::new(vec![same.clone(), plain.clone()]);
    assert_eq!(choose(&registry, &problem, USUAL_SMS).expect("fine").schedule(), &same);
    // Without overlap, softmax and products take their turns.
    let mut slow = plain.clone();
    slow.name = "fwd_slow".into();
    slow.overlap = schedule::Overlap::default();
    let registry = Registry::new(vec![slow, plain.clone()]);
    assert_eq!(choose(&registry, &problem, USUAL_SMS).expect("fine").schedule(), &plain);
}

#[test]
fn estimates_count_the_busiest_sm_and_the_visible_keys() {
    let schedule = chosen(small()).schedule().clone();
    let of = |builder: ProblemBuilder, sms| estimate(&schedule, &builder.build().expect("fine"), sms);
    let tiles = 1024_u64.div_ceil(u64::from(schedule.tile.rows)) * 32;
    let full = of(small(), 132);
    assert_eq!(full.tiles_per_sm, tiles.div_ceil(132));
    assert_eq!(full.steps, 1024_f64 / f64::from(schedule.tile.columns));
    assert_eq!(of(small(), 1).tiles_per_sm, tiles);
    let masked = chosen(small().causal(true)).schedule().clone();
    let causal = estimate(&masked, &small().queries(8192).causal(true).build().expect("fine"), 132);
    // In keys: the two may have steps of another length.
    let keys = |steps: f64, schedule: &schedule::Schedule| steps * f64::from(schedule.tile.columns);
    let share = keys(causal.steps, &masked) / keys(of(small().queries(8192), 132).steps, &schedule);
    assert!((0.45..0.6).contains(&share), "{share}");
    assert_eq!(of(small().keys(0), 132).steps, 0.0);
}

#[test]
fn explanations_tell_what_was_taken_and_what_was_not() {
    let problem = small().causal(true).build().expect("fine");
    let chosen = choose(Registry::shipped(), &problem, USUAL_SMS).expect("fine");
    let told = Explanation {
        registry: Registry::shipped(),
        problem: &problem,
        chosen: &chosen,
        sms: USUAL_SMS,
        given: false,
        report: None,
    }
    .to_string();
    for part in ["bf16 causal attention of q [2, 1024, 16, 128]", &chosen.schedule().name, "tuned: bf16 causal"] {
        assert!(told.contains(part), "`{part}` in:\n{told}");
    }
    for part in ["KiB of shared memory", "registers: producer", "has no mask", "takes f16", "has head dimension 64"] {
        assert!(told.contains(part), "`{part}` in:\n{told}");
    }
    assert_eq!(told.matches("\nnot ").count(), Registry::shipped().entries().len() - 1);
    for leak in ["Some(", "Error", "::", "HeadDim"] {
        assert!(!told.contains(leak), "`{leak}` in:\n{told}");
    }
}

#[test]
fn a_measurement_goes_before_the_estimate_where_there_is_enough_work() {
    let name = |builder: ProblemBuilder| chosen(builder).schedule().name.clone();
    let of = |batch, queries| small().batch(batch).queries(queries).heads(32).kv_heads(32).head_dim(64).causal(true);
    assert_eq!(name(of(16, 1024)), "fwd_across_bf16_d64_causal");
    assert_eq!(name(of(4, 4096)), "fwd_bf16_d64_causal");
    // Fewer tiles than SMs.
    let little = of(1, 512).heads(2).kv_heads(2).build().expect("fine");
    assert!(measured(Registry::shipped(), &little, USUAL_SMS).is_none());
}

#[test]
fn a_preference_for_what_cannot_run_is_passed_over() {
    let plain = chosen(small()).schedule().clone();
    let (mut broken, mut other) = (plain.clone(), plain.clone());
    broken.name = "fwd_broken".into();
    broken.tile.columns = 12;
    other.name = "fwd_other".into();
    let entry = |name| format!("[[prefer]]\nschedule = '{name}'\nelement = 'bf16'\nhead_dim = 128\nvariant = 'full'\n");
    let registry = Registry::new(vec![plain, broken, other.clone()]);
    let registry = registry.with_tuning(&(entry("fwd_broken") + &entry("fwd_other"))).expect("reads");
    let problem = small().build().expect("fine");
    assert_eq!(choose(&registry, &problem, USUAL_SMS).expect("the third").schedule(), &other);
}
