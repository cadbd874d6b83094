//! The async runtime that the components share, and its shutdown by signals.

use std::future::Future;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::CliError;

/// How long to wait for remaining tasks after the command.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// 128 + SIGINT, as shells report it.
const INTERRUPTED: i32 = 130;

/// Runs a command on a new runtime. The first SIGINT or SIGTERM cancels the token; the second one exits the process
/// immediately.
///
/// # Errors
/// The command fails, or threads or signal handlers cannot be created.
pub fn run<F, T>(command: impl FnOnce(CancellationToken) -> F) -> Result<T, CliError>
where
    F: Future<Output = Result<T, CliError>>,
{
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::Runtime)?;
    let outcome = runtime.block_on(async {
        let stop = CancellationToken::new();
        let interrupt = signal(SignalKind::interrupt()).map_err(CliError::Runtime)?;
        let terminate = signal(SignalKind::terminate()).map_err(CliError::Runtime)?;
        tokio::spawn(cancel_on_signal(interrupt, terminate, stop.clone()));
        command(stop).await
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}

async fn cancel_on_signal(mut interrupt: Signal, mut terminate: Signal, stop: CancellationToken) {
    let mut next = async || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    next().await;
    stop.cancel();
    next().await;
    std::process::exit(INTERRUPTED);
}
