//! Processes that are killed at the end of their test.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use berth_testkit::documents::repository;
use berth_testkit::programs::TempDir;

/// Timeout of all steps, also on slow machines; not a performance requirement.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// Interval between two polls.
pub const POLL: Duration = Duration::from_millis(50);

/// A running `berth`; killed when dropped.
pub struct Berth {
    child: Child,
    stdout: Receiver<String>,
    stderr: PathBuf,
}

impl Berth {
    /// Starts `berth` with standard error in a file of the directory.
    pub fn start<T: AsRef<std::ffi::OsStr>>(directory: &TempDir, name: &str, args: &[T]) -> Berth {
        let stderr = directory.file(&format!("{name}.stderr"));
        let log = File::options().create(true).append(true).open(&stderr).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
            .args(args)
            .current_dir(repository())
            .env_remove("KUBECONFIG")
            .env("HOME", &directory.0)
            .env("TMPDIR", &directory.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let (sender, stdout) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Berth { child, stdout, stderr }
    }

    /// The next line of standard output; none at the end.
    pub fn line(&self) -> Option<String> {
        match self.stdout.recv_timeout(DEADLINE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing comes; standard error is:\n{}", self.stderr()),
        }
    }

    /// The first line with this prefix, without the prefix; earlier lines are skipped.
    pub fn line_after(&self, beginning: &str) -> String {
        loop {
            match self.line() {
                Some(line) => {
                    if let Some(rest) = line.strip_prefix(beginning) {
                        return rest.to_owned();
                    }
                }
                None => panic!("{beginning:?} does not come; standard error is:\n{}", self.stderr()),
            }
        }
    }

    /// The remaining standard output.
    pub fn rest(&self) -> String {
        let mut text = String::new();
        while let Some(line) = self.line() {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `TERM`.
    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the exit.
    pub fn wait(&mut self) -> ExitStatus {
        let stderr = self.stderr.clone();
        eventually("the process ends", || {
            self.child.try_wait().unwrap().ok_or_else(|| fs::read_to_string(&stderr).unwrap_or_default())
        })
    }

    /// Kills the process (SIGKILL).
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Repeats until the result is `Ok`; panics with the last error after [`DEADLINE`].
pub fn eventually<T, E: std::fmt::Display>(what: &str, mut ask: impl FnMut() -> Result<T, E>) -> T {
    let begin = Instant::now();
    loop {
        match ask() {
            Ok(value) => return value,
            Err(why) if begin.elapsed() > DEADLINE => panic!("not so in time: {what}: {why}"),
            Err(_) => std::thread::sleep(POLL),
        }
    }
}
