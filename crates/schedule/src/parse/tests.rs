//! The grammar: what it reads, and what it says of what it cannot read.

use std::num::NonZeroU32;

use super::{file, text};
use crate::*;

const PLAIN: &str = "
/// First line.
///
///  Indented.
fwd_bf16_d128 {
    pass: forward,
    element: bf16,
    head_dim: 128,
    tile: 128 x 128, // a comment
    stages: { q: 2, kv: 2 },
    roles: {
        producer: warps(1) registers(24),
        consumer: warpgroups(2) registers(240),
    },
    overlap: [within_warpgroup, pingpong],
    probabilities: registers,
    rescale: above(8.0),
    row_sum: threads,
    grid: persistent(dynamic) longest_first(l2: 32 MiB),
}
";

const FAMILY: &str = "
/// A family.
fwd for element in [bf16, f16], head_dim in [64, (192, 128)], variant in [full, causal] {
    pass: forward,
    head_dim: head_dim,
    tile: match head_dim { 64 => 128 x 128, _ => 128x96 },
    stages: match (head_dim, variant) {
        (64, causal) => { q: 1, kv: 4 },
        (64, _) => { q: 2, kv: 3 },
        ((192, 128), full | causal) => { q: 1, kv: 2 },
    },
    roles: { producer: warps(1) registers(24), consumer: warpgroups(2) registers(240) },
}
";

/// The problems of a text, without places.
fn problems(source: &str) -> Vec<String> {
    text(source).err().unwrap_or_default().into_iter().map(|problem| problem.message).collect()
}

/// `PLAIN` with a part of it replaced, its problems as `token: message`.
#[track_caller]
fn broken(from: &str, to: &str) -> Vec<(String, String)> {
    assert!(PLAIN.contains(from), "{from}");
    let source = PLAIN.replacen(from, to, 1);
    let lines: Vec<&str> = source.lines().collect();
    let problems = text(&source).err().unwrap_or_default();
    problems
        .into_iter()
        .map(|problem| {
            let rest = &lines[problem.line - 1][problem.column - 1..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (rest[..end.max(1)].to_owned(), problem.message)
        })
        .collect()
}

/// Exactly one problem, on this token, that says this.
#[track_caller]
fn one(from: &str, to: &str, token: &str, says: &str) {
    let problems = broken(from, to);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert_eq!(problems[0].0, token, "{problems:#?}");
    assert!(problems[0].1.contains(says), "{problems:#?}");
}

#[test]
fn reads_a_plain_schedule() {
    let schedules = text(PLAIN).expect("it is feasible");
    let [schedule] = schedules.as_slice() else { panic!("one schedule") };
    assert_eq!(schedule.name, "fwd_bf16_d128");
    assert_eq!(schedule.doc, "First line.\n\n Indented.");
    assert_eq!(schedule.grid.order, Order::LongestFirst { l2_bytes: 32 << 20, heads: None });
    assert_eq!(schedule.variant, Variant::Full);
    assert_eq!(text(&schedule.to_string()).as_deref(), Ok([schedule.clone()].as_slice()));
}

#[test]
fn the_hash_is_the_same_everywhere() {
    let schedule = &text(PLAIN).expect("it is feasible")[0];
    assert_eq!(format!("{:016x}", schedule.hash()), "4aa46b1aa5ad7259");
}

#[test]
fn reads_a_family() {
    let schedules = text(FAMILY).expect("it is feasible");
    let names: Vec<&str> = schedules.iter().map(|schedule| schedule.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "fwd_bf16_d64",
            "fwd_bf16_d64_causal",
            "fwd_bf16_d192x128",
            "fwd_bf16_d192x128_causal",
            "fwd_f16_d64",
            "fwd_f16_d64_causal",
            "fwd_f16_d192x128",
            "fwd_f16_d192x128_causal",
        ]
    );
    assert_eq!(schedules[1].stages, Stages { q: 1, kv: 4 });
    assert_eq!(schedules[4].stages, Stages { q: 2, kv: 3 });
    assert_eq!(schedules[7].tile, Tile { rows: 128, columns: 96 });
    assert_eq!(schedules[7].element, Element::F16);
}

#[test]
fn a_section_may_have_a_most_of_heads() {
    let source = PLAIN.replace("32 MiB", "8 MiB, heads: 24");
    let [schedule] = &text(&source).expect("it is feasible")[..] else { panic!("one schedule") };
    assert_eq!(schedule.grid.order, Order::LongestFirst { l2_bytes: 8 << 20, heads: NonZeroU32::new(24) });
    assert!(schedule.to_string().contains("longest_first(l2: 8 MiB, heads: 24)"), "{schedule}");
    // It is the launch that reads it.
    let [plain] = &text(PLAIN).expect("it is feasible")[..] else { panic!("one schedule") };
    assert!(schedule.is_kernel_of(plain) && schedule.hash() != plain.hash());
}

#[test]
fn reads_a_source_file() {
    let source = format!("//! Doc.\nuse x::schedule;\n\nschedule! {{ {PLAIN} }}\nschedule! {{ {FAMILY} }}\n");
    assert_eq!(file(&source).map(|all| all.len()), Ok(9));
}

#[test]
fn fields() {
    one("head_dim: 128", "head_dimm: 128, head_dim: 128", "head_dimm", "did you mean `head_dim`?");
    one("row_sum: threads", "row_sum: threads, row_sum: threads", "row_sum", "duplicate field `row_sum`");
    one("pass: forward,", "", "fwd_bf16_d128", "missing field `pass`");
    one("element: bf16", "element: bf17", "bf17", "expected `bf16`, `f16`, `e4m3` or `e5m2`, found `bf17`");
    one("pass: forward,", "pass: forward", "element", "expected `,`, found `element`");
    one("head_dim: 128", "head_dim:", ",", "expected a row length");
    one("kv: 2", "kv: two", "two", "expected a number of stages");
    one("q: 2, ", "", "{", "missing ring `q`");
    one("registers(24)", "", ",", "expected `registers`");
    one("128 x 128", "128 by 128", "by", "expected `x`");
    one("128 x 128", "128x", "128x", "expected the rows");
    one("pingpong]", "pingpong, pingpong]", "pingpong", "duplicate overlap");
    one("above(8.0)", "above(0.0)", "0", "above 0");
    one("32 MiB", "32 MB", "MB", "unknown unit `MB`: a size is in KiB or MiB");
    one("32 MiB", "32 MiB, heads: 0", "0", "a section of no head");
    one("32 MiB", "32 MiB, head: 2", "head", "expected `heads`");
    one("persistent(dynamic)", "persistent(dynamic, 2)", ",", "expected `)`");
    one("fwd_bf16_d128 {", "all {", "all", "the function that returns every schedule");
    one("fwd_bf16_d128 {", "größe {", "größe", "ASCII");
}

#[test]
fn a_split_reads_and_prints() {
    let [plain] = &text(PLAIN).expect("it is feasible")[..] else { panic!("one schedule") };
    assert!(plain.split == Split::None && !plain.to_string().contains("split"), "{plain}");
    let source = PLAIN.replace("row_sum: threads,", "row_sum: threads, split: keys,");
    let [split] = &text(&source).expect("it is feasible")[..] else { panic!("one schedule") };
    assert_eq!(*split, Schedule { split: Split::Keys, ..plain.clone() });
    assert!(split.to_string().contains("\n    split: keys,\n"), "{split}");
    assert_eq!(text(&split.to_string()).as_deref(), Ok([split.clone()].as_slice()));
    assert_ne!(split.hash(), plain.hash());
    one("row_sum: threads", "split: key", "key", "expected `none` or `keys`, found `key` (did you mean `keys`?)");
    one("rescale: above(8.0)", "rescale: on_overflow, split: keys", "keys", "split: a share of an overflowed tile");
    one("pingpong]", "pingpong, across_tiles], split: keys", "keys", "which across_tiles fills");
}

#[test]
fn fields_of_eight_bit_elements() {
    let source = PLAIN.replace("bf16,", "e4m3,").replace("above(8.0)", "above(4.0)");
    let [plain] = &text(&source).expect("it is feasible")[..] else { panic!("one schedule") };
    assert_eq!(plain.fp8, Some(Fp8::default()));
    assert_eq!(text(&plain.to_string()).as_deref(), Ok([plain.clone()].as_slice()));
    let fields = "output: f16, scales: head, values: rows, accumulate: every(4), exponential: linear(2),";
    let given = source.replace("row_sum: threads,", &format!("row_sum: tensor_core, {fields}"));
    let given = given.replace("warps(1) registers(24)", "warps(4) registers(40)").replace("(240)", "(232)");
    let [given] = &text(&given.replace("128 x 128", "128 x 32")).expect("it is feasible")[..] else { panic!("one") };
    let fp8 = Fp8 {
        output: Output::F16,
        scales: Scales::Head,
        values: Values::Rows,
        accumulate: Accumulate::Every(4),
        exponential: Exponential::Linear(2),
    };
    assert_eq!(given.fp8, Some(fp8));
    assert_eq!(text(&given.to_string()).as_deref(), Ok([given.clone()].as_slice()));
    one("rescale: above(8.0)", "scales: head", "bf16", "bf16 has no output, scales");
    one("rescale: above(8.0)", "accumulate: every", ",", "expected `(`");
    one("rescale: above(8.0)", "exponential: linear(two)", "two", "expected a number of quarters");
    one("rescale: above(8.0)", "exponential: polynomial(two)", "two", "expected a number of eighths");
    let given = source.replace("row_sum: threads,", "row_sum: tensor_core, exponential: polynomial(1),");
    let [given] = &text(&given).expect("it is feasible")[..] else { panic!("one") };
    assert_eq!(given.fp8, Some(Fp8 { exponential: Exponential::Polynomial(1), ..Fp8::default() }));
    assert_eq!(text(&given.to_string()).as_deref(), Ok([given.clone()].as_slice()));
}

#[test]
fn feasibility_is_reported_on_the_token() {
    one("kv: 2", "kv: 3", "3", "stages kv: 3 needs 256.3 KiB");
    one("registers(24)", "registers(32)", "240", "the producer's 32 are 512 registers");
    one("128 x 128", "128 x 120", "120", "not a multiple of 16");
    one("128 x 128", "128x120", "128x120", "not a multiple of 16");
    one("above(8.0)", "above(9.0)", "9", "more than 8.0");
}

#[test]
fn every_problem_is_reported() {
    let source = PLAIN.replace("bf16,", "bf17,").replace("kv: 2", "kv: two, k: 1").replace("threads", "thread");
    let two = format!("{source}\n{}", PLAIN.replace("kv: 2", "kv: 3").replace("fwd_", "other_"));
    assert_eq!(problems(&two).len(), 5, "{:#?}", problems(&two));
    assert_eq!(problems(&format!("{PLAIN}{PLAIN}")), ["duplicate schedule `fwd_bf16_d128`"]);
    assert_eq!(problems("fwd {").len(), 1);
    assert_eq!(problems("fwd").len(), 1);
}

#[test]
fn matches() {
    let change = |from: &str, to: &str| {
        assert!(FAMILY.contains(from), "{from}");
        problems(&FAMILY.replacen(from, to, 1))
    };
    assert_eq!(change("64 => 128 x 128, _ =>", "64 =>"), ["no arm takes (192, 128); add one, or `_`"]);
    assert_eq!(change("(64, causal) => { q: 1, kv: 4 },", ""), [] as [&str; 0]);
    assert_eq!(
        change("((192, 128), full | causal)", "((192, 128), full)"),
        ["no arm takes ((192, 128), causal); add one, or `_`"]
    );
    assert_eq!(
        change("(64, causal) =>", "(64, full | causal) =>"),
        ["unreachable arm: earlier arms take everything that it would"]
    );
    assert_eq!(change("{ 64 =>", "{ 80 =>"), ["`head_dim` is never 80: it loops over 64, (192, 128)"]);
    assert_eq!(
        change("match head_dim", "match pass"),
        ["`pass` is no loop variable of this family, which loops over element, head_dim, variant"]
    );
    assert_eq!(
        change("head_dim: head_dim", "head_dim: 64"),
        ["`head_dim` is set by the loop: leave it out, or write `head_dim: head_dim`"]
    );
    assert_eq!(change("[bf16, f16]", "[bf16, bf16]"), ["duplicate bf16 in the loop over `element`"]);
    assert_eq!(change("variant in", "element in"), ["duplicate loop over `element`"]);
    assert_eq!(change("variant in", "tile in"), ["expected `element`, `head_dim` or `variant`, found `tile`"]);
    assert_eq!(change("[full, causal]", "[]"), ["expected a value to loop over, found the end"]);
}

#[test]
fn a_family_names_the_instances_of_a_finding() {
    let problems = problems(&FAMILY.replace("q: 1, kv: 2", "q: 1, kv: 3"));
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert!(problems[0].starts_with("in fwd_bf16_d192x128 and 3 more: stages kv: 3 needs"), "{problems:#?}");
}

const QUANTIZER: &str = "
    /// Rounds.
    rounds {
        pass: quantize,
        element: bf16,
        head_dim: 128,
        scales: { q: block(64), k: head, v: tensor },
        stages: 2,
        roles: {
            producer: warps(2) registers(24),
            consumer: warpgroups(2) registers(240),
        },
    }";

#[test]
fn a_quantizer_reads_and_prints() {
    let read = super::quantizers_text(QUANTIZER).expect("it reads");
    let [one] = &read[..] else { panic!("{read:?}") };
    assert_eq!((one.name.as_str(), one.doc.as_str(), one.rotation), ("rounds", "Rounds.", crate::Rotation::Hadamard));
    assert_eq!(super::quantizers_text(&one.to_string()), Ok(read.clone()));
}

#[test]
fn what_a_quantizer_cannot_have_is_told_on_its_token() {
    let told = |from: &str, to: &str| {
        let problems = super::quantizers_text(&QUANTIZER.replace(from, to)).expect_err(to);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(told("quantize,", "forward,"), "4:15: expected `quantize`, found `forward`");
    assert_eq!(told("stages: 2,", ""), "3:5: missing field `stages`");
    assert!(told("block(64)", "blok(64)").starts_with("7:22: expected `block`, `head` or `tensor`, found `blok`"));
    assert!(told("block(64)", "block(48)").starts_with("7:17: scales: q: a block of 48 rows is not"));
    assert!(told("stages: 2", "stages: 40").starts_with("8:17: stages: 80 slots of"));
    assert!(told("rounds {", "all {").contains("duplicate"), "{}", told("rounds {", "all {"));
    assert!(told("head_dim: 128", "head_dim: 100").starts_with("6:19: head_dim: 100 columns"));
}
