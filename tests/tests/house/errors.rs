//! What users are told speaks their language: no Rust type leaks into a message.

use schedule::{HOPPER, Schedule, feasible, parse};

/// What would betray a type or a debug print.
const RUST: &[&str] =
    &["Option", "Some(", "None", "Ok(", "Err(", "Vec", "::", "&str", "u32", "u64", "usize", "{ ", "Field"];

fn speaks_plainly(message: &str) {
    // Quoted words are the user's own or the grammar's.
    let own: String = message.split('`').step_by(2).collect();
    let leak = RUST.iter().find(|word| own.contains(**word));
    assert!(leak.is_none(), "the message says {leak:?}: {message}");
    assert!(!message.trim().is_empty());
}

/// Every shipped schedule, and what becomes of each when one number is off.
fn spoiled() -> Vec<Schedule> {
    let spoil: [fn(&mut Schedule); 9] = [
        |s| s.head_dim.qk = 72,
        |s| s.head_dim.v = 0,
        |s| s.tile.rows = 100,
        |s| s.tile.columns = 120,
        |s| s.stages.kv = 9,
        |s| s.stages.q = 0,
        |s| s.roles.consumer.registers = 250,
        |s| s.roles.consumer.warpgroups = 40,
        |s| s.roles.producer.warps = 7,
    ];
    let spoiled = |s: &Schedule| {
        let mut s = s.clone();
        spoil.map(|change| {
            let mut one = s.clone();
            change(&mut one);
            change(&mut s);
            one
        })
    };
    templates::all().iter().flat_map(spoiled).collect()
}

#[test]
fn infeasible_schedules_are_refused_in_plain_words() {
    let mut messages = 0;
    for schedule in spoiled() {
        for finding in feasible::check(&schedule, &HOPPER) {
            speaks_plainly(&finding.message);
            messages += 1;
        }
    }
    assert!(messages > 0);
}

#[test]
fn unreadable_schedules_are_refused_in_plain_words() {
    let good = templates::all().first().expect("a schedule ships").to_string();
    let breaks = [
        ("pass: forward", "pass: sideways"),
        ("pass: forward", "pass: 3"),
        ("pass: forward", "pas: forward"),
        ("pass: forward,", ""),
        ("tile:", "tile: x"),
        ("q:", "z:"),
        ("warps(1)", "warps(\"one\")"),
        ("warps(1)", "warps(99999999999999999999)"),
        ("rescale: on_overflow", "rescale: above(none)"),
        ("{", "{ {"),
        ("}", ""),
    ];
    for (from, to) in breaks {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from} is no part of the text");
        let problems = parse::text(&text).expect_err(&text);
        problems.iter().for_each(|problem| speaks_plainly(&problem.message));
    }
}

#[test]
fn options_that_are_not_lowered_are_refused_in_plain_words() {
    let change: [fn(&mut Schedule); 4] = [
        |s| s.element = schedule::Element::E4m3,
        |s| s.row_sum = schedule::RowSum::TensorCore,
        |s| s.overlap.across_tiles = true,
        |s| s.probabilities = schedule::Probabilities::Shared,
    ];
    for schedule in templates::all() {
        for change in change {
            let mut changed = schedule.clone();
            change(&mut changed);
            if let Err(refused) = kernels::lower(&changed) {
                speaks_plainly(&refused.option);
                speaks_plainly(&refused.reason);
            }
        }
    }
}

#[test]
fn rules_of_the_verifier_are_told_in_plain_words() {
    for rule in check::RULES {
        speaks_plainly(rule.title);
        speaks_plainly(rule.why);
    }
}
