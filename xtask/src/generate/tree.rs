//! generated/ as it is against generated/ as it should be. Knows nothing of how a kernel comes about.

use super::kernel::Generated;
use super::manifest::Manifest;
use crate::house::Only;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.toml";

/// The folder as it should be.
pub struct Wanted {
    folder: PathBuf,
    /// Every file that is meant, by name.
    files: BTreeMap<String, String>,
    /// Files that are there, by name: text, or nothing where they are no UTF-8.
    present: BTreeMap<String, Option<String>>,
    only: Only,
}

/// One difference.
#[derive(Debug, PartialEq)]
pub enum Change {
    /// The file is not there.
    Missing(String),
    /// No schedule stands for the file.
    Stale(String),
    /// The file says something else: its first differing line, from 1, as it is and as it should be.
    Differs(String, usize, String, String),
}

impl Wanted {
    /// What the folder should hold: these kernels, and under `--only` everything else as it is.
    pub fn new(folder: &Path, only: &Only, kernels: &[Generated]) -> Result<Self> {
        let present = read(folder)?;
        let mut entries = BTreeMap::new();
        if only.only.is_some()
            && let Some(Some(text)) = present.get(MANIFEST)
        {
            let kept = Manifest::parse(text)?.kernel.into_iter().filter(|entry| !only.means(&entry.name));
            entries.extend(kept.map(|entry| (entry.name.clone(), entry)));
        }
        entries.extend(kernels.iter().map(|kernel| (kernel.entry.name.clone(), kernel.entry.clone())));
        let manifest = Manifest { kernel: entries.into_values().collect() };
        let mut files: BTreeMap<String, String> =
            kernels.iter().map(|kernel| (format!("{}.ptx", kernel.entry.name), kernel.text.clone())).collect();
        files.insert(MANIFEST.to_owned(), manifest.text()?);
        Ok(Self { folder: folder.to_owned(), files, present, only: only.clone() })
    }

    /// What differs, by file name.
    pub fn changes(&self) -> Result<Vec<Change>> {
        let stale = self.present.keys().filter(|name| self.means(name) && !self.files.contains_key(*name));
        let mut changes: Vec<Change> = stale.map(|name| Change::Stale(name.clone())).collect();
        for (name, text) in &self.files {
            match self.present.get(name) {
                None => changes.push(Change::Missing(name.clone())),
                Some(Some(is)) if is == text => {}
                Some(is) => {
                    let (line, is, wanted) = first_difference(is.as_deref().unwrap_or(""), text);
                    changes.push(Change::Differs(name.clone(), line, is, wanted));
                }
            }
        }
        Ok(changes)
    }

    /// Makes the folder what it should be; says what was done.
    pub fn apply(&self, changes: &[Change]) -> Result<String> {
        fs::create_dir_all(&self.folder).with_context(|| format!("cannot make {}", self.folder.display()))?;
        let (mut written, mut removed) = (0, 0);
        for change in changes {
            let path = self.folder.join(change.file());
            match self.files.get(change.file()) {
                Some(text) => {
                    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
                    written += 1;
                }
                None => {
                    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
                    removed += 1;
                }
            }
        }
        Ok(format!("{written} files written, {removed} removed, {} unchanged", self.files.len() - written))
    }

    fn means(&self, file: &str) -> bool {
        file == MANIFEST || self.only.means(file.strip_suffix(".ptx").unwrap_or(file))
    }
}

impl Change {
    fn file(&self) -> &str {
        match self {
            Self::Missing(file) | Self::Stale(file) | Self::Differs(file, ..) => file,
        }
    }

    /// The file and what is wrong with it, in one line.
    pub fn brief(&self) -> String {
        match self {
            Self::Missing(file) => format!("generated/{file} is missing"),
            Self::Stale(file) => format!("generated/{file} stands for no schedule"),
            Self::Differs(file, line, ..) => format!("generated/{file}:{line} differs"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs(_, _, is, wanted) => {
                write!(f, "{}\n    it says:   {is}\n    should be: {wanted}", self.brief())
            }
            _ => f.write_str(&self.brief()),
        }
    }
}

/// The first line, from 1, in which two different texts differ, as each has it.
fn first_difference(is: &str, wanted: &str) -> (usize, String, String) {
    let (mut a, mut b) = (is.split('\n'), wanted.split('\n'));
    let shown = |line: Option<&str>| line.map_or("(the end of the file)".to_owned(), |text| text.trim_end().to_owned());
    for line in 1.. {
        let (x, y) = (a.next(), b.next());
        if x != y || x.is_none() {
            return (line, shown(x), shown(y));
        }
    }
    unreachable!("one of the texts ends")
}

/// The files of a folder; none where there is no folder.
fn read(folder: &Path) -> Result<BTreeMap<String, Option<String>>> {
    let mut files = BTreeMap::new();
    if !folder.exists() {
        return Ok(files);
    }
    let cannot = || format!("cannot read {}", folder.display());
    for file in fs::read_dir(folder).with_context(cannot)? {
        let path = file.with_context(cannot)?.path();
        if let Some(name) = path.file_name().and_then(|name| name.to_str())
            && path.is_file()
        {
            let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(name.to_owned(), String::from_utf8(bytes).ok());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::{Change, Wanted, first_difference};
    use crate::house::Only;
    use std::collections::BTreeMap;

    fn wanted(files: &[(&str, &str)], present: &[(&str, &str)], only: &str) -> Wanted {
        let own = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        Wanted {
            folder: "unused".into(),
            files: own(files),
            present: own(present).into_iter().map(|(name, text)| (name, Some(text))).collect(),
            only: Only { only: glob::Pattern::new(only).ok() },
        }
    }

    #[test]
    fn each_kind_of_change_is_named() {
        let changes = wanted(&[("a.ptx", "1\n2\n"), ("b.ptx", "1\n")], &[("a.ptx", "1\n3\n"), ("c.ptx", "")], "*");
        let changes = changes.changes().expect("nothing is read");
        assert_eq!(
            changes,
            [
                Change::Stale("c.ptx".into()),
                Change::Differs("a.ptx".into(), 2, "3".into(), "2".into()),
                Change::Missing("b.ptx".into()),
            ]
        );
        assert_eq!(changes[1].to_string(), "generated/a.ptx:2 differs\n    it says:   3\n    should be: 2");
    }

    #[test]
    fn files_outside_of_the_glob_are_left_alone() {
        let changes = wanted(&[("a.ptx", "")], &[("a.ptx", ""), ("c.ptx", "")], "a*");
        assert_eq!(changes.changes().expect("nothing is read"), []);
    }

    #[test]
    fn the_first_difference_may_be_an_end() {
        assert_eq!(first_difference("a\n", "a\nb\n"), (2, String::new(), "b".into()));
        assert_eq!(first_difference("a", "a\n"), (2, "(the end of the file)".into(), String::new()));
    }
}
