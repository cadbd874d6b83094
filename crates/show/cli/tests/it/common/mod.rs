//! Runs the built binary.

#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The result of a run of `berth`.
pub struct Ran {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

/// Runs `berth` in a directory, with this on its standard input.
pub fn berth<T: AsRef<OsStr>>(directory: &Path, args: &[T], stdin: &[u8]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(args)
        .current_dir(directory)
        .env_remove("CLICOLOR_FORCE")
        .env_remove("COLUMNS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that does not read its input can exit before it is written.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    Ran {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap(),
    }
}
