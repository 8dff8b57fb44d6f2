//! `new`: a file of templates/ with one plain schedule, copied from a shipped one, and its line in the catalog.

use crate::house::{nearest, root, shown};
use anyhow::{Context, Result, bail, ensure};
use schedule::Schedule;
use std::fs;

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  cargo xtask new my_fwd --from fwd_bf16_d128

writes templates/my_fwd.rs with the schedule fwd_bf16_d128 under the new name, each field spelled out and without `match` or `for`,
and adds the file to the catalog in templates/lib.rs. Edit a field, then `cargo xtask explain my_fwd`.
Kernels are named <pass>_<element>_d<head dim>[_<what is special>].")]
pub struct Args {
    /// Name of the new schedule and its file: lower-case letters, digits and underscores
    name: String,
    /// Name of the shipped schedule to start from
    #[arg(long, value_name = "TEMPLATE")]
    from: String,
}

/// Writes the file and its line.
pub fn run(args: &Args) -> Result<()> {
    let all = templates::all();
    let from = named(&all, &args.from)?;
    let name = args.name.as_str();
    check_name(name)?;
    ensure!(
        !all.iter().any(|schedule| schedule.name == name),
        "a schedule is already called {name}; take another name"
    );

    let folder = root().join("templates");
    let (file, catalog) = (folder.join(format!("{name}.rs")), folder.join("lib.rs"));
    ensure!(!file.exists(), "{} exists; take another name", shown(&file));
    let listed = fs::read_to_string(&catalog).with_context(|| format!("cannot read {}", shown(&catalog)))?;
    let listed = with_file(&listed, name).with_context(|| {
        format!("{} has no `catalog! {{ ... }}`; add the file by hand: pub mod {name};", shown(&catalog))
    })?;

    fs::write(&file, source(from, name)).with_context(|| format!("cannot write {}", shown(&file)))?;
    fs::write(&catalog, listed).with_context(|| format!("cannot write {}", shown(&catalog)))?;
    println!(
        "wrote {0} and its line in templates/lib.rs. Next:
  1. edit {0}
  2. cargo xtask explain {name}            memory, registers, cost
  3. cargo xtask gen --only {name}         generated/{name}.ptx
  4. cargo xtask check --only {name}       registers, spills and warnings of ptxas",
        shown(&file)
    );
    Ok(())
}

/// The schedule of that name.
///
/// # Errors
/// There is none; names the nearest.
pub fn named<'a>(all: &'a [Schedule], name: &str) -> Result<&'a Schedule> {
    if let Some(schedule) = all.iter().find(|schedule| schedule.name == name) {
        return Ok(schedule);
    }
    let names: Vec<&str> = all.iter().map(|schedule| schedule.name.as_str()).collect();
    match nearest(name, names.iter().copied()) {
        Some(near) => bail!("no schedule is called {name}; did you mean {near}?"),
        None => bail!("no schedule is called {name}; there are: {}", names.join(", ")),
    }
}

/// A name must do as a Rust function, a file and a PTX symbol. The parser of schedules has the last word.
fn check_name(name: &str) -> Result<()> {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    ensure!(
        plain && name.starts_with(|c: char| c.is_ascii_lowercase()),
        "{name:?} is no name for a schedule: lower-case letters, digits and underscores, a letter first"
    );
    ensure!(name != "lib", "templates/lib.rs is the catalog; take another name");
    Ok(())
}

/// The file's text.
fn source(from: &Schedule, name: &str) -> String {
    let copy = Schedule { name: name.to_owned(), ..from.clone() };
    let indented: Vec<String> = copy.to_string().lines().map(|line| format!("    {line}")).collect();
    format!(
        "//! A schedule started from `{}`.\n\nuse schedule_macros::schedule;\n\nschedule! {{\n{}\n}}\n",
        from.name,
        indented.join("\n")
    )
}

/// The catalog with one more file, if it has the form that is expected.
fn with_file(catalog: &str, name: &str) -> Option<String> {
    const OPENING: &str = "\ncatalog! {\n";
    let start = catalog.find(OPENING)? + OPENING.len();
    let end = start + catalog[start..].find("}\n")?;
    Some(format!("{}    {name},\n{}", &catalog[..end], &catalog[end..]))
}

#[cfg(test)]
mod tests {
    use super::{check_name, named, source, with_file};

    #[test]
    fn bad_names_are_refused() {
        for bad in ["", "Fwd", "1fwd", "fwd-x", "fwd x", "../x", "lib", "_x"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        check_name("fwd_bf16_d128_mine").expect("a plain name does");
    }

    #[test]
    fn the_copy_reads_back_as_the_same_schedule_under_the_new_name() {
        for from in templates::all() {
            let read = schedule::parse::file(&source(&from, "mine")).expect("the source parses");
            assert_eq!(read, [schedule::Schedule { name: "mine".into(), ..from }]);
        }
    }

    #[test]
    fn the_catalog_gains_one_line() {
        let catalog = "macro_rules! catalog {}\n\ncatalog! {\n    forward,\n}\n\nfn f() {}\n";
        let longer = with_file(catalog, "mine").expect("it has the form");
        assert_eq!(longer, "macro_rules! catalog {}\n\ncatalog! {\n    forward,\n    mine,\n}\n\nfn f() {}\n");
        assert_eq!(with_file("pub mod forward;\n", "mine"), None);
        assert!(with_file(include_str!("../../templates/lib.rs"), "mine").is_some());
    }

    #[test]
    fn an_unknown_template_names_the_nearest() {
        let mut all = templates::all();
        all.truncate(1);
        let name = format!("{}x", all[0].name);
        let error = named(&all, &name).expect_err("there is none").to_string();
        assert!(error.ends_with(&format!("did you mean {}?", all[0].name)), "{error}");
    }
}
