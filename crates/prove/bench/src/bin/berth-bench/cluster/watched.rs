//! Nodes or pods as a client that watches sees them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use berth_api::resource::Resource;
use berth_client::{Cache, Informer, ObservedObject, WatchOptions};
use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::BenchError;

/// Maximum number of changes per batch.
const MAX_CHANGES: usize = 4096;

/// All objects of a resource.
pub struct Watched {
    cache: Arc<Cache<ObservedObject>>,
    /// Each created or changed object; none for a deletion.
    changes: mpsc::UnboundedReceiver<Option<Arc<ObservedObject>>>,
    _stop: DropGuard,
}

impl Watched {
    pub fn start(client: &Client, resource: &Resource) -> Watched {
        let (sender, changes) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let mut informer = Informer::<ObservedObject>::new(WatchOptions::new(resource.path("")));
        informer.on_change(move |change| _ = sender.send(change.new.cloned()));
        let cache = informer.cache();
        tokio::spawn(informer.run(client.clone(), stop.clone()));
        Watched { cache, changes, _stop: stop.drop_guard() }
    }

    pub fn objects(&self) -> Vec<Arc<ObservedObject>> {
        self.cache.all()
    }

    pub fn len(&self) -> usize {
        self.cache.n_objects()
    }

    /// Waits for changes; `report` gets each created or changed object.
    pub async fn next(&mut self, report: impl FnMut(&ObservedObject)) {
        let mut changes = Vec::new();
        self.changes.recv_many(&mut changes, MAX_CHANGES).await;
        changes.iter().flatten().map(Arc::as_ref).for_each(report);
    }

    /// Waits until the objects meet a condition.
    pub async fn until(
        &mut self,
        what: &str,
        timeout: Duration,
        is_met: impl Fn(&Watched) -> bool,
    ) -> Result<(), BenchError> {
        let waiting = async {
            while !is_met(self) {
                self.next(|_| ()).await;
            }
        };
        within(timeout, what, waiting).await
    }
}

/// Waits for a future.
pub async fn within<T>(
    timeout: Duration,
    what: &str,
    future: impl Future<Output = T>,
) -> Result<T, BenchError> {
    let late = |_| BenchError::Timeout { what: what.to_owned(), seconds: timeout.as_secs() };
    tokio::time::timeout(timeout, future).await.map_err(late)
}
