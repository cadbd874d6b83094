//! Keeps a [`Cache`] equal to what the API server has: one list, then a watch that is resumed where it broke off.
//!
//! A watch that is too old (410) starts over with a list; what changed meanwhile reaches the handlers as changes, so they
//! need not know. Failures back off with jitter. Handlers run in the informer's task and must be quick: they put
//! keys into queues, no more.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::NamespacedName;
use bytes::BytesMut;
use futures::StreamExt;
use http::Request;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::api::{ANSWER_WITHIN, Api, ApiError};
use super::cache::{Cache, Cached, Change};
use super::view::PartialObjectMetadata;

/// Objects in one page of a list.
const PAGE: usize = 500;
/// The server ends a watch after this time, give or take: so that one that died unnoticed is replaced.
const WATCH_SECONDS: u64 = 300;
/// A watch without any sign for this long is dead: bookmarks come every minute.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS * 2 + 30);
/// Longest line of a watch: no object is larger.
const MAX_LINE: usize = 16 << 20;

/// Called with every change after it is in the cache.
pub(crate) type Handler<T> = Box<dyn Fn(&Change<'_, T>) + Send + Sync>;

/// An informer that has not been started: handlers can be added.
pub(crate) struct Informer<T> {
    /// URL path of the list.
    path: String,
    /// For log lines.
    name: &'static str,
    cache: Arc<Cache<T>>,
    handlers: Vec<Handler<T>>,
    synced: watch::Sender<bool>,
}

#[derive(Deserialize)]
struct List<T> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

/// An object of a list that may be unlike what its view expects.
enum Readable<T> {
    Yes(T),
    No(String),
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Readable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // By way of a value: a failure half-way through would leave the list's text half-read.
        let value = Value::deserialize(deserializer)?;
        Ok(T::deserialize(value).map_or_else(|error| Readable::No(error.to_string()), Readable::Yes))
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    token: String,
}

#[derive(Deserialize)]
struct WatchEvent<T> {
    #[serde(rename = "type")]
    kind: EventKind,
    object: T,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
enum EventKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
    #[serde(other)]
    Unknown,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorStatus {
    code: u16,
    message: String,
}

/// Why a watch ended before its time.
#[derive(Debug, thiserror::Error)]
enum WatchEnd {
    #[error("the version to resume from is too old")]
    TooOld,
    #[error("{0}")]
    Failed(String),
}

impl<T: Cached> Informer<T> {
    /// An informer of the objects listed at a URL path.
    pub(crate) fn new(name: &'static str, path: String) -> Self {
        let synced = watch::Sender::new(false);
        Informer { path, name, cache: Arc::default(), handlers: Vec::new(), synced }
    }

    /// What the informer has seen.
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
    pub(crate) async fn run(self, api: Api, stop: CancellationToken) {
        tokio::select! {
            () = self.follow(&api) => {}
            () = stop.cancelled() => {}
        }
    }

    async fn follow(&self, api: &Api) {
        let mut backoff = Backoff::default();
        loop {
            let mut version = match self.list(api).await {
                Ok(version) => version,
                Err(error) => {
                    tracing::warn!(resource = self.name, %error, "list failed, will be tried again");
                    backoff.wait().await;
                    continue;
                }
            };
            self.synced.send_replace(true);
            loop {
                let before = version.clone();
                let result = self.watch(api, &mut version).await;
                if version != before {
                    backoff = Backoff::default();
                }
                match result {
                    // The server ended it, as agreed; one that ends every watch at once is not asked in a loop.
                    Ok(()) if version != before => {}
                    Ok(()) => backoff.wait().await,
                    Err(WatchEnd::TooOld) => break,
                    Err(error) => {
                        tracing::debug!(resource = self.name, %error, "watch broke off, resuming");
                        backoff.wait().await;
                    }
                }
            }
        }
    }

    /// Lists everything into the cache; returns the version to watch from.
    async fn list(&self, api: &Api) -> Result<String, ApiError> {
        let mut listed = HashSet::new();
        let mut token = String::new();
        loop {
            let mut path = format!("{}?limit={PAGE}", self.path);
            if !token.is_empty() {
                path.push_str("&continue=");
                path.extend(url_encoded(&token));
            }
            let page: List<Readable<T>> = api
                .send("list", self.name, &NamespacedName::new("", ""), Request::get(path), Vec::new())
                .await?;
            for object in page.items {
                match object {
                    Readable::Yes(object) => {
                        listed.insert(object.meta().namespaced_name());
                        self.put(object);
                    }
                    Readable::No(error) => {
                        tracing::warn!(
                            resource = self.name,
                            error,
                            "an object cannot be read and is left out"
                        );
                    }
                }
            }
            token = page.metadata.token;
            if token.is_empty() {
                for key in self.cache.missing_from(&listed) {
                    self.remove(&key);
                }
                return Ok(page.metadata.resource_version);
            }
        }
    }

    async fn watch(&self, api: &Api, version: &mut String) -> Result<(), WatchEnd> {
        let failed = |error: &dyn std::fmt::Display| WatchEnd::Failed(error.to_string());
        let seconds = WATCH_SECONDS + fastrand::u64(..WATCH_SECONDS);
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={version}",
            self.path
        );
        let request = Request::get(path).header(http::header::ACCEPT_ENCODING, "identity");
        let request = request.body(kube::client::Body::empty()).map_err(|e| failed(&e))?;
        let response = tokio::time::timeout(ANSWER_WITHIN, api.client().send(request)).await;
        let response = response.map_err(|e| failed(&e))?.map_err(|e| failed(&e))?;
        match response.status().as_u16() {
            200 => {}
            410 => return Err(WatchEnd::TooOld),
            code => return Err(WatchEnd::Failed(format!("the server answered {code}"))),
        }
        let mut body = response.into_body().into_data_stream();
        let mut buffer = BytesMut::new();
        loop {
            let Ok(chunk) = tokio::time::timeout(SILENCE, body.next()).await else {
                return Err(WatchEnd::Failed("nothing heard for too long".to_owned()));
            };
            let Some(chunk) = chunk else { return Ok(()) };
            let searched = buffer.len();
            buffer.extend_from_slice(&chunk.map_err(|e| failed(&e))?);
            let mut from = searched;
            while let Some(end) = buffer[from..].iter().position(|&byte| byte == b'\n') {
                let line = buffer.split_to(from + end + 1);
                from = 0;
                if line.len() > 1 {
                    self.apply(&line, version)?;
                }
            }
            if buffer.len() > MAX_LINE {
                return Err(WatchEnd::Failed("a line without an end".to_owned()));
            }
        }
    }

    fn apply(&self, line: &[u8], version: &mut String) -> Result<(), WatchEnd> {
        let event = match serde_json::from_slice::<WatchEvent<T>>(line) {
            Ok(event) => event,
            // One object that nobody here can read must not keep the others from coming.
            Err(error) => {
                tracing::warn!(resource = self.name, %error, "an object cannot be read and is left out");
                let event: WatchEvent<PartialObjectMetadata> =
                    serde_json::from_slice(line).map_err(|error| WatchEnd::Failed(error.to_string()))?;
                self.remove(&event.object.metadata.namespaced_name());
                *version = event.object.metadata.resource_version;
                return Ok(());
            }
        };
        if event.kind == EventKind::Error {
            let status: WatchEvent<ErrorStatus> =
                serde_json::from_slice(line).map_err(|error| WatchEnd::Failed(error.to_string()))?;
            return Err(match status.object.code {
                410 => WatchEnd::TooOld,
                code => WatchEnd::Failed(format!("{code} {}", status.object.message)),
            });
        }
        let seen = event.object.meta().resource_version.clone();
        match event.kind {
            EventKind::Added | EventKind::Modified => self.put(event.object),
            EventKind::Deleted => {
                // The last state goes through the handlers too: it may differ from what was known.
                let object = Arc::new(event.object);
                let old = self.cache.remove(&object.meta().namespaced_name());
                self.tell(&Change { old: Some(old.as_ref().unwrap_or(&object)), new: None });
            }
            EventKind::Bookmark | EventKind::Error | EventKind::Unknown => {}
        }
        if !seen.is_empty() {
            *version = seen;
        }
        Ok(())
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
        // Deleted and made anew under the same name while nobody watched: two changes.
        if let Some(gone) = old.as_ref().filter(|old| old.meta().uid != new.meta().uid) {
            self.tell(&Change { old: Some(gone), new: None });
            self.tell(&Change { old: None, new: Some(&new) });
        } else {
            self.tell(&Change { old: old.as_ref(), new: Some(&new) });
        }
    }

    fn remove(&self, key: &NamespacedName) {
        if let Some(old) = self.cache.remove(key) {
            self.tell(&Change { old: Some(&old), new: None });
        }
    }

    fn tell(&self, change: &Change<'_, T>) {
        for handler in &self.handlers {
            handler(change);
        }
    }
}

/// Waits longer after each failure in a row, with jitter so that many watches do not come back at once.
#[derive(Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    async fn wait(&mut self) {
        let longest = (100_u64 << self.failures.min(8)).min(20_000);
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(Duration::from_millis(longest / 2 + fastrand::u64(..=longest / 2))).await;
    }
}

/// A text as part of a URL's query.
pub(crate) fn url_encoded(text: &str) -> impl Iterator<Item = char> + '_ {
    text.bytes().flat_map(|byte| {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let hex = |digit: u8| char::from(b"0123456789ABCDEF"[usize::from(digit & 15)]);
        let escaped = if plain {
            [Some(char::from(byte)), None, None]
        } else {
            [Some('%'), Some(hex(byte >> 4)), Some(hex(byte))]
        };
        escaped.into_iter().flatten()
    })
}

#[cfg(test)]
#[path = "informer_tests.rs"]
mod tests;
