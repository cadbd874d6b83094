//! Searches the sources of crates without side effects for clocks, files, sockets and printing, and those of the engine
//! for the reading of manifests. Tests are skipped: they may read files.

use std::fs;
use std::path::Path;

use crate::sources::{code_lines, rust_files};

const PURE: [&str; 8] = [
    "crates/decide/api/src",
    "crates/decide/cel/src",
    "crates/decide/rules/src",
    "crates/decide/input/src",
    "crates/decide/control/src",
    "crates/decide/engine/src",
    "crates/decide/simulate/src",
    "crates/show/picture/src",
];

/// Text that a crate without side effects does not contain.
const IMPURE: [&str; 14] = [
    "std::fs",
    "std::net",
    "std::time",
    "std::process",
    "std::env",
    // Threads within a call change nothing outside of it.
    "thread::sleep",
    "thread::spawn",
    "SystemTime",
    "Instant::now",
    "stdin()",
    "println!(",
    "eprint!(",
    "print!(",
    "dbg!(",
];

/// Text that the engine does not contain: it never sees the text of objects.
const MANIFESTS: [&str; 6] = [
    "berth_rules::admission",
    "berth_control::expand",
    "berth_input::inventory",
    "berth_api::read",
    "berth_input::recording",
    "serde_json",
];

/// Every forbidden line, as `file:line: what`.
pub fn impure_sources(root: &Path) -> Result<Vec<String>, String> {
    let mut findings = Vec::new();
    let mut check = |folder: &str, forbidden: &[&'static str], rule: &str| {
        let mut files = Vec::new();
        rust_files(&root.join(folder), &mut files)?;
        for file in files {
            let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            let shown = file.strip_prefix(root).unwrap_or(&file).display();
            for (line, found) in lines_with(&text, forbidden) {
                findings.push(format!("{shown}:{line}: {found} in {rule}"));
            }
        }
        Ok::<(), String>(())
    };
    for folder in PURE {
        check(folder, &IMPURE, "a crate without clock and I/O")?;
    }
    check("crates/decide/engine/src", &MANIFESTS, "the engine, which never sees the text of objects")?;
    Ok(findings)
}

/// Line numbers (from 1) with the forbidden text of each.
fn lines_with(text: &str, forbidden: &[&'static str]) -> Vec<(usize, &'static str)> {
    let found = |(i, line): (usize, &str)| Some((i, *forbidden.iter().find(|f| line.contains(**f))?));
    code_lines(text).filter_map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_output_are_found_outside_comments_and_tests() {
        let text = "//! std::fs is not for us\nuse std::fs::File;\nfn f() {\n    println!(\"x\");\n    // dbg!(1)\n}\n\
                    #[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert_eq!(lines_with(text, &IMPURE), [(2, "std::fs"), (4, "println!(")]);
    }

    #[test]
    fn a_test_module_in_its_own_file_ends_nothing() {
        let text = "#[cfg(test)]\nmod tests;\nuse std::net::Ipv4Addr;\n";
        assert_eq!(lines_with(text, &IMPURE), [(3, "std::net")]);
    }
}
