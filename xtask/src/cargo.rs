//! Running cargo, and finding the executables that it built. Knows no task.

use crate::house::root;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A cargo command at the root.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// What kind of target an executable was built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An integration test or bench, with or without libtest.
    Test,
    /// A binary.
    Binary,
    /// An example.
    Example,
}

/// An executable that cargo built.
#[derive(Debug, PartialEq)]
pub struct Executable {
    /// The target's name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Where it is.
    pub path: PathBuf,
}

/// Builds, with cargo's own progress on the terminal; gives what is executable.
///
/// # Errors
/// Cargo could not be started, or its build failed.
pub fn build(args: &[&str]) -> Result<Vec<Executable>> {
    let mut command = cargo(args);
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let output = command.spawn().context("cannot start cargo")?.wait_with_output()?;
    if !output.status.success() {
        bail!("`cargo {}` failed; its messages are above", args.join(" "));
    }
    Ok(executables(&String::from_utf8_lossy(&output.stdout)))
}

/// The executables in cargo's messages, one JSON object a line.
fn executables(messages: &str) -> Vec<Executable> {
    #[derive(Deserialize)]
    struct Message {
        target: Target,
        profile: Profile,
        executable: Option<PathBuf>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
        kind: Vec<String>,
    }
    #[derive(Deserialize)]
    struct Profile {
        test: bool,
    }
    let read = |line: &str| {
        let Message { target, profile, executable } = serde_json::from_str(line).ok()?;
        let kind = match target.kind.first().map(String::as_str) {
            Some("test" | "bench") => Kind::Test,
            Some("bin") if !profile.test => Kind::Binary,
            Some("example") if !profile.test => Kind::Example,
            _ => return None,
        };
        Some(Executable { name: target.name, kind, path: executable? })
    };
    messages.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::{Executable, Kind, executables};

    #[test]
    fn executables_are_found_among_the_messages() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"ptx"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"gpu_forward"},"profile":{"test":true},"executable":"deps/gpu_forward-1"}
{"reason":"compiler-artifact","target":{"kind":["example"],"name":"attention"},"profile":{"test":false},"executable":"examples/attention"}
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"tests"},"profile":{"test":true},"executable":"deps/tests-1"}
{"reason":"build-finished","success":true}"#;
        let found = executables(messages);
        let is = |name: &str, kind, path: &str| Executable { name: name.into(), kind, path: path.into() };
        assert_eq!(
            found,
            [is("gpu_forward", Kind::Test, "deps/gpu_forward-1"), is("attention", Kind::Example, "examples/attention")]
        );
    }
}
