//! Golden scripts: commands with the output of `berth`.
//!
//! A script in `golden/` has comments (`# ...`), files (`== name`, then their content) and commands
//! (`$ berth ... [< file]`), each followed by its standard output, its standard error with `! ` before each line,
//! and its exit code if it is not 0. `BERTH_UPDATE_GOLDEN=1 cargo test -p berth-cli` updates them.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::common::berth;
use crate::expected::difference;
use crate::scratch::Scratch;

#[test]
fn scripts_print_the_expected_output() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path());
    let mut scripts: Vec<_> = entries.filter(|path| path.is_file()).collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    let mut wrong = String::new();
    for path in scripts {
        let expected = fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy();
        let got = replayed(&name, &expected);
        wrong.extend(difference(&path, &got));
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The script with the current output of its commands.
fn replayed(name: &str, script: &str) -> String {
    let scratch = Scratch::new(name);
    let mut got = String::new();
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        writeln!(got, "{line}").unwrap();
        if let Some(file) = line.strip_prefix("== ") {
            let mut content = String::new();
            while let Some(line) = lines.next_if(|l| !begins_block(l)) {
                writeln!(content, "{line}").unwrap();
            }
            fs::write(scratch.0.join(file), &content).unwrap();
            got.push_str(&content);
        } else if let Some(command) = line.strip_prefix("$ berth ") {
            while lines.next_if(|l| !begins_block(l)).is_some() {}
            got.push_str(&output(&scratch.0, command));
            if lines.peek().is_some() {
                got.push('\n');
            }
        }
    }
    got
}

fn begins_block(line: &str) -> bool {
    ["# ", "== ", "$ "].iter().any(|mark| line.starts_with(mark))
}

fn output(directory: &Path, command: &str) -> String {
    let (command, stdin) = match command.split_once(" < ") {
        Some((command, file)) => (command, fs::read(directory.join(file)).unwrap()),
        None => (command, Vec::new()),
    };
    let args: Vec<_> = command.split_whitespace().collect();
    let ran = berth(directory, &args, &stdin);
    let mut output = ran.stdout;
    for line in ran.stderr.lines() {
        writeln!(output, "! {line}").unwrap();
    }
    if ran.code != 0 {
        writeln!(output, "[exit {}]", ran.code).unwrap();
    }
    output
}
