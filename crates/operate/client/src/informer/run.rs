//! The informer of one collection.

use std::collections::HashSet;
use std::convert::Infallible;
use std::hash::Hash;
use std::sync::Arc;

use berth_api::object::{NamespacedName, PartialObjectMetadata};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cache::{Cache, Change, Indexer};
use crate::watch::{self as watcher, HasMetadata, Line, Sink, WatchOptions};

/// The informer calls it with every change after the cache holds it.
type Handler<T> = Box<dyn Fn(&Change<'_, T>) + Send + Sync>;

/// An informer before its start: handlers can be added.
///
/// Handlers run in the informer's task and must be quick: they add keys to queues.
pub struct Informer<T, I = Infallible> {
    options: WatchOptions,
    cache: Arc<Cache<T, I>>,
    handlers: Vec<Handler<T>>,
    synced: watch::Sender<bool>,
}

impl<T: HasMetadata> Informer<T> {
    /// An informer without indexes.
    pub fn new(options: WatchOptions) -> Self {
        Informer::indexed(options, |_, _| {})
    }
}

impl<T: HasMetadata, I: Eq + Hash> Informer<T, I> {
    /// An informer whose cache has the indexes of `indexer`.
    pub fn indexed(options: WatchOptions, indexer: Indexer<T, I>) -> Self {
        let synced = watch::Sender::new(false);
        Informer { options, cache: Arc::new(Cache::new(indexer)), handlers: Vec::new(), synced }
    }

    pub fn cache(&self) -> Arc<Cache<T, I>> {
        self.cache.clone()
    }

    /// Becomes true when the first list is in the cache.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    pub fn on_change(&mut self, handler: impl Fn(&Change<'_, T>) + Send + Sync + 'static) {
        self.handlers.push(Box::new(handler));
    }
}

impl<T, I> Informer<T, I>
where
    T: HasMetadata + DeserializeOwned + Send + Sync + 'static,
    I: Eq + Hash + Send + Sync + 'static,
{
    /// Lists and watches until `stop`. The future is of one type for all informers, so that it is compiled once.
    pub fn run(self, client: kube::Client, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let Informer { options, cache, handlers, synced } = self;
        let sink = CacheSink { path: options.path.clone(), cache, handlers, synced, listed: HashSet::new() };
        run(client, options, Box::new(sink), stop).boxed()
    }
}

async fn run(client: kube::Client, options: WatchOptions, mut sink: Box<dyn Sink>, stop: CancellationToken) {
    // `None`: stopped.
    let _ = stop.run_until_cancelled(watcher::run(client, options, &mut *sink)).await;
}

/// Applies events to the cache.
struct CacheSink<T, I> {
    /// URL path of the list, for messages.
    path: String,
    cache: Arc<Cache<T, I>>,
    handlers: Vec<Handler<T>>,
    synced: watch::Sender<bool>,
    /// Names in the list that is being read.
    listed: HashSet<NamespacedName>,
}

impl<T, I> Sink for CacheSink<T, I>
where
    T: HasMetadata + DeserializeOwned + Send + Sync,
    I: Eq + Hash + Send + Sync,
{
    fn begin_list(&mut self) {
        self.listed.clear();
    }

    fn read_item(&mut self, item: &[u8]) -> Result<(), serde_json::Error> {
        match serde_json::from_slice(item) {
            Ok(object) => self.put_listed(object),
            Err(error) => self.ignore(&serde_json::from_slice(item)?, &error),
        }
        Ok(())
    }

    fn end_list(&mut self) {
        for key in self.cache.missing_from(&std::mem::take(&mut self.listed)) {
            self.remove(&key);
        }
        self.synced.send_replace(true);
    }

    fn read_line(
        &mut self,
        line: &[u8],
        kind: Line,
        version: &mut dyn FnMut(&str),
    ) -> Result<(), serde_json::Error> {
        match watcher::read_object::<T>(line) {
            Ok(object) => {
                version(&object.meta().resource_version);
                match kind {
                    Line::Initial => self.put_listed(object),
                    Line::Changed => self.put(object),
                    Line::Deleted => self.delete(object),
                }
            }
            Err(error) => {
                let object: PartialObjectMetadata = watcher::read_object(line)?;
                version(&object.metadata.resource_version);
                match kind {
                    Line::Initial | Line::Changed => self.ignore(&object, &error),
                    Line::Deleted => self.remove(&object.metadata.namespaced_name()),
                }
            }
        }
        Ok(())
    }
}

impl<T: HasMetadata, I: Eq + Hash> CacheSink<T, I> {
    fn put_listed(&mut self, object: T) {
        self.listed.insert(object.meta().namespaced_name());
        self.put(object);
    }

    /// The handlers receive the cached state; if there is none, the last state.
    fn delete(&mut self, object: T) {
        let object = Arc::new(object);
        let key = object.meta().namespaced_name();
        self.listed.remove(&key);
        let old = self.cache.remove(&key);
        self.notify(&Change { old: Some(old.as_ref().unwrap_or(&object)), new: None });
    }

    /// An object that cannot be read counts as deleted; the other objects stay visible.
    fn ignore(&self, object: &PartialObjectMetadata, error: &serde_json::Error) {
        let key = object.metadata.namespaced_name();
        tracing::warn!(path = self.path, %key, "an object cannot be read and is ignored: {error}");
        self.remove(&key);
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
#[path = "tests.rs"]
mod tests;
