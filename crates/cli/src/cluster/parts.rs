//! Parts of a cluster that run beside each other in one process.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::CliError;

/// A part that is told to stop and has not ended this long after is given up.
const GRACE: Duration = Duration::from_secs(10);

/// Running parts.
pub struct Parts {
    stop: CancellationToken,
    running: JoinSet<(&'static str, Result<(), String>)>,
}

impl Parts {
    /// None yet; all of them are told to stop with this token.
    pub fn new(stop: CancellationToken) -> Parts {
        Parts { stop, running: JoinSet::new() }
    }

    /// The token.
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts one; `part` is given the token that tells it to stop.
    pub fn start<F, E>(&mut self, name: &'static str, part: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        let running = part(self.stop.clone());
        self.running.spawn(async move { (name, running.await.map_err(|e| e.to_string())) });
    }

    /// Waits for the first that ends, which none does by itself while all is well.
    ///
    /// # Errors
    /// It ended without being told to.
    pub async fn failed(&mut self) -> Result<(), CliError> {
        let joined = self.running.join_next().await;
        if self.stop.is_cancelled() {
            return Ok(());
        }
        let (name, reason) = match joined {
            None => std::future::pending().await,
            Some(Ok((name, Ok(())))) => (name, "it ended by itself".to_owned()),
            Some(Ok((name, Err(reason)))) => (name, reason),
            // Its message stands above.
            Some(Err(_)) => ("part", "it panicked, which is a defect of Berth: please report it".to_owned()),
        };
        Err(CliError::Part { name, reason })
    }

    /// Tells all to stop and waits for them.
    pub async fn end(mut self) {
        self.stop.cancel();
        let all = async {
            while let Some(joined) = self.running.join_next().await {
                if let Ok((name, Err(reason))) = joined {
                    tracing::warn!("{name}: {reason}");
                }
            }
        };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            tracing::warn!("not all parts ended within {} s", GRACE.as_secs());
        }
    }
}
