//! Spawned components: their handles, and what stops with them.

use std::net::SocketAddr;
use std::time::Duration;

use berth_serve::health::Readiness;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::lease::{Leadership, LeaseOptions, elect};
use crate::serving::{self, Addresses, Content, ServeError, ServingOptions};
use crate::watch::WatchFailure;

/// How long the release of the lease may take.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct ComponentHandle<S> {
    status: watch::Receiver<S>,
    addresses: Addresses,
    task: JoinHandle<Result<(), WatchFailure>>,
}

/// Why a component ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    #[error("it ended unexpectedly: {0}")]
    Panicked(#[from] tokio::task::JoinError),
    /// It cannot read the cluster.
    #[error(transparent)]
    Watch(#[from] WatchFailure),
}

impl<S> ComponentHandle<S> {
    /// The handle of a component whose task publishes statuses.
    pub fn new(
        status: watch::Receiver<S>,
        addresses: Addresses,
        task: JoinHandle<Result<(), WatchFailure>>,
    ) -> ComponentHandle<S> {
        ComponentHandle { status, addresses, task }
    }

    /// Its current status, and the later ones.
    pub fn status(&self) -> watch::Receiver<S> {
        self.status.clone()
    }

    /// Where `/healthz`, `/readyz` and `/metrics` are served over plain HTTP.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.addresses.http
    }

    /// Where the same is served over HTTPS.
    pub fn https_address(&self) -> Option<SocketAddr> {
        self.addresses.https
    }

    /// Waits until the component has stopped.
    ///
    /// # Errors
    /// The component ended by itself.
    pub async fn stopped(self) -> Result<(), ComponentError> {
        Ok(self.task.await??)
    }

    /// Stops the component as a crash would: requests in flight are dropped, and a lease is not released.
    pub fn abort(&self) {
        self.task.abort();
    }
}

/// What was started with a component and stops with it, even if the component panics.
#[derive(Debug)]
pub struct Sidecars {
    /// Stops everything that serves the component until it has ended, the elector included.
    last: CancellationToken,
    elector: Option<JoinHandle<()>>,
}

impl Sidecars {
    /// Serves a component, and takes part in its election, if it has one. `client` has no rate limit.
    pub async fn start<S: Readiness>(
        client: kube::Client,
        serving: &ServingOptions,
        content: Content<S>,
        election: Option<LeaseOptions>,
    ) -> Result<(Sidecars, Addresses, Leadership), ServeError> {
        let last = CancellationToken::new();
        let addresses = serving::serve(client.clone(), serving, content, last.clone()).await?;
        let (leadership, elector) = match election {
            Some(lease) => {
                let (leadership, elector) = elect(client, lease, last.clone());
                (leadership, Some(elector))
            }
            None => (Leadership::uncontested(), None),
        };
        Ok((Sidecars { last, elector }, addresses, leadership))
    }

    /// A token that stops with them.
    pub fn token(&self) -> CancellationToken {
        self.last.clone()
    }

    /// Stops them. The lease is released, if that does not take too long.
    pub async fn stop(mut self) {
        self.last.cancel();
        if let Some(elector) = self.elector.take()
            && tokio::time::timeout(RELEASE_TIMEOUT, elector).await.is_err()
        {
            tracing::warn!("the lease is not released in time and will expire");
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
