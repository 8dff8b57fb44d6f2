//! The `schedule!` macro from outside: what it refuses to compile and in which words, that text is a schedule's other
//! form, and that text read at run time meets the same rules.

use proptest::prelude::*;
use schedule::*;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// The programs that must not compile.
const COMPILE_FAIL: &str = "compile_fail";

fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(COMPILE_FAIL);
    let entries = fs::read_dir(folder).expect("the folder of programs that must not compile");
    let paths = entries.map(|entry| entry.expect("an entry of that folder").path());
    let mut programs: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|ext| ext == "rs")).collect();
    programs.sort();
    programs
}

#[test]
fn bad_schedules_do_not_compile() {
    trybuild::TestCases::new().compile_fail(format!("{COMPILE_FAIL}/*.rs"));
}

#[test]
fn text_read_at_run_time_gives_the_same_errors_at_the_same_places() {
    assert!(!programs().is_empty());
    for program in programs() {
        let source = fs::read_to_string(&program).expect("a program");
        let expected = fs::read_to_string(program.with_extension("stderr")).expect("its errors");
        let problems = schedule::parse::file(&source).expect_err("it has problems");
        let mut errors: Vec<String> = expected
            .split("\n\n")
            .filter_map(|error| {
                let message = error.lines().next()?.strip_prefix("error: ")?;
                let place = error.lines().find_map(|line| line.trim_start().strip_prefix("--> "))?;
                let (_, place) = place.split_once(".rs:")?;
                Some(format!("{place}: {message}"))
            })
            .collect();
        let mut texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        errors.sort();
        texts.sort();
        assert_eq!(texts, errors, "{}", program.display());
    }
}

/// The data types under another path than `::schedule`.
mod elsewhere {
    pub mod inner {
        pub use ::schedule as data;
    }

    schedule_macros::schedule! {
        crate = self::inner::data;

        fwd_f16_d64 {
            pass: forward,
            element: f16,
            head_dim: 64,
            tile: 128 x 128,
            stages: { q: 1, kv: 2 },
            roles: { producer: warps(1) registers(24), consumer: warpgroups(2) registers(240) },
        }
    }
}

#[test]
fn the_macro_takes_the_path_of_the_data_types() {
    assert_eq!(elsewhere::all(), [elsewhere::fwd_f16_d64()]);
    assert_eq!(elsewhere::fwd_f16_d64().element, Element::F16);
}

#[test]
fn every_shipped_schedule_has_a_hash_of_its_own() {
    let mut hashes: Vec<u64> = templates::all().iter().map(Schedule::hash).collect();
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
}

prop_compose! {
    /// What the consumers are and hold: warpgroups with the producer's and their own registers.
    fn roles()(index in 0..6_usize) -> Roles {
        const SHARES: [(u32, u32, u32, u32); 6] =
            [(1, 1, 56, 256), (1, 1, 24, 240), (1, 2, 24, 240), (4, 2, 40, 232), (1, 3, 32, 160), (4, 3, 32, 160)];
        let (warps, warpgroups, producer, consumer) = SHARES[index];
        Roles {
            producer: Producer { warps, registers: producer },
            consumer: Consumer { warpgroups, registers: consumer },
        }
    }
}

prop_compose! {
    fn head_dim()(index in 0..5_usize, qk in 1..=16_u32, v in 1..=16_u32, pair: bool) -> HeadDim {
        if pair && qk != v {
            HeadDim { qk: 16 * qk, v: 16 * v }
        } else {
            HeadDim::same([64, 96, 128, 192, 256][index])
        }
    }
}

fn doc() -> impl Strategy<Value = String> {
    proptest::collection::vec("[ -~äµ→]{0,40}", 0..4).prop_map(|lines| lines.join("\n"))
}

fn rescale() -> impl Strategy<Value = Rescale> {
    let thresholds = prop_oneof![Just(8.0), 1e-3..8.0_f32, any::<f32>()];
    prop_oneof![
        Just(Rescale::Always),
        Just(Rescale::OnOverflow),
        thresholds.prop_map(|number| Threshold::new(number).map_or(Rescale::Always, Rescale::Above)),
    ]
}

fn grid() -> impl Strategy<Value = Grid> {
    let order = prop_oneof![
        Just(Order::HeadMajor),
        (1..=100_000_u64).prop_map(|kib| Order::LongestFirst { l2_bytes: kib << 10, heads: None }),
        (1..=64_u64, any::<u32>())
            .prop_map(|(mib, heads)| Order::LongestFirst { l2_bytes: mib << 20, heads: NonZeroU32::new(heads) }),
    ];
    (any::<bool>(), order).prop_map(|(dynamic, order)| Grid {
        scheduler: if dynamic { Scheduler::Dynamic } else { Scheduler::Static },
        order,
    })
}

prop_compose! {
    /// What 8-bit elements have.
    fn fp8()(
        (output, scales, values) in (0..2_usize, 0..2_usize, 0..2_usize),
        (tiles, quarters) in (0..4_u32, 0..6_u32),
    ) -> Fp8 {
        Fp8 {
            output: Output::ALL[output],
            scales: Scales::ALL[scales],
            values: Values::ALL[values],
            accumulate: tiles.checked_sub(1).map_or(Accumulate::TensorCore, Accumulate::Every),
            exponential: quarters.checked_sub(1).map_or(Exponential::Unit, Exponential::Linear),
        }
    }
}

prop_compose! {
    /// Schedules most of which are feasible.
    fn schedules()(
        name in "[a-z]{3}_[a-z0-9_]{1,20}",
        doc in doc(),
        (element, variant, queries, probabilities, row_sum) in
            (0..Element::ALL.len(), 0..2_usize, 0..2_usize, 0..2_usize, 0..2_usize),
        head_dim in head_dim(),
        columns in 1..=6_u32,
        (q, kv) in (1..=2_u32, 2..=4_u32),
        roles in roles(),
        (within_warpgroup, pingpong, across_tiles) in any::<(bool, bool, bool)>(),
        rescale in rescale(),
        (fp8, split, grid) in (fp8(), 0..2_usize, grid()),
    ) -> Schedule {
        Schedule {
            name,
            doc,
            pass: Pass::Forward,
            element: Element::ALL[element],
            variant: Variant::ALL[variant],
            head_dim,
            tile: Tile { rows: 64 * roles.consumer.warpgroups, columns: 32 * columns },
            stages: Stages { q, kv },
            roles,
            overlap: Overlap { within_warpgroup, pingpong, across_tiles },
            probabilities: Probabilities::ALL[probabilities],
            rescale,
            queries: Queries::ALL[queries],
            row_sum: RowSum::ALL[row_sum],
            fp8: Element::ALL[element].is_fp8().then_some(fp8),
            split: Split::ALL[split],
            grid,
        }
    }
}

/// Words of the grammar, so that soups of them get past its first rule.
fn soup() -> impl Strategy<Value = String> {
    const WORDS: [&str; 36] = [
        "fwd",
        "for",
        "in",
        "match",
        "pass",
        "forward",
        "element",
        "bf16",
        "head_dim",
        "variant",
        "full",
        "tile",
        "128",
        "x",
        "stages",
        "q",
        "kv",
        "roles",
        "overlap",
        "grid",
        "persistent",
        "static",
        "l2",
        "MiB",
        "8.0",
        "_",
        ":",
        ",",
        "=>",
        "|",
        "#",
        "()",
        "{ }",
        "[ ]",
        "{ q: 2, kv: 2 }",
        "[64, 128]",
    ];
    proptest::collection::vec((0..WORDS.len(), 0..8_u8), 0..40).prop_map(|picks| {
        picks.into_iter().fold(String::new(), |text, (word, shape)| match shape {
            0 => format!("{{ {text} }} {}", WORDS[word]),
            1 => format!("({text}) {}", WORDS[word]),
            2 => format!("fwd for head_dim in [64, 128] {{ {text} {}", WORDS[word]) + " }",
            _ => format!("{text} {}", WORDS[word]),
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn a_feasible_schedule_prints_as_text_that_reads_back(schedule in schedules()) {
        prop_assume!(feasible::check(&schedule, &HOPPER).is_empty());
        prop_assert_eq!(schedule::parse::text(&schedule.to_string()), Ok(vec![schedule]));
    }

    #[test]
    fn an_infeasible_schedule_is_refused_in_the_words_of_its_findings(schedule in schedules()) {
        let findings = feasible::check(&schedule, &HOPPER);
        prop_assume!(!findings.is_empty());
        let mut expected: Vec<String> = findings.into_iter().map(|finding| finding.message).collect();
        let problems = schedule::parse::text(&schedule.to_string()).expect_err("it is refused");
        let mut messages: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
        expected.sort();
        messages.sort();
        prop_assert_eq!(messages, expected);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in prop_oneof![soup(), any::<String>()]) {
        let _ = schedule::parse::text(&text);
    }
}
