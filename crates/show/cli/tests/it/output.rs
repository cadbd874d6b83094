//! Output on terminals and pipes: colors, and readers that close the pipe.

use std::io::Write;
use std::process::{Command, Stdio};

const POD: &str =
    "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}";

fn simulate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["simulate", "-f", "-", "--nodes", "1"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn a_closed_pipe_causes_no_panic() {
    let mut child = simulate().spawn().unwrap();
    // The program waits for its input: the reader closes the pipe before the program writes.
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(POD.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(141), ""));
}

#[test]
#[cfg(target_os = "linux")]
fn help_that_cannot_be_written_is_an_error() {
    for flag in ["--help", "--version"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_berth")).arg(flag).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flag}: {stderr}");
        assert!(stderr.starts_with("error: cannot write the output: "), "{flag}: {stderr}");
    }
}

#[test]
fn colors_are_used_on_terminals_or_on_request() {
    let is_coloured = |variables: &[&str], args: &[&str]| {
        let mut command = simulate();
        command.envs(variables.iter().map(|name| (name, "1"))).args(args);
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(POD.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        output.stdout.contains(&0x1b)
    };
    assert!(!is_coloured(&[], &[]));
    assert!(is_coloured(&[], &["--color", "always"]));
    assert!(is_coloured(&["CLICOLOR_FORCE"], &[]));
    assert!(!is_coloured(&["CLICOLOR_FORCE", "NO_COLOR"], &[]));
    assert!(!is_coloured(&["CLICOLOR_FORCE"], &["--color", "never"]));
}

#[test]
fn text_fits_80_columns_without_broken_words() {
    let explained = |columns: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        command.args(["explain", "-f", "examples/unschedulable", "database-1"]).current_dir(root);
        String::from_utf8(command.env("COLUMNS", columns).output().unwrap().stdout).unwrap()
    };
    let (narrow, wide) = (explained("80"), explained("1000"));
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&narrow), words(&wide), "no word is broken");
    // Users copy commands.
    let is_text = |line: &str| line.trim_start().contains(' ') && !line.trim_start().starts_with("$ ");
    let too_long = |line: &&str| line.chars().count() > 80 && is_text(line);
    assert_eq!(narrow.lines().filter(too_long).collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(wide.lines().count() < narrow.lines().count(), "{wide}");
}
