//! Keeps a [`Cache`] equal to the objects of the API server.
//!
//! After a relist, the informer reports the differences to the handlers as changes. Handlers run in the
//! informer's task and must be quick: they add keys to queues.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_client::watch::read_object;
use berth_client::{KubeObject, StreamEvent, WatchOptions, watch_with};
use kube::Client;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::cache::{Cache, Cached, Change};
use super::view::{ObjectMeta, PartialObjectMetadata};

/// Initial backoff of a watch. Controllers react to each other's changes, so it is short.
const FIRST_RETRY: Duration = Duration::from_millis(100);

/// The informer calls it with every change after the cache holds it.
pub(crate) type Handler<T> = Box<dyn Fn(&Change<'_, T>) + Send + Sync>;

/// An informer before its start: handlers can be added.
pub(crate) struct Informer<T> {
    /// URL path of the list.
    path: String,
    /// The name in log lines.
    name: &'static str,
    cache: Arc<Cache<T>>,
    handlers: Vec<Handler<T>>,
    synced: watch::Sender<bool>,
}

/// An object, or only the metadata of one that its view cannot parse.
enum Readable<T> {
    Yes(T),
    No(Box<PartialObjectMetadata>),
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Readable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Parses into a value first: a failure in the middle would leave the list's text half-read.
        let value = Value::deserialize(deserializer)?;
        match T::deserialize(&value) {
            Ok(object) => Ok(Readable::Yes(object)),
            Err(_) => Box::deserialize(&value).map(Readable::No).map_err(D::Error::custom),
        }
    }
}

impl<T: Cached> Readable<T> {
    fn meta(&self) -> &ObjectMeta {
        match self {
            Readable::Yes(object) => object.meta(),
            Readable::No(object) => &object.metadata,
        }
    }
}

impl<T: Cached> KubeObject for Readable<T> {
    fn resource_version(&self) -> &str {
        &self.meta().resource_version
    }

    fn key(&self) -> (&str, &str) {
        (&self.meta().namespace, &self.meta().name)
    }
}

/// Parses a line of a watch.
fn read<T: DeserializeOwned>(line: &[u8]) -> Result<Readable<T>, serde_json::Error> {
    read_object(line).map(Readable::Yes).or_else(|_| read_object(line).map(Readable::No))
}

impl<T: Cached> Informer<T> {
    /// An informer of the objects listed at a URL path.
    pub(crate) fn new(name: &'static str, path: String) -> Self {
        let synced = watch::Sender::new(false);
        Informer { path, name, cache: Arc::default(), handlers: Vec::new(), synced }
    }

    /// The informer's cache.
    pub(crate) fn cache(&self) -> Arc<Cache<T>> {
        self.cache.clone()
    }

    /// Becomes true when the first list is in the cache.
    pub(crate) fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// Adds a handler.
    pub(crate) fn on_change(&mut self, handler: impl Fn(&Change<'_, T>) + Send + Sync + 'static) {
        self.handlers.push(Box::new(handler));
    }
}

impl<T: Cached + DeserializeOwned> Informer<T> {
    /// Lists and watches until `stop`.
    pub(crate) async fn run(self, client: Client, stop: CancellationToken) {
        // The informer applies events in the reader; it sends nothing.
        let (sender, _receiver) = mpsc::channel::<Infallible>(1);
        let listed = Mutex::default();
        let apply = |event| {
            self.apply(event, &mut listed.lock().unwrap_or_else(PoisonError::into_inner));
            None
        };
        let options = WatchOptions { first_retry: FIRST_RETRY, ..WatchOptions::new(self.path.as_str()) };
        let watch = watch_with(client, options, sender, |line, _| read(line), apply);
        let _ = stop.run_until_cancelled(watch).await;
    }

    /// `listed`: the objects of the current list.
    fn apply(&self, event: StreamEvent<Readable<T>>, listed: &mut HashSet<NamespacedName>) {
        match event {
            StreamEvent::Init => listed.clear(),
            StreamEvent::InitApply(object) => {
                if let Readable::Yes(object) = &object {
                    listed.insert(object.meta().namespaced_name());
                }
                self.put_readable(object);
            }
            StreamEvent::InitDone => {
                for key in self.cache.missing_from(&std::mem::take(listed)) {
                    self.remove(&key);
                }
                self.synced.send_replace(true);
            }
            StreamEvent::Apply(object) => self.put_readable(object),
            StreamEvent::Delete(Readable::Yes(object)) => {
                // The handlers receive the last state as well: it may differ from the cached one.
                let object = Arc::new(object);
                let key = object.meta().namespaced_name();
                listed.remove(&key);
                let old = self.cache.remove(&key);
                self.notify(&Change { old: Some(old.as_ref().unwrap_or(&object)), new: None });
            }
            StreamEvent::Delete(Readable::No(object)) => self.remove(&object.metadata.namespaced_name()),
        }
    }

    /// An object that the controller cannot parse counts as deleted; the other objects stay visible.
    fn put_readable(&self, object: Readable<T>) {
        match object {
            Readable::Yes(object) => self.put(object),
            Readable::No(object) => {
                let key = object.metadata.namespaced_name();
                tracing::warn!(resource = self.name, %key, "an object cannot be read and is ignored");
                self.remove(&key);
            }
        }
    }

    fn put(&self, object: T) {
        let new = Arc::new(object);
        let old = self.cache.insert(new.clone());
        let same = |old: &Arc<T>| {
            old.meta().uid == new.meta().uid && old.meta().resource_version == new.meta().resource_version
        };
        if old.as_ref().is_some_and(same) {
            return;
        }
        // Deleted and recreated under the same name while the watch was interrupted: two changes.
        if let Some(gone) = old.as_ref().filter(|old| old.meta().uid != new.meta().uid) {
            self.notify(&Change { old: Some(gone), new: None });
            self.notify(&Change { old: None, new: Some(&new) });
        } else {
            self.notify(&Change { old: old.as_ref(), new: Some(&new) });
        }
    }

    fn remove(&self, key: &NamespacedName) {
        if let Some(old) = self.cache.remove(key) {
            self.notify(&Change { old: Some(&old), new: None });
        }
    }

    fn notify(&self, change: &Change<'_, T>) {
        for handler in &self.handlers {
            handler(change);
        }
    }
}

#[cfg(test)]
#[path = "informer_tests.rs"]
mod tests;
