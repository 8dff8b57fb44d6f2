//! How files look and which there are.

use crate::source::{File, files, root, rust};
use std::fs;

/// The longest that a source file may be, in lines.
const LINES: usize = 450;

/// The most that generated/ may hold, in bytes of whole blocks of a file system.
const GENERATED: usize = 6 << 20;

/// Bytes of a block.
const BLOCK: usize = 4096;

/// What the top level holds beside dotfiles.
const TOP: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "crates",
    "generated",
    "target",
    "templates",
    "tests",
    "xtask",
];

/// Places of one machine and hosts of registries, in two halves so that they do not stand here.
const MACHINE: &[(&str, &str)] = &[
    ("/wo", "rk/"),
    ("/tm", "p/"),
    ("/ro", "ot/"),
    ("index.crates", ".io"),
    ("static.crates", ".io"),
    ("py", "pi.org"),
    ("python", "hosted.org"),
    ("arti", "factory"),
];

fn listed(found: impl Iterator<Item = String>, advice: &str) {
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "{advice}:\n  {}", found.join("\n  "));
}

#[test]
fn every_file_says_what_it_owns() {
    let bare = rust().into_iter().filter(|file| !file.bytes.starts_with(b"//!"));
    listed(bare.map(|file| file.path), "begin with `//!` and what the file owns");
}

#[test]
fn files_are_short() {
    let lines = |file: &File| file.text().lines().count();
    let long =
        rust().into_iter().filter(|file| lines(file) > LINES).map(|file| format!("{}: {}", file.path, lines(&file)));
    listed(long, "split these by what they own");
}

#[test]
fn generated_is_small_and_plain() {
    let mut generated = files();
    generated.retain(|file| file.path.starts_with("generated/"));
    let bytes: usize = generated.iter().map(|file| file.bytes.len().next_multiple_of(BLOCK)).sum();
    assert!(bytes <= GENERATED, "generated/ holds {bytes} bytes of {GENERATED}; keep representative schedules only");
    let odd = generated.iter().filter(|file| !file.bytes.is_ascii()).map(|file| file.path.clone());
    listed(odd, "the assembler takes ASCII alone");
    let unknown = generated.iter().filter(|file| !file.is("ptx") && file.path != "generated/manifest.toml");
    listed(unknown.map(|file| file.path.clone()), "generated/ is written by `cargo xtask gen` alone");
}

#[test]
fn nothing_names_a_machine_or_a_mirror() {
    let mut found = Vec::new();
    for file in files() {
        for (number, line) in file.text().lines().enumerate() {
            let names = |&(a, b): &(&str, &str)| line.contains(&format!("{a}{b}"));
            let locked =
                file.path == "Cargo.lock" && line.contains("registry+https://github.com/rust-lang/crates.io-index");
            if !locked && MACHINE.iter().any(names) {
                found.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
            }
        }
    }
    listed(found.into_iter(), "take paths and hosts from the environment");
}

#[test]
fn the_lock_file_names_the_public_registry_alone() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("there is a lock file");
    let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    let other = lock.lines().filter(|line| line.starts_with("source = ") && *line != public);
    listed(other.map(str::to_owned), "depend on published crates");
}

#[test]
fn the_top_level_is_a_short_list() {
    let names = fs::read_dir(root()).expect("the root reads").flatten().map(|entry| entry.file_name());
    let extra = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.') && !TOP.contains(&name.as_str()));
    listed(extra, "move these into a folder of the house");
}
