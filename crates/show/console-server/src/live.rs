//! Follows a cluster: watches feed the state of a console.
//!
//! The state holds the objects in an engine's cluster. Its watches therefore have no informers: their caches would hold
//! every object a second time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::read::{Kind, Manifest, SourceLocation};
use berth_api::resource::{EVENTS, Resource};
use berth_client::ledger::LedgerClient;
use berth_client::{KubeObject, Missing, StreamEvent, WatchGroup, WatchOptions, watch_into};
use berth_console::{ClusterEvent, State, Update};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::console::Console;

/// Open pages hear of changes at most this often.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);
/// How often the ledger of the enforcer is read.
const LEDGER_INTERVAL: Duration = Duration::from_secs(5);
/// Updates that wait to be applied; when there are as many, the watches wait.
const MAX_WAITING: usize = 4096;

/// A watched resource.
#[derive(Clone, Debug)]
pub struct Source {
    pub resource: Resource,
    /// Whether the console is of no use without it. Others may be forbidden or unknown to the server.
    pub is_required: bool,
}

/// An event of the watch of a source.
enum SourceEvent {
    Begun,
    Set(NamespacedName, Update),
    Removed(NamespacedName),
    Listed,
    /// The error, or none when the watch works again.
    Outage(Option<String>),
}

/// How far a source has been read.
#[derive(Default)]
struct Progress {
    /// The objects of the list that is being read.
    listing: Option<HashSet<NamespacedName>>,
    is_listed: bool,
    /// Since when it is interrupted, and why.
    outage: Option<(Timestamp, String)>,
}

/// Keeps the state of a console equal to a cluster until `stop`. `ready` gets true when all resources have been read.
/// A resource that exceeds the limit of the group is not followed any more.
pub fn follow(
    console: Arc<Console>,
    client: kube::Client,
    group: WatchGroup,
    sources: Vec<Source>,
    ready: watch::Sender<bool>,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    // Boxed here: the body of an `async fn` is compiled in each crate that polls it.
    async move {
        let (sender, mut events) = mpsc::channel(MAX_WAITING);
        for (i, source) in sources.iter().enumerate() {
            watch_source(&client, &group, i, &source.resource, &sender);
        }
        let mut follower =
            Follower { progress: sources.iter().map(|_| Progress::default()).collect(), sources };
        let work = async {
            let mut batch = Vec::new();
            while events.recv_many(&mut batch, MAX_WAITING).await > 0 {
                let began = Instant::now();
                let mut updates = Vec::with_capacity(batch.len() + 1);
                for (source, event) in batch.drain(..) {
                    follower.take(source, event, &mut updates);
                }
                updates.push(Update::Notice(follower.notice()));
                let apply = |state: &mut State| {
                    state.set_time(Timestamp::now());
                    state.apply(updates, |error| {
                        tracing::warn!("an object of the cluster cannot be shown: {error}")
                    })
                };
                console.update(apply).await;
                if follower.is_ready() {
                    ready.send_if_modified(|ready| !std::mem::replace(ready, true));
                    // What comes meanwhile is applied at once.
                    tokio::time::sleep_until(began + UPDATE_INTERVAL).await;
                }
            }
        };
        stop.run_until_cancelled(work).await;
    }
    .boxed()
}

/// Keeps what a ConfigMap of the enforcer says equal to what a console shows of it, until `stop`.
pub async fn follow_ledger(
    console: Arc<Console>,
    ledger: LedgerClient,
    set: fn(&mut State, Option<String>),
    stop: CancellationToken,
) {
    let work = async {
        let mut shown = None;
        let mut is_reported = false;
        loop {
            let text = match ledger.read::<serde_json::Map<String, Value>>().await {
                Ok(ledger) => Some(Value::Object(ledger.content).to_string()),
                Err(error) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        tracing::warn!(
                            "the ConfigMap {} of the enforcer cannot be read: {error}",
                            ledger.name
                        );
                    }
                    None
                }
            };
            if text != shown {
                shown.clone_from(&text);
                let apply = move |state: &mut State| {
                    state.set_time(Timestamp::now());
                    set(state, text);
                    true
                };
                console.update(apply).await;
            }
            tokio::time::sleep(LEDGER_INTERVAL).await;
        }
    };
    stop.run_until_cancelled(work).await;
}

struct Follower {
    sources: Vec<Source>,
    progress: Vec<Progress>,
}

impl Follower {
    fn take(&mut self, i: usize, event: SourceEvent, updates: &mut Vec<Update>) {
        let (source, progress) = (&self.sources[i], &mut self.progress[i]);
        let kind = Kind::of(&source.resource.api_version(), source.resource.kind);
        match event {
            SourceEvent::Begun => progress.listing = Some(HashSet::new()),
            SourceEvent::Set(name, update) => {
                if let Some(listing) = &mut progress.listing {
                    listing.insert(name);
                }
                updates.push(update);
            }
            SourceEvent::Removed(name) => {
                if let Some(listing) = &mut progress.listing {
                    listing.remove(&name);
                }
                updates.extend(kind.map(|kind| Update::Removed(kind, name)));
            }
            SourceEvent::Listed => {
                let listed = progress.listing.take().unwrap_or_default();
                updates.extend(kind.map(|kind| Update::Listed(kind, listed)));
                progress.is_listed = true;
            }
            SourceEvent::Outage(None) => progress.outage = None,
            SourceEvent::Outage(Some(error)) => {
                if !source.is_required && !progress.is_listed {
                    let resource = source.resource.plural;
                    tracing::info!("continuing without {resource}: {error}");
                    progress.is_listed = true;
                }
                let since = progress.outage.take().map_or_else(Timestamp::now, |(since, _)| since);
                progress.outage = Some((since, error));
            }
        }
    }

    fn is_ready(&self) -> bool {
        self.progress.iter().all(|progress| progress.is_listed)
    }

    /// What viewers have to know about the state.
    fn notice(&self) -> Option<String> {
        let with_outage = self.sources.iter().zip(&self.progress);
        let outages =
            with_outage.filter(|(source, _)| source.is_required).filter_map(|(source, progress)| {
                let (since, error) = progress.outage.as_ref()?;
                Some((since, format!("{}: {error}", source.resource.plural)))
            });
        if let Some((since, error)) = outages.min_by_key(|(since, _)| **since) {
            let since = since.strftime("%Y-%m-%d %H:%M:%S");
            return Some(format!("Out of date since {since} UTC: the watch is interrupted ({error})"));
        }
        (!self.is_ready()).then(|| "The cluster is being read: objects are still missing.".to_owned())
    }
}

fn watch_source(
    client: &kube::Client,
    group: &WatchGroup,
    i: usize,
    resource: &Resource,
    sender: &mpsc::Sender<(usize, SourceEvent)>,
) {
    let (kind, api_version) = (resource.kind, resource.api_version());
    match (resource.group, kind) {
        ("", "Node") => start(client, group, i, resource, sender, Update::node),
        ("", "Pod") => start(client, group, i, resource, sender, Update::pod),
        _ if *resource == EVENTS => {
            start(client, group, i, resource, sender, |event: Value| {
                Update::Event(Box::new(ClusterEvent::read(&event)))
            });
        }
        _ => {
            let source = SourceLocation::file(&resource.path(""));
            start(client, group, i, resource, sender, move |mut value: Value| {
                let (api_version, source) = (api_version.clone(), source.clone());
                // Items of lists do not have it.
                value["apiVersion"] = api_version.as_str().into();
                Update::Object(Box::new(Manifest { kind: kind.to_owned(), api_version, value, source }))
            });
        }
    }
}

fn start<T>(
    client: &kube::Client,
    group: &WatchGroup,
    i: usize,
    resource: &Resource,
    sender: &mpsc::Sender<(usize, SourceEvent)>,
    update: impl Fn(T) -> Update + Send + Sync + 'static,
) where
    T: KubeObject + DeserializeOwned + Send + 'static,
{
    let (outage, mut outages) = watch::channel(None);
    let options = WatchOptions {
        missing: Missing::empty(resource),
        outage: Some(outage),
        group: group.clone(),
        ..WatchOptions::of(resource)
    };
    let set = move |object: T| {
        let (namespace, name) = object.key();
        SourceEvent::Set(NamespacedName::new(namespace, name), update(object))
    };
    let wrap = move |event| {
        let event = match event {
            StreamEvent::Init => SourceEvent::Begun,
            StreamEvent::InitApply(object) | StreamEvent::Apply(object) => set(object),
            StreamEvent::InitDone => SourceEvent::Listed,
            StreamEvent::Delete(object) => {
                let (namespace, name) = object.key();
                SourceEvent::Removed(NamespacedName::new(namespace, name))
            }
            StreamEvent::Failed(failure) => SourceEvent::Outage(Some(failure.to_string())),
        };
        (i, event)
    };
    tokio::spawn(watch_into(client.clone(), options, sender.clone(), wrap));
    let sender = sender.clone();
    tokio::spawn(async move {
        while outages.changed().await.is_ok() {
            let outage = outages.borrow_and_update().clone();
            if sender.send((i, SourceEvent::Outage(outage))).await.is_err() {
                return;
            }
        }
    });
}
