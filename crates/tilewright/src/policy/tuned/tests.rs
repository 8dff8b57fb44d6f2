//! Reading, refusing and writing tunings.

use schedule::{Element, HeadDim, Variant};

use super::*;
use crate::Registry;

fn schedules() -> Vec<Schedule> {
    templates::all()
}

const ENTRY: &str = r#"
[[prefer]]
schedule = "fwd_bf16_d128"
element = "bf16"
head_dim = 128
variant = "full"
keys = { from = 1000, to = 2000 }
"#;

fn refused(text: &str) -> String {
    let all = schedules();
    Tuning::parse(text).and_then(|tuning| tuning.check(all.iter())).expect_err("refused").to_string()
}

#[test]
fn what_ships_reads_and_names_shipped_schedules() {
    let tuning = Tuning::parse(templates::TUNED).expect("reads");
    assert_eq!(tuning.check(schedules().iter()), Ok(()));
    assert!(!tuning.preferences().is_empty());
}

#[test]
fn what_is_written_reads_back() {
    let mut tuning = Tuning::parse(templates::TUNED).expect("reads");
    tuning.preferences.push(Preference {
        schedule: "odd \"name\"".into(),
        element: Element::F16,
        head_dim: HeadDim { qk: 192, v: 128 },
        variant: Variant::Causal,
        keys: Bounds::default(),
        queries: Bounds::from(64),
        tiles_per_sm: Bounds { from: Some(0.5), to: Some(3.0) },
        tflops: None,
        device: None,
    });
    assert_eq!(Tuning::parse(&tuning.to_string()), Ok(tuning));
}

#[test]
fn an_unknown_schedule_is_told_with_those_of_its_class() {
    let told = refused(&ENTRY.replace("fwd_bf16_d128", "fwd_mine"));
    assert!(told.contains("entry 1") && told.contains("no schedule is called fwd_mine"), "{told}");
    assert!(told.contains("fwd_bf16_d128, ") && !told.contains("causal"), "{told}");
}

#[test]
fn what_means_nothing_is_refused_in_plain_words() {
    for (from, to, part) in [
        ("\"bf16\"", "\"int8\"", "element \"int8\" is none of bf16, f16, e4m3"),
        ("\"full\"", "\"banded\"", "variant \"banded\" is none of"),
        ("\"full\"", "\"causal\"", "fwd_bf16_d128 is for bf16 full at head dimension 128"),
        ("from = 1000", "from = 3000", "keys ends before it begins"),
        ("from = 1000", "form = 1000", "form"),
        ("head_dim = 128", "head_dim = \"128\"", "head_dim is a number"),
        ("element = \"bf16\"", "", "element"),
        ("keys = {", "keys {", "the tuning file does not read"),
    ] {
        let told = refused(&ENTRY.replacen(from, to, 1));
        assert!(told.contains(part), "`{part}` in {told}");
        for leak in ["Option", "::", "enum", "u32", "struct"] {
            assert!(!told.contains(leak), "`{leak}` in {told}");
        }
    }
}

#[test]
fn bounds_decide_and_the_first_that_fits_goes_first() {
    let text = format!("{ENTRY}{}", ENTRY.replace("fwd_bf16_d128", "fwd_across_bf16_d128").replace("2000", "4000"));
    let tuning = Tuning::parse(&text).expect("reads");
    let names = |keys: u64| -> Vec<String> {
        let problem = Problem::builder().queries(4096).keys(keys).heads(8).head_dim(128).build().expect("fine");
        tuning.fitting(&problem, 132).map(|preference| preference.schedule.clone()).collect()
    };
    assert_eq!(names(1000), ["fwd_bf16_d128", "fwd_across_bf16_d128"]);
    assert_eq!(names(2001), ["fwd_across_bf16_d128"]);
    assert_eq!(names(999), [""; 0]);
}

#[test]
fn a_users_entries_go_before_the_shipped() {
    let shipped = Registry::shipped();
    let mine = shipped.with_tuning(ENTRY).expect("reads");
    assert_eq!(mine.tuning().preferences().len(), shipped.tuning().preferences().len() + 1);
    assert_eq!(mine.tuning().preferences()[0].schedule, "fwd_bf16_d128");
    assert!(std::sync::Arc::ptr_eq(&mine.entries()[0], &shipped.entries()[0]), "entries are shared");
    assert!(shipped.with_tuning("prefer = 3").is_err());
}
