//! Components of a cluster as child processes, which are killed at the end of the benchmark.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use berth_apiserver::TemporaryDir;
use berth_bench::measure::memory_of;
use berth_client::connect::Options;

use crate::error::BenchError;

pub struct Server {
    child: Child,
}

impl Server {
    /// Starts `berth ARGS` and waits until it has written its kubeconfig to this directory. Also returns how to connect.
    pub fn start(args: &[&str], directory: &TemporaryDir) -> Result<(Server, Options), BenchError> {
        let kubeconfig = directory.path().join("kubeconfig");
        let command = args.join(" ");
        let fail = |reason: String| BenchError::Child { command: command.clone(), reason };
        let mut child = Command::new(program()?)
            .args(args)
            .arg("--kubeconfig-out")
            .arg(&kubeconfig)
            // The directory is removed at the end, with what a killed process leaves there.
            .env("TMPDIR", directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| fail(e.to_string()))?;
        let stdout = child.stdout.take();
        let server = Server { child };
        let mut lines = stdout.map(|out| BufReader::new(out).lines()).into_iter().flatten();
        // The process prints nothing after this line: the pipe can be dropped.
        match lines.find(|line| line.as_ref().is_ok_and(|l| l.starts_with("export KUBECONFIG="))) {
            Some(_) => Ok((server, Options { kubeconfig: Some(kubeconfig), ..Options::default() })),
            None => Err(fail("exited before it was ready; its messages are above".to_owned())),
        }
    }

    /// Starts `berth ARGS` without waiting.
    pub fn spawn(args: &[&str]) -> Result<Server, BenchError> {
        let command = args.join(" ");
        let spawned = Command::new(program()?).args(args).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        match spawned {
            Ok(child) => Ok(Server { child }),
            Err(error) => Err(BenchError::Child { command, reason: error.to_string() }),
        }
    }

    /// Peak memory in bytes; Linux only.
    pub fn peak_rss_bytes(&self) -> Option<u64> {
        memory_of(&self.child.id().to_string(), "VmHWM")
    }

    /// Resident memory in bytes; Linux only.
    pub fn rss_bytes(&self) -> Option<u64> {
        memory_of(&self.child.id().to_string(), "VmRSS")
    }

    /// CPU time; Linux only.
    pub fn cpu_time(&self) -> Option<Duration> {
        cpu_time(&self.child.id().to_string())
    }

    /// Ends the process at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A directory that is removed at the end.
pub fn temporary_dir() -> Result<TemporaryDir, BenchError> {
    let failed = |error| BenchError::Other(format!("cannot create a temporary directory: {error}"));
    TemporaryDir::new().map_err(failed)
}

/// The program `berth`: the one that BERTH_BIN names, or the one beside this program.
pub fn program() -> Result<PathBuf, BenchError> {
    let program = match std::env::var_os("BERTH_BIN") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name(format!("berth{}", std::env::consts::EXE_SUFFIX)),
    };
    if program.is_file() { Ok(program) } else { Err(BenchError::NoProgram(program)) }
}

/// CPU time of this process; Linux only.
pub fn own_cpu_time() -> Option<Duration> {
    cpu_time("self")
}

/// CPU time of this process since an earlier reading; Linux only.
pub fn own_cpu_since(before: Option<Duration>) -> Option<Duration> {
    Some(own_cpu_time()?.saturating_sub(before?))
}

fn cpu_time(process: &str) -> Option<Duration> {
    // The unit of /proc, independent of the kernel's tick.
    const TICKS_PER_SECOND: u64 = 100;
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The process name, in parentheses, can contain spaces. After it, the state is field 3, and the times are 14 and 15.
    let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks(14)? + ticks(15)?) * (1000 / TICKS_PER_SECOND)))
}
