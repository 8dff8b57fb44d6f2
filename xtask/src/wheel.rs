//! The Python package: built by maturin, judged by ruff and pytest, in an environment of its own under target/. Knows no task.

use crate::house::{root, shown};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The most that a wheel may hold, bytes.
const LIMIT: u64 = 5_000_000;

/// What builds and judges it, from PyPI.
const TOOLS: [&str; 3] = ["maturin>=1.9,<2", "pytest>=8,<10", "ruff>=0.12,<1"];

/// How it is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// As the tests are, so that little is built twice.
    Dev,
    /// As it is shipped.
    Release,
}

/// The folder of the package.
pub fn package() -> PathBuf {
    root().join("crates/python")
}

/// A Python environment under target/ with the tools in it.
pub struct Environment {
    bin: PathBuf,
}

impl Environment {
    /// Made at its first use, and again when the list of tools changes.
    ///
    /// # Errors
    /// No python3, or pip fails.
    pub fn new() -> Result<Self> {
        let folder = root().join("target/python/environment");
        let (bin, mark) = (folder.join("bin"), folder.join("tools"));
        let wanted = TOOLS.join("\n");
        if fs::read_to_string(&mark).ok().as_deref() != Some(wanted.as_str()) {
            println!("making {} with {}", shown(&folder), TOOLS.join(", "));
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))
                .context("a virtual environment needs python3 with venv")?;
            run(Command::new(bin.join("python")).args(["-m", "pip", "install", "--quiet"]).args(TOOLS))?;
            fs::write(&mark, wanted)?;
        }
        Ok(Self { bin })
    }

    /// One of the tools, at the package's folder, leaving nothing behind in the sources.
    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        command.current_dir(package()).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Builds the wheel; gives where it is.
    ///
    /// # Errors
    /// Maturin fails, or the wheel as it is shipped passes its limit.
    pub fn build(&self, profile: Profile) -> Result<PathBuf> {
        let out = root().join("target/python/wheels").join(format!("{profile:?}").to_lowercase());
        if out.exists() {
            fs::remove_dir_all(&out)?;
        }
        let mut command = self.tool("maturin");
        command.args(["build", "--quiet", "--interpreter"]).arg(self.bin.join("python")).arg("--out").arg(&out);
        if profile == Profile::Release {
            command.arg("--release");
        }
        run(&mut command)?;
        let found = fs::read_dir(&out)?.flatten().map(|entry| entry.path()).find(|path| is_wheel(path));
        let wheel = found.with_context(|| format!("maturin left no wheel in {}", shown(&out)))?;
        let bytes = fs::metadata(&wheel)?.len();
        println!("{}: {:.1} MB", shown(&wheel), bytes as f64 / 1e6);
        ensure!(profile == Profile::Dev || bytes <= LIMIT, "the wheel has {bytes} bytes, {LIMIT} are its limit");
        Ok(wheel)
    }

    /// Holds the Python sources against ruff.
    ///
    /// # Errors
    /// With the command that mends it.
    pub fn lint(&self) -> Result<()> {
        let tests = root().join("tests/gpu/python");
        for (task, mend) in [(&["check"][..], "ruff check --fix"), (&["format", "--check"], "ruff format")] {
            let mut command = self.tool("ruff");
            command
                .args(task)
                .args(["--no-cache", "--quiet", "--config", "pyproject.toml", "python", "tests"])
                .arg(&tests);
            run(&mut command).with_context(|| format!("mend: {mend}, in crates/python"))?;
        }
        Ok(())
    }

    /// Installs a wheel and runs the tests that need no GPU; gives pytest's output and whether all passed.
    ///
    /// # Errors
    /// Pip or pytest cannot be started.
    pub fn test(&self, wheel: &Path) -> Result<(String, bool)> {
        let mut install = self.tool("python");
        run(install.args(["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"]).arg(wheel))?;
        let mut pytest = self.tool("python");
        pytest.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "tests"]).stdout(Stdio::piped());
        let done = pytest.spawn().context("cannot start pytest")?.wait_with_output()?;
        Ok((String::from_utf8_lossy(&done.stdout).into_owned(), done.status.success()))
    }
}

/// Whether a file is a wheel by its name.
fn is_wheel(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "whl")
}

/// Runs a command to a good end.
fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{:?} fails; its messages are above", command.get_program());
    }
    Ok(())
}
