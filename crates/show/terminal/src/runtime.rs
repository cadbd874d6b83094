//! The async runtime that the components share, and its shutdown by signals.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long to wait for remaining tasks after the command.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// 128 + SIGINT, as shells report it.
const INTERRUPTED: i32 = 130;

/// Threads or signal handlers cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot start: {0}")]
pub struct RuntimeError(io::Error);

/// Runs a command on a new runtime. The first SIGINT, SIGTERM or SIGHUP cancels the token; the second one exits the process
/// immediately. A SIGHUP that the process was started to ignore stays ignored.
///
/// # Errors
/// The command fails, or threads or signal handlers cannot be created.
pub fn run<F, T, E>(command: impl FnOnce(CancellationToken) -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
    E: From<RuntimeError>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(RuntimeError)?;
    let outcome = runtime.block_on(async {
        let stop = CancellationToken::new();
        let interrupt = signal(SignalKind::interrupt()).map_err(RuntimeError)?;
        let terminate = signal(SignalKind::terminate()).map_err(RuntimeError)?;
        let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup())).transpose();
        let hangup = hangup.map_err(RuntimeError)?;
        tokio::spawn(cancel_on_signal(interrupt, terminate, hangup, stop.clone()));
        command(stop).await
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}

/// Whether `nohup` or a service manager has set SIGHUP to be ignored; Linux only.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is signal 1, SIGHUP.
    ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1))
}

async fn cancel_on_signal(
    mut interrupt: Signal,
    mut terminate: Signal,
    mut hangup: Option<Signal>,
    stop: CancellationToken,
) {
    let mut next = async || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            Some(()) = async { hangup.as_mut()?.recv().await } => {}
        }
    };
    next().await;
    stop.cancel();
    next().await;
    std::process::exit(INTERRUPTED);
}
