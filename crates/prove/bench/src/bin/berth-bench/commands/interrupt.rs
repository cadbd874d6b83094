//! Benchmarks that a signal ends.

use std::future::Future;

use berth_terminal::runtime;
use tokio_util::sync::CancellationToken;

use crate::error::BenchError;

/// Runs a benchmark on a new runtime until it or a signal ends it, which also cancels the token.
///
/// # Errors
/// The benchmark fails or is interrupted.
pub fn until_interrupted<T, F>(benchmark: impl FnOnce(CancellationToken) -> F) -> Result<T, BenchError>
where
    F: Future<Output = Result<T, BenchError>>,
{
    runtime::run(async |stop| {
        tokio::select! {
            report = benchmark(stop.clone()) => report,
            () = stop.cancelled() => Err(BenchError::Interrupted),
        }
    })
}
