//! The Rust sources of a folder.

use std::fs;
use std::path::{Path, PathBuf};

/// Adds all Rust files below a folder, sorted; files and folders named `tests` are skipped.
pub fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let error = |e| format!("{}: {e}", folder.display());
    let entries = fs::read_dir(folder).map_err(error)?;
    let mut paths =
        entries.map(|entry| Ok(entry.map_err(error)?.path())).collect::<Result<Vec<_>, String>>()?;
    paths.sort();
    for path in paths.into_iter().filter(|path| path.file_stem().is_none_or(|stem| stem != "tests")) {
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The trimmed lines of a file with their numbers (from 1), without comments and the test module that ends the file.
pub fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_test_module =
        |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    let end = lines.windows(2).position(is_test_module).unwrap_or(lines.len());
    let numbered = lines.into_iter().take(end).enumerate();
    numbered.filter(|(_, line)| !line.starts_with("//")).map(|(i, line)| (i + 1, line))
}
