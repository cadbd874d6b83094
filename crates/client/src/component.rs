//! A part of Berth that runs on its own: what is held of it from outside, and what ends with it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long giving the lease back may take.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// A part that runs, and what it looks like.
#[derive(Debug)]
pub struct ComponentHandle<S> {
    snapshot: watch::Receiver<S>,
    http_address: Option<SocketAddr>,
    task: JoinHandle<()>,
}

/// The part's own task broke down.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ComponentPanicked(#[from] tokio::task::JoinError);

impl<S> ComponentHandle<S> {
    /// A part whose task shows snapshots, and which serves HTTP at an address, if at all.
    pub fn new(
        snapshot: watch::Receiver<S>,
        http_address: Option<SocketAddr>,
        task: JoinHandle<()>,
    ) -> ComponentHandle<S> {
        ComponentHandle { snapshot, http_address, task }
    }

    /// What it looks like now, and as it changes.
    pub fn snapshot(&self) -> watch::Receiver<S> {
        self.snapshot.clone()
    }

    /// Where `/healthz`, `/readyz` and `/metrics` are served.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// It broke down.
    pub async fn stopped(self) -> Result<(), ComponentPanicked> {
        Ok(self.task.await?)
    }

    /// Ends it on the spot, as a crash would: what is under way is not waited for, and a lease is not given back.
    pub fn abort(&self) {
        self.task.abort();
    }
}

/// What was started with a part, and ends with it: however the part itself ends, an elector does not lead for nobody.
#[derive(Debug)]
pub struct Sidecars {
    last: CancellationToken,
    elector: Option<JoinHandle<()>>,
}

impl Sidecars {
    /// `last` stops everything that serves the part until it has ended, `elector` among it.
    pub fn new(last: CancellationToken, elector: Option<JoinHandle<()>>) -> Sidecars {
        Sidecars { last, elector }
    }

    /// Stops them in good order: the lease is given back, if that does not take long.
    pub async fn stop(mut self) {
        self.last.cancel();
        if let Some(elector) = self.elector.take()
            && tokio::time::timeout(RELEASE_TIMEOUT, elector).await.is_err()
        {
            tracing::warn!("the lease is not given back in time, and will run out");
        }
    }
}

impl Drop for Sidecars {
    fn drop(&mut self) {
        if let Some(elector) = &self.elector {
            elector.abort();
        }
        self.last.cancel();
    }
}
