//! The parts of tuning that need no GPU.

use std::collections::HashSet;

use schedule::{Element, HOPPER, HeadDim, Schedule, Variant, feasible};

use super::*;
use crate::policy::Tuning;
use crate::{Problem, Registry};

const CLASS: Class = Class { element: Element::Bf16, head_dim: HeadDim { qk: 128, v: 128 }, variant: Variant::Causal };

fn shipped() -> Vec<&'static Schedule> {
    Registry::shipped().entries().iter().map(|entry| entry.schedule()).collect()
}

fn paper(dims: &[u32], masks: &[bool]) -> Vec<Problem> {
    grid(Element::Bf16, dims, masks, &[512, 1024, 2048, 4096], (16384, 2048)).expect("fine")
}

fn figure(problem: Problem, schedule: &str, shipped: bool, tflops: f64) -> Measured {
    Measured { problem, schedule: schedule.into(), shipped, tflops }
}

#[test]
fn candidates_fit_and_have_names_of_their_own() {
    for (dim, variant) in [(64, Variant::Full), (128, Variant::Causal), (256, Variant::Full)] {
        let all = candidates(Class { head_dim: HeadDim::same(dim), variant, ..CLASS });
        let names: HashSet<&str> = all.iter().map(|schedule| schedule.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.len() > 50, "{dim}: {}", all.len());
        assert!(all.iter().all(|schedule| feasible::check(schedule, &HOPPER).is_empty()));
    }
    let names: Vec<String> = candidates(CLASS).into_iter().map(|schedule| schedule.name).collect();
    for name in ["fwd_bf16_d128_causal_128x176_q1_kv2_wp_dynamic", "fwd_bf16_d128_causal_128x128_q2_kv2_wpa_dynamic"] {
        assert!(names.iter().any(|found| found == name), "{name}");
    }
}

#[test]
fn pruning_keeps_the_promising_and_the_shipped_each_once() {
    let problem = paper(&[128], &[true])[2];
    let kept = prune(&shipped(), &candidates(CLASS), &problem, 132, 10);
    let shipped: Vec<&Candidate> = kept.iter().filter(|candidate| candidate.shipped).collect();
    assert_eq!(kept.len(), shipped.len() + 10);
    assert!(shipped.iter().any(|candidate| candidate.schedule.name == "fwd_bf16_d128_causal"));
    assert!(kept.is_sorted_by(|a, b| a.prediction.seconds <= b.prediction.seconds));
    let bodies: HashSet<Schedule> = kept
        .iter()
        .map(|candidate| Schedule { name: String::new(), doc: String::new(), ..candidate.schedule.clone() })
        .collect();
    assert_eq!(bodies.len(), kept.len(), "none is there twice");
    let tiles: HashSet<_> = kept.iter().map(|candidate| candidate.schedule.tile).collect();
    assert!(tiles.len() > 2, "{tiles:?}");
}

#[test]
fn what_is_around_a_schedule_differs_in_one_choice() {
    let all = candidates(CLASS);
    let mut centre = templates::named("fwd_bf16_d128_causal").expect("ships");
    centre.overlap.across_tiles = false;
    let near: Vec<Schedule> = around(&centre, &all);
    let has = |part: &str| near.iter().any(|schedule| schedule.name.contains(part));
    for part in ["_128x112_q2_kv2_wp_", "_128x128_q1_kv2_wp_", "_128x128_q2_kv2_wpa_", "_128x128_q2_kv2_wp_above_"] {
        assert!(has(part), "{part}");
    }
    assert!(!has("_128x96_") && !has("_192x") && near.len() < 10, "{}", near.len());
}

#[test]
fn a_grid_shares_out_all_lengths() {
    let problems = paper(&[128], &[true]);
    let names = ["fwd_held_bf16_d128_causal", "fwd_bf16_d128_causal"];
    let figures: Vec<Measured> = problems
        .iter()
        .enumerate()
        .flat_map(|(at, &problem)| {
            let across = if at < 2 { 500.0 } else { 300.0 };
            [figure(problem, names[0], true, across), figure(problem, names[1], true, 400.0)]
        })
        .collect();
    let tuning = decide(&figures, "a GPU", 132);
    let found: Vec<_> = tuning
        .preferences()
        .iter()
        .map(|p| (p.schedule.as_str(), p.keys.from, p.keys.to, p.tiles_per_sm.from))
        .collect();
    let one = Some(1.0);
    assert_eq!(
        found,
        [
            (names[0], None, Some(724), one),
            (names[0], Some(725), Some(1448), one),
            (names[1], Some(1449), Some(2896), one),
            (names[1], Some(2897), None, one)
        ]
    );
    let read = Tuning::parse(&tuning.to_string()).expect("reads back");
    assert_eq!((read.check(shipped().into_iter()), &read), (Ok(()), &tuning));
}

#[test]
fn a_shape_of_ones_own_counts_near_itself() {
    let problem = described("batch=4 queries=2048 heads=32 kv_heads=8 head_dim=128 causal=true").expect("reads");
    let tuning = decide(&[figure(problem, "mine", false, 500.0)], "a GPU", 132);
    let fits = |text: &str| tuning.fitting(&described(text).expect("reads"), 132).count() == 1;
    assert!(fits("batch=4 queries=2048 heads=32 kv_heads=8 head_dim=128 causal=true"));
    assert!(fits("batch=4 queries=2500 heads=32 kv_heads=8 head_dim=128 causal=true"));
    for other in [
        "batch=4 queries=4096 heads=32 kv_heads=8 head_dim=128 causal=true",
        "batch=4 queries=1 keys=2048 heads=32 kv_heads=8 head_dim=128 causal=true",
        "batch=1 queries=2048 heads=8 head_dim=128 causal=true",
        "batch=4 queries=2048 heads=32 kv_heads=8 head_dim=128",
    ] {
        assert!(!fits(other), "{other}");
    }
}

#[test]
fn what_is_shipped_wins_unless_another_is_clearly_faster() {
    let problem = paper(&[64], &[false])[0];
    let of = |other: f64| {
        let figures = [figure(problem, "fwd_bf16_d64", true, 500.0), figure(problem, "found", false, other)];
        decide(&figures, "a GPU", 132).preferences()[0].schedule.clone()
    };
    assert_eq!((of(504.0), of(510.0)), ("fwd_bf16_d64".into(), "found".into()));
    assert_eq!(decide(&[], "a GPU", 132).preferences(), []);
}

#[test]
fn found_schedules_are_written_as_a_file_for_templates() {
    let all = candidates(CLASS);
    let text = source(&[&all[0], &all[1]]);
    assert!(text.starts_with("//! ") && text.ends_with("}\n"));
    assert_eq!(text.matches("    pass: forward,").count(), 2);
    assert!(text.contains(&format!("\n    {} {{\n", all[1].name)));
}

#[test]
fn words_that_make_no_problem_are_refused() {
    for (text, part) in [
        ("queries=2048 heads=32", "head_dim must be said"),
        ("queries=2048 head_dim=128", "heads must be said"),
        ("queries=2048 heads=2 head_dim=100", "multiple of 8"),
        ("queries=2048 heads=2 head_dim=128 element=e4m3", "bf16 or f16"),
    ] {
        let told = described(text).expect_err(text).to_string();
        assert!(told.contains(part), "`{part}` in {told}");
    }
}
