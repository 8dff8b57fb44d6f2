//! What may stand where in the code: proofs, PTX text, driver calls and hardware numbers.

use crate::source::{File, Token, rust, tokens};
use ptx::Op;

/// The places at which a window of tokens satisfies a condition, as `path:line`.
fn places(files: &[File], with_tests: bool, length: usize, found: impl Fn(&[Token]) -> bool) -> Vec<String> {
    let mut places = Vec::new();
    for file in files {
        let (lines, tokens): (Vec<usize>, Vec<Token>) = tokens(file, with_tests).into_iter().unzip();
        let hits = tokens.windows(length).zip(&lines).filter(|(window, _)| found(window));
        places.extend(hits.map(|(_, line)| format!("{}:{line}", file.path)));
    }
    places
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(is) if is == word)
}

#[test]
fn only_the_verifier_proves_a_module() {
    let mut files = rust();
    files.retain(|file| !file.path.starts_with("crates/check/src/") && !file.path.starts_with("crates/ptx/tests/"));
    let found = places(&files, true, 2, |window| is_word(&window[0], "Proven") && is_word(&window[1], "for"));
    let found: Vec<String> = found.into_iter().filter(|place| !place.starts_with("crates/ptx/src/print.rs")).collect();
    assert!(found.is_empty(), "only check::Verified is proven; verify the module instead: {found:?}");
}

#[test]
fn ptx_never_goes_through_the_driver_linker() {
    // That road ignores setmaxnreg, spills and serialises wgmma.
    let mut files = rust();
    files.retain(|file| !file.path.starts_with("tests/tests/house/"));
    let found = places(&files, true, 1, |window| match &window[0] {
        Token::Word(text) | Token::Text(text) => text.contains("cuLink"),
        _ => false,
    });
    assert!(found.is_empty(), "load with cuModuleLoadDataEx or cuLibraryLoadData instead: {found:?}");
}

#[test]
fn hardware_numbers_stand_in_the_target_alone() {
    let mut files = rust();
    files.retain(|file| !file.is_test() && file.path != "crates/schedule/src/target.rs");
    let shared = schedule::HOPPER.shared_bytes;
    let (kib, registers) = (shared / 1024, u64::from(schedule::HOPPER.registers));
    let single =
        places(&files, false, 1, |window| matches!(window[0], Token::Number(n) if n == shared || n == registers));
    let product = places(&files, false, 3, |window| {
        let star = Token::Mark("*".to_owned());
        window[1] == star
            && [&window[0], &window[2]].into_iter().all(|t| [Token::Number(kib), Token::Number(1024)].contains(t))
            && window[0] != window[2]
    });
    let found: Vec<String> = single.into_iter().chain(product).collect();
    assert!(found.is_empty(), "take it from schedule::HOPPER instead: {found:?}");
}

#[test]
fn ptx_is_no_text_outside_of_its_crate() {
    let mut files = rust();
    files.retain(|file| !file.is_test() && !file.path.starts_with("crates/ptx/"));
    let found = places(&files, false, 1, |window| matches!(&window[0], Token::Text(text) if is_ptx(text)));
    assert!(
        found.is_empty(),
        "build it with ptx::op, compare by ptx::Op; a new instruction is a new row of its table: {found:?}"
    );
}

/// Whether a string is an instruction, a mnemonic or the beginning of one. A sentence that starts with a mnemonic is none.
fn is_ptx(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else {
        return false;
    };
    let alone = words.next().is_none();
    if !alone && !text.trim_end().ends_with(';') {
        return false;
    }
    let first = first.trim_end_matches(';');
    // One word without a dot, such as `add`, is too little to tell.
    let Some((family, _)) = first.split_once('.') else {
        return false;
    };
    Op::ALL.iter().map(|op| op.spec().pattern).any(|pattern| {
        let head = pattern.split('{').next().unwrap_or(pattern);
        let of_family = pattern.split('.').next() == Some(family);
        of_family && (head.starts_with(first) || first.starts_with(head))
    })
}

#[test]
fn mnemonics_are_told_from_sentences() {
    for ptx in
        ["wgmma.", "wgmma.fence.sync.aligned;", "mbarrier.init.shared::cta.b64 [%r1], 1;", "add.u32 %r1, %r2, {};"]
    {
        assert!(is_ptx(ptx), "{ptx}");
    }
    for prose in ["", "add", "wgmma.fence is missing before the product", "generated.", "lib.rs", "fwd_*", "bar"] {
        assert!(!is_ptx(prose), "{prose}");
    }
}

#[test]
fn nothing_is_left_to_do() {
    let found = places(&rust(), true, 2, |window| {
        window[1] == Token::Mark("!".to_owned())
            && ["todo", "unimplemented", "dbg"].iter().any(|word| is_word(&window[0], word))
    });
    assert!(found.is_empty(), "finish it, or refuse it by name: {found:?}");
}
