//! The runtime that the parts of a cluster share, and how signals end it.

use std::future::Future;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::CliError;

/// Parts that have not ended this long after the command did are given up.
const GRACE: Duration = Duration::from_secs(5);
/// What a shell shows for a program that SIGINT ended.
const INTERRUPTED: i32 = 130;

/// Runs a command to its end on a runtime of its own. The token is cancelled by the first SIGINT or SIGTERM; a
/// second one ends the process where it is.
///
/// # Errors
/// Those of the command; the system gives no threads or signals.
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
    runtime.shutdown_timeout(GRACE);
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
