//! Looks through the sources of `api` and `engine` for clocks, files, sockets and printing. Tests are left
//! out: they may read recordings.

use std::fs;
use std::path::{Path, PathBuf};

const ROOMS: [&str; 2] = ["crates/api/src", "crates/engine/src"];

/// Text that has no place in a pure crate.
const IMPURE: [&str; 13] = [
    "std::fs",
    "std::net",
    "std::time",
    "std::process",
    "std::env",
    "std::thread",
    "SystemTime",
    "Instant::now",
    "stdin()",
    "println!(",
    "eprint!(",
    "print!(",
    "dbg!(",
];

/// Every offending line, as `file:line: what`.
pub fn impure_sources(root: &Path) -> Result<Vec<String>, String> {
    let mut complaints = Vec::new();
    for room in ROOMS {
        let mut files = Vec::new();
        rust_files(&root.join(room), &mut files)?;
        files.sort();
        for file in files {
            let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            let shown = file.strip_prefix(root).unwrap_or(&file).display();
            for (line, found) in impure_lines(&text) {
                complaints.push(format!("{shown}:{line}: {found} in a crate without clock and I/O"));
            }
        }
    }
    Ok(complaints)
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        let is_tests = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_tests {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") && !is_tests {
            files.push(path);
        }
    }
    Ok(())
}

/// Line numbers (from 1) and what was found there; comments and the test module that ends a file are skipped.
fn impure_lines(text: &str) -> Vec<(usize, &'static str)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_test_module =
        |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    let end = lines.windows(2).position(is_test_module).unwrap_or(lines.len());
    let code = lines[..end].iter().enumerate().filter(|(_, line)| !line.starts_with("//"));
    code.filter_map(|(i, line)| Some((i + 1, *IMPURE.iter().find(|text| line.contains(**text))?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_output_are_found_outside_comments_and_tests() {
        let text = "//! std::fs is not for us\nuse std::fs::File;\nfn f() {\n    println!(\"x\");\n    // dbg!(1)\n}\n\
                    #[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert_eq!(impure_lines(text), [(2, "std::fs"), (4, "println!(")]);
    }

    #[test]
    fn a_test_module_in_its_own_file_ends_nothing() {
        assert_eq!(impure_lines("#[cfg(test)]\nmod tests;\nuse std::net::Ipv4Addr;\n"), [(3, "std::net")]);
    }
}
