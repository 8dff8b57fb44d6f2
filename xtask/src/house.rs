//! Where things are, which kernels a task is about, and how progress looks. Knows no task.

use anyhow::{Result, bail};
use glob::Pattern;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};

/// The root of the house.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The folder of generated kernels.
pub fn generated() -> PathBuf {
    root().join("generated")
}

/// A path as a reader at the root would write it.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The option that limits a task to some kernels.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Only {
    /// Only kernels whose name matches, e.g. 'fwd_*_d128*'
    #[arg(long, value_name = "GLOB")]
    pub only: Option<Pattern>,
}

impl Only {
    /// Whether a kernel of that name is meant.
    pub fn means(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|pattern| pattern.matches(name))
    }

    /// The names that are meant.
    ///
    /// # Errors
    /// None is, although some were asked for.
    pub fn among<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Result<Vec<&'a str>> {
        let meant: Vec<&str> = names.clone().filter(|name| self.means(name)).collect();
        match &self.only {
            Some(pattern) if meant.is_empty() => {
                bail!("no kernel is called {pattern}; there are: {}", names.collect::<Vec<_>>().join(", "))
            }
            _ => Ok(meant),
        }
    }
}

/// The candidate that a mistyped name most likely meant.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// A bar over `length` steps. Hidden where there is no terminal.
pub fn bar(length: usize, what: &str) -> ProgressBar {
    let template = "{prefix:>12} [{bar:32}] {pos}/{len} {msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length as u64).with_style(style.progress_chars("=> ")).with_prefix(what.to_owned())
}

/// A table with its columns aligned: the first to the left, the others to the right.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(String::len).chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let head: Vec<String> = head.iter().map(|&title| title.to_owned()).collect();
    let mut out = String::new();
    for row in std::iter::once(&head).chain(rows) {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match column {
                0 => out.push_str(&format!("{cell:<width$}")),
                _ => out.push_str(&format!("  {cell:>width$}")),
            }
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// The hash of a file as the manifest writes it.
pub fn hash(bytes: &[u8]) -> String {
    format!("{:016x}", schedule::fnv1a(bytes))
}

#[cfg(test)]
mod tests {
    use super::{Only, hash, nearest, table};

    #[test]
    fn a_glob_that_means_nothing_lists_the_names() {
        let only = Only { only: glob::Pattern::new("bwd_*").ok() };
        let error = only.among(["fwd_a", "fwd_b"].into_iter()).expect_err("nothing matches");
        assert_eq!(error.to_string(), "no kernel is called bwd_*; there are: fwd_a, fwd_b");
    }

    #[test]
    fn a_mistyped_name_finds_its_neighbour() {
        assert_eq!(nearest("fwd_bf16_d12", ["fwd_bf16_d128", "fwd_f16_d64"].into_iter()), Some("fwd_bf16_d128"));
        assert_eq!(nearest("zzz", ["fwd_bf16_d128"].into_iter()), None);
    }

    #[test]
    fn columns_align() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "234".to_owned()]];
        assert_eq!(table(&["name", "n"], &rows), "name    n\na       1\nlong  234\n");
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(hash(b""), "cbf29ce484222325");
        assert_eq!(hash(b"a"), "af63dc4c8601ec8c");
    }
}
