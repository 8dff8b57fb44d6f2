//! Twins: for every rule of the verifier a broken kernel that yields exactly that rule, and a mended one that yields
//! nothing. And the shipped schedules, which must yield nothing either.
//!
//! A kernel with many rules to break has one mended twin, `KERNEL-fixed.ptx`, and broken ones named after it,
//! `CODE-KERNEL-broken.ptx` or `CODE-KERNEL-WHAT-broken.ptx`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("twins")
}

fn read(name: &str) -> (String, ptx::Module) {
    let path = folder().join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let module = ptx::parse::module(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    (text, module)
}

fn said(findings: &[check::Finding]) -> String {
    findings.iter().map(|f| format!("{f}\n")).collect()
}

/// The names of all twins of a kind, without it and sorted.
fn twins(kind: &str) -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("the twins' folder");
    let name = |e: std::io::Result<fs::DirEntry>| e.expect("an entry").file_name().to_string_lossy().into_owned();
    let suffix = format!("-{kind}.ptx");
    let mut names: Vec<String> = entries.filter_map(|e| name(e).strip_suffix(&suffix).map(str::to_owned)).collect();
    names.sort();
    names
}

#[test]
fn every_rule_has_twins_and_every_twin_a_rule() {
    let (broken, fixed) = (twins("broken"), twins("fixed"));
    for rule in check::RULES {
        let code = rule.code.to_owned();
        assert!(broken.contains(&code) && fixed.contains(&code), "tests/twins lacks twins of {code}");
    }
    for name in &broken {
        let parts: Vec<&str> = name.split('-').collect();
        assert!(check::rule(parts[0]).is_some(), "{name}: no rule {}", parts[0]);
        let mended = parts.get(1).unwrap_or(&parts[0]);
        assert!(fixed.iter().any(|f| f == mended), "{name}: no {mended}-fixed.ptx");
    }
    for name in &fixed {
        let names = |b: &String| b == name || b.split('-').nth(1) == Some(name);
        assert!(broken.iter().any(names), "{name}: no twin breaks it");
    }
    let files = fs::read_dir(folder()).expect("the twins' folder").count();
    assert_eq!(files, broken.len() + fixed.len(), "a file in tests/twins is no twin");
}

#[test]
fn a_broken_twin_yields_its_rule_and_no_other() {
    let mut wrong = String::new();
    for name in twins("broken") {
        let (text, module) = read(&format!("{name}-broken.ptx"));
        let code = name.split('-').next().unwrap_or_default();
        assert!(text.lines().any(|l| l == format!("// expect: {code}")), "{name} names no rule");
        let found = check::verify(module).err().unwrap_or_default();
        let rules: BTreeSet<&str> = found.iter().map(|f| f.rule).collect();
        if rules != BTreeSet::from([code]) {
            wrong += &format!("{name} yields {rules:?}:\n{}\n", said(&found));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_fixed_twin_yields_nothing_and_stands_as_it_prints() {
    let mut wrong = String::new();
    for name in twins("fixed") {
        let (text, module) = read(&format!("{name}-fixed.ptx"));
        match check::verify(module) {
            Ok(verified) if ptx::print(&verified) == text => {}
            Ok(verified) => {
                let printed = ptx::print(&verified);
                let same = text.lines().zip(printed.lines()).take_while(|(is, prints)| is == prints).count();
                wrong += &format!("{name} prints otherwise from line {} on:\n{printed}\n", same + 1);
            }
            Err(found) => wrong += &format!("{name}:\n{}\n", said(&found)),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn shipped_schedules_yield_nothing() {
    let mut wrong = String::new();
    for schedule in templates::all() {
        let Ok(module) = kernels::lower(&schedule) else { continue };
        if let Err(found) = check::verify(module) {
            wrong += &format!("{}:\n{}\n", schedule.name, said(&found));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn diagnostics_say_where_and_what_would_do() {
    let mut text = String::new();
    for code in ["B05", "W08", "R02"] {
        let (_, module) = read(&format!("{code}-broken.ptx"));
        text += &said(&check::verify(module).err().unwrap_or_default());
    }
    insta::assert_snapshot!(text);
    for name in ["Reg {", "Operand", "Some(", "Finding", "::Tile"] {
        assert!(!text.contains(name), "a Rust name in a diagnostic: {name}");
    }
}

#[test]
fn codes_are_unique_and_listed_in_the_module_doc() {
    let doc = include_str!("../../crates/check/src/lib.rs");
    let codes: Vec<&str> = check::RULES.iter().map(|r| r.code).collect();
    let unique: BTreeSet<&str> = codes.iter().copied().collect();
    assert_eq!(unique.len(), codes.len());
    for rule in check::RULES {
        assert_eq!(check::rule(rule.code), Some(rule));
        let line = format!("//! - `{}` {}\n", rule.code, rule.title);
        assert!(doc.contains(&line), "the list at the head of crates/check/src/lib.rs lacks the line\n{line}");
        assert!(rule.why.contains('.') && !rule.title.is_empty(), "{}", rule.code);
    }
}

#[test]
fn a_tile_that_is_worked_on_in_its_stage_is_still_guarded() {
    // The consumer stores into the tile between its wait and its release.
    let in_place = |name: &str| {
        let (text, _) = read(name);
        let product = "    wgmma.fence.sync.aligned;\n";
        assert_eq!(text.matches(product).count(), 1);
        let store = "    mad.lo.u32 %r17, %r4, 8192, %r1;\n    st.shared.b32 [%r17], %r4;\n    \
                     fence.proxy.async.shared::cta;\n    bar.sync 1, 128;\n";
        let module = ptx::parse::module(&text.replace(product, &format!("{store}{product}"))).expect("it parses");
        said(&check::verify(module).err().unwrap_or_default())
    };
    assert_eq!(in_place("B06-fixed.ptx"), "");
    assert!(in_place("B06-broken.ptx").starts_with("B06 "), "{}", in_place("B06-broken.ptx"));
}

#[test]
fn products_of_8_bits_hold_their_registers_as_others_do() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests/sim/wgmma_rs_e4m3.ptx");
    let text = fs::read_to_string(path).expect("the program");
    let edited = |from: &str, to: &str| {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        let module = ptx::parse::module(&text.replace(from, to)).expect("it parses");
        let found = check::verify(module).err().unwrap_or_default();
        found.iter().map(|f| f.rule).collect::<BTreeSet<&str>>()
    };
    let (fence, wait) = ("    wgmma.fence.sync.aligned;\n", "    wgmma.wait_group.sync.aligned 0;\n");
    let commit = "    wgmma.commit_group.sync.aligned;\n";
    assert_eq!(edited(fence, fence), BTreeSet::new());
    assert_eq!(edited(fence, ""), BTreeSet::from(["W02"]));
    assert_eq!(edited(wait, ""), BTreeSet::from(["W01", "W05"]));
    // A register of A is packed anew while the product reads it, and an accumulator is read.
    let halves = |more: &str| format!("{commit}    {more}\n");
    assert_eq!(edited(commit, &halves("add.u32 %r17, %r17, 1;")), BTreeSet::from(["W01"]));
    assert_eq!(edited(commit, &halves("max.f32 %f9, %f10, %f11;")), BTreeSet::from(["W01"]));
}

#[test]
fn names_that_stand_for_something_else_are_refused() {
    let renamed = |from: &str, to: &str| {
        let (text, _) = read("B03-fixed.ptx");
        assert!(text.contains(from), "{from}");
        let module = ptx::parse::module(&text.replace(from, to)).expect("it parses");
        let found = check::verify(module).err().unwrap_or_default();
        found.iter().map(|f| f.rule).collect::<BTreeSet<&str>>()
    };
    assert_eq!(renamed(".entry twin(", ".entry WARP_SZ("), BTreeSet::from(["D05"]));
    for taken in ["twin", "smem", "WARP_SZ"] {
        assert_eq!(renamed("EXIT", taken), BTreeSet::from(["D03"]), "{taken}");
    }
}

/// Kernels of different kinds, by the rule whose fixed twin they are.
const KINDS: [&str; 6] = ["B03", "N02", "P01", "R02", "W01", "transposed"];

#[test]
fn edits_of_any_line_are_judged_without_panic() {
    for code in KINDS {
        let (_, module) = read(&format!("{code}-fixed.ptx"));
        for line in 0..module.kernel.body.len() {
            let mut dropped = module.clone();
            dropped.kernel.body.remove(line);
            let _ = check::verify(dropped);
            let mut swapped = module.clone();
            let last = swapped.kernel.body.len() - 1;
            swapped.kernel.body.swap(line, last.min(line + 1));
            let _ = check::verify(swapped);
            let mut cut = module.clone();
            if let ptx::Line::Inst(inst) = &mut cut.kernel.body[line] {
                inst.args.pop();
            }
            let _ = check::verify(cut);
        }
    }
}

#[test]
fn a_dropped_synchronisation_is_found() {
    use ptx::Op;
    let mut missed = String::new();
    for code in KINDS {
        let (_, module) = read(&format!("{code}-fixed.ptx"));
        let lines: Vec<(usize, Op)> = module.kernel.insts().map(|(l, i)| (l, i.op)).collect();
        for (line, op) in lines {
            let synchronises = op.spec().pattern.starts_with("mbarrier.")
                || matches!(op, Op::fence_proxy_async | Op::fence_mbarrier_init | Op::bulk_commit | Op::bulk_wait_read)
                || matches!(op, Op::bar_sync_all | Op::bar_arrive | Op::setmaxnreg)
                || matches!(op, Op::wgmma_fence | Op::wgmma_commit | Op::wgmma_wait);
            let mut mutant = module.clone();
            if synchronises
                && matches!(mutant.kernel.body.remove(line), ptx::Line::Inst(_))
                && check::verify(mutant).is_ok()
            {
                missed += &format!("{code} line {line}: {op:?}\n");
            }
        }
    }
    assert!(missed.is_empty(), "{missed}");
}
