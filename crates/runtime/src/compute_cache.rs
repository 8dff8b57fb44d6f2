//! Whether the driver keeps what it compiled, so that only the first process pays (CUDA guide, environment variables).

use std::path::{Path, PathBuf};

/// Why kernels will be compiled anew in every process, if they will: the driver's compute cache is off or cannot be
/// written.
pub fn compute_cache_note() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok();
    note(&variable, &writable)
}

/// The judgement, over an environment and a way to try a folder.
fn note(variable: &dyn Fn(&str) -> Option<String>, writable: &dyn Fn(&Path) -> bool) -> Option<String> {
    if variable("CUDA_CACHE_DISABLE").is_some_and(|value| value.trim() != "0") {
        return Some("the driver's compute cache is off (CUDA_CACHE_DISABLE): every process compiles anew".into());
    }
    let folder = match variable("CUDA_CACHE_PATH") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(variable("HOME")?).join(".nv/ComputeCache"),
    };
    if writable(&folder) {
        return None;
    }
    let folder = folder.display();
    Some(format!(
        "the driver's compute cache {folder} cannot be written: every process compiles anew. Set CUDA_CACHE_PATH"
    ))
}

/// Whether the folder, or the nearest one above it that is there, can be written.
fn writable(folder: &Path) -> bool {
    let Some(there) = folder.ancestors().find(|path| path.exists()) else { return false };
    std::fs::metadata(there).is_ok_and(|found| found.is_dir() && !found.permissions().readonly())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)], can_write: bool) -> Option<String> {
        let variable = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        note(&variable, &|_| can_write)
    }

    #[test]
    fn a_usable_cache_needs_no_note() {
        assert_eq!(with(&[("HOME", "/home/a")], true), None);
        assert_eq!(with(&[("HOME", "/home/a"), ("CUDA_CACHE_DISABLE", "0")], true), None);
    }

    #[test]
    fn a_cache_that_is_off_or_read_only_is_told_with_its_folder() {
        assert!(with(&[("CUDA_CACHE_DISABLE", "1")], true).is_some_and(|note| note.contains("CUDA_CACHE_DISABLE")));
        assert!(with(&[("HOME", "/home/a")], false).is_some_and(|note| note.contains("/home/a/.nv/ComputeCache")));
        assert!(with(&[("CUDA_CACHE_PATH", "/c")], false).is_some_and(|note| note.contains("/c")));
    }
}
