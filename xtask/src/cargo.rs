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

/// An executable that cargo built.
#[derive(Debug, PartialEq)]
pub struct Executable {
    /// The target's name.
    pub name: String,
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
        executable: Option<PathBuf>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    let read = |line: &str| {
        let Message { target, executable } = serde_json::from_str(line).ok()?;
        Some(Executable { name: target.name, path: executable? })
    };
    messages.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::{Executable, executables};

    #[test]
    fn executables_are_found_among_the_messages() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"ptx"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"gpu_forward"},"executable":"deps/gpu_forward-1"}
{"reason":"build-script-executed","package_id":"registry+x"}
{"reason":"compiler-artifact","target":{"kind":["example"],"name":"attention"},"executable":"examples/attention"}
{"reason":"build-finished","success":true}"#;
        let is = |name: &str, path: &str| Executable { name: name.into(), path: path.into() };
        let expected = [is("gpu_forward", "deps/gpu_forward-1"), is("attention", "examples/attention")];
        assert_eq!(executables(messages), expected);
    }
}
