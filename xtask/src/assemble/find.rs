//! Finding ptxas, and fetching it where there is none.

use crate::house::{root, shown};
use anyhow::{Context, Result, bail, ensure};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package and version that is fetched: the assembler of CUDA 13.0.
const PACKAGE: &str = "nvidia-cuda-nvcc==13.0.*";

/// The environment variable that names an assembler.
const VARIABLE: &str = "TILEWRIGHT_PTXAS";

/// An assembler that runs.
pub struct Ptxas {
    /// Where it is.
    pub path: PathBuf,
    /// What it says of itself.
    pub version: String,
}

/// The assembler that is asked for, or the first that is found, or a fetched one.
///
/// # Errors
/// The one asked for does not run, or none could be fetched.
pub fn ptxas(asked: Option<&Path>) -> Result<Ptxas> {
    if let Some(path) = asked {
        return open(path).with_context(|| format!("--ptxas {}", path.display()));
    }
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return open(Path::new(&path)).with_context(|| format!("${VARIABLE} is {}", Path::new(&path).display()));
    }
    if let Some(path) = on_path() {
        return open(&path);
    }
    let folder = root().join("target/ptxas");
    if let Some(path) = inside(&folder) {
        return open(&path);
    }
    fetch(&folder)?;
    match inside(&folder) {
        Some(path) => open(&path),
        None => bail!("{PACKAGE} holds no ptxas; name one with --ptxas PATH or ${VARIABLE}"),
    }
}

fn on_path() -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths).map(|folder| folder.join("ptxas")).find(|path| path.is_file())
}

/// The assembler in an unpacked package: `nvidia/<toolkit>/bin/ptxas`.
fn inside(folder: &Path) -> Option<PathBuf> {
    let toolkits = fs::read_dir(folder.join("nvidia")).ok()?;
    toolkits.flatten().map(|toolkit| toolkit.path().join("bin/ptxas")).find(|path| path.is_file())
}

fn open(path: &Path) -> Result<Ptxas> {
    let output =
        Command::new(path).arg("--version").output().with_context(|| format!("cannot start {}", path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && text.contains("ptxas"), "{} is no ptxas", path.display());
    let version = text.lines().find_map(|line| line.split_once("release ")).map_or("?", |(_, version)| version);
    Ok(Ptxas { path: path.to_owned(), version: format!("release {version}") })
}

fn fetch(folder: &Path) -> Result<()> {
    let part = folder.with_extension("part");
    let command = format!("python3 -m pip install --target {} '{PACKAGE}'", shown(folder));
    println!("no ptxas on PATH; fetching the one of PyPI (about 37 MB): {command}");
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    let status = Command::new("python3")
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--root-user-action=ignore",
            "--no-deps",
            "--target",
        ])
        .arg(&part)
        .arg(PACKAGE)
        .status()
        .with_context(|| {
            format!("cannot start python3; install it, or name a ptxas with --ptxas PATH or ${VARIABLE}")
        })?;
    ensure!(
        status.success(),
        "pip fails; name a ptxas with --ptxas PATH or ${VARIABLE}, or mend pip and run: {command}"
    );
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::rename(&part, folder).with_context(|| format!("cannot move {} to {}", shown(&part), shown(folder)))
}
