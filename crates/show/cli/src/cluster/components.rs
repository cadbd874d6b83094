//! Components of a cluster that run concurrently in one process.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long to wait for components to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A component ended without being stopped.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct ComponentError {
    name: &'static str,
    reason: String,
}

pub struct Components {
    stop: CancellationToken,
    running: JoinSet<(&'static str, Result<(), String>)>,
}

impl Components {
    /// No components yet; the token will stop all of them.
    pub fn new(stop: CancellationToken) -> Components {
        Components { stop, running: JoinSet::new() }
    }

    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a component with the token that stops it.
    pub fn start<F, E>(&mut self, name: &'static str, component: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        let running = component(self.stop.clone());
        self.running.spawn(async move { (name, running.await.map_err(|e| e.to_string())) });
    }

    /// Waits until a component ends; without errors, none does before it is stopped.
    ///
    /// # Errors
    /// The component ended without being stopped.
    pub async fn failed(&mut self) -> Result<(), ComponentError> {
        let joined = self.running.join_next().await;
        if self.stop.is_cancelled() {
            return Ok(());
        }
        let (name, reason) = match joined {
            None => std::future::pending().await,
            Some(Ok((name, Ok(())))) => (name, "ended unexpectedly".to_owned()),
            Some(Ok((name, Err(reason)))) => (name, reason),
            // The panic message precedes this error.
            Some(Err(_)) => ("component", "panicked; this is a bug in Berth, please report it".to_owned()),
        };
        Err(ComponentError { name, reason })
    }

    /// Runs until `stop` or until a component ends, and then stops all components.
    pub async fn run_until(mut self, stop: &CancellationToken) -> Result<(), ComponentError> {
        let ended = stop.run_until_cancelled(self.failed()).await;
        self.stop().await;
        ended.unwrap_or(Ok(()))
    }

    pub async fn stop(mut self) {
        self.stop.cancel();
        let all = async {
            while let Some(joined) = self.running.join_next().await {
                if let Ok((name, Err(reason))) = joined {
                    tracing::warn!("{name}: {reason}");
                }
            }
        };
        if tokio::time::timeout(STOP_TIMEOUT, all).await.is_err() {
            tracing::warn!("some components did not stop within {} s", STOP_TIMEOUT.as_secs());
        }
    }
}
