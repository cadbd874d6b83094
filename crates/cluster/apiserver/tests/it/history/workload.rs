//! Clients with random requests, and a disk that stops.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use berth_apiserver::{ApiServer, ServerOptions, StartError, StorageOptions};
use http::{Method, Request as HttpRequest, StatusCode};
use kube::Client;
use serde_json::{Value, json};

use super::check::{Action, Change, Entry, Group, History, Id, List, Outcome, Request, Version, Watch};
use super::stopping_disk::StoppingDisk;
use super::wire::{Stream, TIMEOUT, id_of, items_of, name, version_of};
use crate::support::{DataDir, admin};

const N_OBJECTS: usize = 3;
const N_CLIENTS: usize = 4;
const N_WATCHERS: usize = 3;
const REQUESTS_PER_CLIENT: usize = 40;
/// The objects of both groups that are created last; a watch that saw that of its group has seen everything.
const LAST: usize = N_OBJECTS;

/// What runs consisted of.
#[derive(Debug, Default)]
pub struct Count {
    pub n_requests: usize,
    pub n_writes: usize,
    pub n_unknown: usize,
    pub n_lists: usize,
    pub n_watches: usize,
    pub n_changes_watched: usize,
    pub n_restarts: usize,
    pub n_failed_starts: usize,
}

impl Count {
    pub fn add(&mut self, other: &Count, history: &History) {
        self.n_requests += history.requests.len();
        self.n_writes += history.log.len();
        self.n_unknown += history.requests.iter().filter(|r| r.outcome == Outcome::Unknown).count();
        self.n_lists += history.lists.len();
        self.n_watches += history.watches.len();
        self.n_changes_watched += history.watches.iter().map(|watch| watch.entries.len()).sum::<usize>();
        self.n_restarts += other.n_restarts;
        self.n_failed_starts += other.n_failed_starts;
    }
}

/// The cluster as clients see it, and what they have seen.
struct Shared {
    /// Pods, whose groups are nodes, or ConfigMaps, whose groups are labels that change.
    pods: bool,
    client: RwLock<Client>,
    /// So often a server was started.
    n_starts: AtomicUsize,
    clock: AtomicU64,
    ids: AtomicU64,
    /// Versions of values, for requests that expect one.
    known: Mutex<HashMap<Id, Version>>,
    history: Mutex<History>,
    /// The version of the first of the last objects, once both are written; 0 before.
    last: tokio::sync::watch::Sender<Version>,
}

impl Shared {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// A request; `None` if there is no clear response.
    async fn send(&self, method: Method, path: &str, body: &Value) -> Option<(StatusCode, Value)> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = HttpRequest::builder().method(method).uri(path).header("content-type", kind);
        let request = request.body(kube::client::Body::from(bytes)).unwrap();
        let client = self.client.read().unwrap().clone();
        let answered = async {
            let response = client.send(request).await.ok()?;
            let status = response.status();
            if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
                return None;
            }
            let bytes = response.into_body().collect_bytes().await.ok()?;
            Some((status, serde_json::from_slice(&bytes).ok()?))
        };
        tokio::time::timeout(TIMEOUT, answered).await.expect("a response")
    }

    fn path(&self) -> &'static str {
        if self.pods { "/api/v1/namespaces/default/pods" } else { "/api/v1/namespaces/default/configmaps" }
    }

    /// An object, or a patch of it.
    fn body(&self, object: usize, id: Id, expected: Option<Id>, padding: usize, is_patch: bool) -> Value {
        let annotations = json!({"id": id.to_string(), "padding": "x".repeat(padding)});
        let mut body = json!({"metadata": {"name": name(object), "annotations": annotations}});
        let version = expected.and_then(|expected| self.known.lock().unwrap().get(&expected).copied());
        if let Some(version) = version {
            body["metadata"]["resourceVersion"] = Value::from(version.to_string());
        }
        if !self.pods {
            body["metadata"]["labels"] = json!({"group": (id % 2).to_string()});
        } else if !is_patch {
            body["spec"] =
                json!({"nodeName": format!("node-{}", id % 2), "containers": [{"name": "c", "image": "i"}]});
        }
        body
    }

    /// Makes a request and records it; the value that the object has now, if the response says so.
    async fn request(&self, object: usize, action: Action, padding: usize) -> Option<Id> {
        let path = format!("{}/{}", self.path(), name(object));
        let (method, path, body) = match action {
            Action::Read => (Method::GET, path, Value::Null),
            Action::Create(id) => {
                (Method::POST, self.path().to_owned(), self.body(object, id, None, padding, false))
            }
            // Most fields of a pod must stay as they are.
            Action::Replace { expected, id } if self.pods || id % 3 == 0 => {
                (Method::PATCH, path, self.body(object, id, expected, padding, true))
            }
            Action::Replace { expected, id } => {
                (Method::PUT, path, self.body(object, id, expected, padding, false))
            }
            Action::Delete { expected } => {
                let version = expected.and_then(|id| self.known.lock().unwrap().get(&id).copied());
                let condition = version.map(|version| json!({"resourceVersion": version.to_string()}));
                let options = json!({"gracePeriodSeconds": 0, "preconditions": condition});
                (Method::DELETE, path, options)
            }
        };
        let start = self.tick();
        let response = self.send(method, &path, &body).await;
        let end = self.tick();
        let mut value = None;
        let outcome = match &response {
            None => Outcome::Unknown,
            Some((status, object)) if status.is_success() => match action {
                Action::Delete { .. } => Outcome::Written(None),
                Action::Read => {
                    value = Some((id_of(object), version_of(object)));
                    Outcome::Found(id_of(object))
                }
                Action::Create(id) | Action::Replace { id, .. } => {
                    value = Some((id, version_of(object)));
                    Outcome::Written(Some(version_of(object)))
                }
            },
            Some((StatusCode::NOT_FOUND, _)) => Outcome::NotFound,
            Some((_, status)) if status["reason"] == "AlreadyExists" => Outcome::AlreadyExists,
            Some((StatusCode::CONFLICT, _)) => Outcome::Conflict,
            Some(other) => panic!("{action:?}: {other:?}"),
        };
        let end = if outcome == Outcome::Unknown {
            // The server is probably being restarted.
            tokio::time::sleep(Duration::from_millis(10)).await;
            u64::MAX
        } else {
            end
        };
        self.history.lock().unwrap().requests.push(Request { object, start, end, action, outcome });
        let (id, version) = value?;
        self.known.lock().unwrap().insert(id, version);
        Some(id)
    }

    /// A list, in one or in many pages.
    async fn list(&self, limit: Option<usize>) -> Option<List> {
        let start = self.tick();
        let limit = limit.map_or(String::new(), |limit| format!("?limit={limit}"));
        let (_, mut page) = self.send(Method::GET, &format!("{}{limit}", self.path()), &Value::Null).await?;
        let list_version = version_of(&page);
        let mut items = items_of(&page);
        while let Some(token) = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
            let path = format!("{}{limit}&continue={token}", self.path());
            let (status, next) = self.send(Method::GET, &path, &Value::Null).await?;
            if status == StatusCode::GONE {
                return None;
            }
            assert_eq!(version_of(&next), list_version, "all pages have one version");
            items.extend(items_of(&next));
            page = next;
        }
        let list = List { start, version: list_version, items };
        self.history.lock().unwrap().lists.push(list.clone());
        Some(list)
    }

    async fn client(&self, mut random: fastrand::Rng) {
        let mut known: [Option<Id>; N_OBJECTS] = [None; N_OBJECTS];
        for _ in 0..REQUESTS_PER_CLIENT {
            let object = random.usize(0..N_OBJECTS);
            let expected = known[object].filter(|_| random.bool());
            let id = self.ids.fetch_add(1, Ordering::SeqCst);
            let action = match random.u8(0..10) {
                0..=2 => Action::Read,
                3..=4 => Action::Create(id),
                5..=7 => Action::Replace { expected, id },
                8 => Action::Delete { expected },
                _ => {
                    self.list(random.bool().then_some(1)).await;
                    continue;
                }
            };
            if let Some(id) = self.request(object, action, random.usize(0..600)).await {
                known[object] = Some(id);
            }
            if random.u8(0..8) == 0 {
                tokio::time::sleep(Duration::from_millis(random.u64(0..4))).await;
            }
        }
    }

    /// Uses a server that has just been started.
    fn replace_client(&self, server: &ApiServer) {
        *self.client.write().unwrap() = admin(server);
        self.n_starts.fetch_add(1, Ordering::SeqCst);
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// The status of the response, if there is one.
    async fn watch(&self, query: &str) -> Result<Stream, Option<StatusCode>> {
        let request = HttpRequest::get(format!("{}?watch=true&{query}", self.path()));
        let request = request.body(kube::client::Body::empty()).unwrap();
        let n_starts = self.n_starts.load(Ordering::SeqCst);
        let client = self.client.read().unwrap().clone();
        let Ok(sent) = tokio::time::timeout(TIMEOUT, client.send(request)).await else {
            // A connection may be left of a server that was killed.
            let is_replaced = self.n_starts.load(Ordering::SeqCst) != n_starts;
            assert!(is_replaced, "no response to a watch of start {n_starts}: {query}");
            return Err(None);
        };
        let response = sent.map_err(|_| None)?;
        if !response.status().is_success() {
            return Err(Some(response.status()));
        }
        Ok(Stream::new(response.into_body()))
    }

    /// Follows all changes until the last object is created, across restarts.
    async fn follow(&self, start: Version) {
        let mut from = start;
        loop {
            let mut stream = match self.watch(&format!("resourceVersion={from}")).await {
                Ok(stream) => stream,
                Err(status) => {
                    assert_ne!(status, Some(StatusCode::GONE), "the history does not reach back to {from}");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                }
            };
            while let Some((entry, group)) = stream.next().await {
                let Entry::Change(change) = entry else { continue };
                let history = &mut *self.history.lock().unwrap();
                history.log.push(change);
                history.groups.insert(change.id, group);
                from = change.version;
                if is_last(&change, None) {
                    return;
                }
            }
        }
    }

    /// Opens watches of all kinds, one after the other; the last one until it has seen the last change.
    async fn watcher(&self, mut random: fastrand::Rng) {
        let mut resume = None;
        loop {
            let last = *self.last.borrow();
            let watched = self.watch_once(&mut random, resume, last).await;
            match watched {
                Some((_, true)) if last > 0 => return,
                Some((seen, _)) => resume = seen.or(resume),
                None => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }

    /// One watch; the last version that it saw, and whether it saw the last change. `None` if it did not begin.
    async fn watch_once(
        &self,
        random: &mut fastrand::Rng,
        resume: Option<Version>,
        last: Version,
    ) -> Option<(Option<Version>, bool)> {
        let group = [None, None, Some(0), Some(1)][random.usize(0..4)];
        let selector =
            if self.pods { "fieldSelector=spec.nodeName%3Dnode-" } else { "labelSelector=group%3D" };
        let mut query = group.map_or(String::new(), |group| format!("{selector}{group}&"));
        let from = match random.u8(0..3) {
            0 => None,
            1 if resume.is_some() => resume,
            _ => Some(self.list(None).await?.version),
        };
        match from {
            Some(version) => query += &format!("resourceVersion={version}"),
            None => query += "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        }
        query += "&allowWatchBookmarks=true";
        if last == 0 && random.u8(0..6) == 0 {
            query += "&timeoutSeconds=1";
        }
        let mut stream = self.watch(&query).await.ok()?;
        let (from, initial) = match from {
            Some(version) => (version, None),
            None => stream.initial().await.map(|(version, items)| (version, Some(items)))?,
        };
        let mut watch = Watch { from, initial, group, entries: Vec::new() };
        let n_entries = if last > 0 { usize::MAX } else { random.usize(1..60) };
        let mut complete = last > 0 && from >= last;
        let mut ended = self.last.subscribe();
        while !complete && watch.entries.len() < n_entries {
            let entry = tokio::select! {
                entry = stream.next() => entry,
                // No more changes come: the next watch is the last one.
                Ok(_) = ended.wait_for(|version| *version > 0), if last == 0 => None,
            };
            let Some((entry, _)) = entry else { break };
            complete = matches!(&entry, Entry::Change(change) if is_last(change, group));
            watch.entries.push(entry);
        }
        let seen = watch.entries.last().map(|entry| match entry {
            Entry::Change(Change { version, .. }) | Entry::Bookmark(version) => *version,
        });
        self.history.lock().unwrap().watches.push(watch);
        Some((seen, complete))
    }
}

/// Whether a change is the last one that a watch of a group sees.
fn is_last(change: &Change, group: Option<Group>) -> bool {
    change.object == LAST + group.unwrap_or(1) as usize
}

async fn start(dir: &DataDir, disk: Arc<StoppingDisk>, log_bytes: u64) -> Result<ApiServer, StartError> {
    let storage = StorageOptions { io: disk, log_bytes, ..StorageOptions::default() };
    let options = ServerOptions { data_dir: Some(dir.0.clone()), storage, ..ServerOptions::default() };
    ApiServer::start(options).await
}

/// One run.
pub async fn run(seed: u64) -> (History, Count) {
    let mut random = fastrand::Rng::with_seed(seed);
    let dir = DataDir::new();
    // Small files are compacted several times in a run; the history then still reaches back to the last restart.
    let log_bytes = if random.bool() { 60_000 } else { 1 << 20 };
    let mut disk = StoppingDisk::new(u64::MAX);
    let mut server = start(&dir, disk.clone(), log_bytes).await.unwrap();
    let shared = Arc::new(Shared {
        pods: random.bool(),
        client: RwLock::new(admin(&server)),
        n_starts: AtomicUsize::new(1),
        clock: AtomicU64::new(1),
        ids: AtomicU64::new(1),
        known: Mutex::default(),
        history: Mutex::default(),
        last: tokio::sync::watch::Sender::new(0),
    });
    let first = shared.list(None).await.unwrap();
    shared.history.lock().unwrap().start = first.version;
    let mut watches = Vec::new();
    {
        let shared = shared.clone();
        watches.push(tokio::spawn(async move { shared.follow(first.version).await }));
    }
    for _ in 0..N_WATCHERS {
        let (shared, random) = (shared.clone(), random.fork());
        watches.push(tokio::spawn(async move { shared.watcher(random).await }));
    }
    let clients: Vec<_> = (0..N_CLIENTS)
        .map(|_| {
            let (shared, random) = (shared.clone(), random.fork());
            tokio::spawn(async move { shared.client(random).await })
        })
        .collect();

    let mut count = Count::default();
    for _ in 0..random.usize(0..4) {
        if clients.iter().all(tokio::task::JoinHandle::is_finished) {
            break;
        }
        disk.stop_after(random.u64(0..20_000));
        while !disk.stopped() && !clients.iter().all(tokio::task::JoinHandle::is_finished) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.shutdown().await;
        count.n_restarts += 1;
        // Sometimes the disk stops again while the server starts.
        let bytes = if random.bool() { random.u64(0..200) } else { u64::MAX };
        disk = StoppingDisk::new(bytes);
        server = match start(&dir, disk.clone(), log_bytes).await {
            Ok(server) => server,
            Err(_) => {
                count.n_failed_starts += 1;
                disk = StoppingDisk::new(u64::MAX);
                start(&dir, disk.clone(), log_bytes).await.unwrap()
            }
        };
        shared.replace_client(&server);
    }
    if count.n_restarts > 0 {
        // The last start is on a disk that does not stop.
        server.shutdown().await;
        count.n_restarts += 1;
        disk = StoppingDisk::new(u64::MAX);
        server = start(&dir, disk, log_bytes).await.unwrap();
        shared.replace_client(&server);
    }
    for client in clients {
        client.await.unwrap();
    }
    for object in 0..N_OBJECTS {
        shared.request(object, Action::Read, 0).await;
    }
    shared.list(None).await.unwrap();
    let id = 2 * shared.ids.load(Ordering::SeqCst);
    for group in [0, 1] {
        shared.request(LAST + group as usize, Action::Create(id + group), 0).await.unwrap();
    }
    let last = shared.known.lock().unwrap()[&id];
    shared.last.send_replace(last);
    for watch in watches {
        watch.await.unwrap();
    }
    server.shutdown().await;
    let history = std::mem::take(&mut *shared.history.lock().unwrap());
    (history, count)
}
