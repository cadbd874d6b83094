//! Errors of benchmarks.

use std::io;
use std::path::PathBuf;

use berth_bench::load::LoadError;
use berth_bench::workload::WorkloadError;
use berth_client::call::CallError;
use berth_client::connect::ConnectError;
use berth_client::watch::ListError;
use berth_terminal::input::OpenError;
use berth_terminal::runtime::RuntimeError;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A benchmark file cannot be used.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Threads or signal handlers cannot be created.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("interrupted")]
    Interrupted,
    #[error(
        "{}: no such file: build it with `cargo build --release`, or set BERTH_BIN to the path of berth",
        .0.display()
    )]
    NoProgram(PathBuf),
    /// A process cannot be started, or did not become ready.
    #[error("berth {command}: {reason}")]
    Child { command: String, reason: String },
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    List(#[from] ListError),
    #[error("timed out after {seconds} s waiting until {what}")]
    Timeout { what: String, seconds: u64 },
    #[error("{0}")]
    Other(String),
}
