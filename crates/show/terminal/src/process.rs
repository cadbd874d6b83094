//! Arguments and exit codes of a process.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::{Command, FromArgMatches};

use crate::output;
use crate::wrap::harmless;

/// Result of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// All pods are placed, no rule is violated, no difference was found.
    Success,
    /// A pod is unplaced, a rule is violated, a pod is selected twice, or a difference was found.
    Failure,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> ExitCode {
        match status {
            ExitStatus::Success => ExitCode::SUCCESS,
            ExitStatus::Failure => ExitCode::from(1),
        }
    }
}

/// The arguments of this process; prints help, the version and usage errors.
///
/// # Errors
/// The exit code if there is no command to run.
pub fn arguments<T: FromArgMatches>(command: Command) -> Result<T, ExitCode> {
    parsed(command, std::env::args_os().collect())
}

/// The same of other arguments; the first one is the name of the program.
pub fn parsed<T: FromArgMatches>(mut command: Command, words: Vec<OsString>) -> Result<T, ExitCode> {
    let mut parse = |words: &[OsString]| {
        let matches = command.try_get_matches_from_mut(words);
        matches.and_then(|matches| T::from_arg_matches(&matches))
    };
    // The error quotes words: what a terminal would obey is escaped in them.
    let escaped = |word: &OsString| OsString::from(harmless(&word.to_string_lossy()));
    let parsed = parse(&words)
        .map_err(|error| parse(&words.iter().map(escaped).collect::<Vec<_>>()).err().unwrap_or(error));
    parsed.map_err(|error| match error.print() {
        Err(failure) if !error.use_stderr() => output_failed(&failure),
        // There is no other output when standard error is closed.
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    })
}

/// Reports that standard output cannot be written, and returns the exit code.
pub fn output_failed(error: &io::Error) -> ExitCode {
    // 128 + SIGPIPE, as shells report it.
    if error.kind() == io::ErrorKind::BrokenPipe {
        return ExitCode::from(141);
    }
    output::error(&format!("cannot write the output: {error}"));
    ExitCode::from(2)
}

/// Leaves a large value to the end of the process, which frees all memory at once: 50,000 pods take a tenth of a second.
pub fn leave_to_exit<T>(value: T) {
    std::mem::forget(value);
}
