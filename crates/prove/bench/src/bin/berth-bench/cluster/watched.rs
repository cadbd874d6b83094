//! Nodes or pods as a client that watches sees them, with the fields that benchmarks read.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use berth_api::object::{Condition, NamespacedName, ObjectMeta, find_condition};
use berth_api::resource::Resource;
use berth_client::watch::{Event, KubeObject, WatchOptions, WatchStream, watch};
use kube::Client;
use serde::Deserialize;

use crate::error::BenchError;

/// Maximum number of events per batch.
const MAX_EVENTS: usize = 4096;

/// A node or pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Object {
    pub metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: String,
    conditions: Vec<Condition>,
}

impl KubeObject for Object {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn key(&self) -> (&str, &str) {
        (&self.metadata.namespace, &self.metadata.name)
    }
}

impl Object {
    /// The node of a pod.
    pub fn node(&self) -> Option<&str> {
        Some(self.spec.node_name.as_str()).filter(|node| !node.is_empty())
    }

    /// Whether a pod runs.
    pub fn is_running(&self) -> bool {
        self.status.phase == "Running"
    }

    /// Whether a condition has this status.
    pub fn has_condition(&self, name: &str, status: &str) -> bool {
        find_condition(&self.status.conditions, name).is_some_and(|condition| condition.status == status)
    }
}

/// All objects of a resource.
pub struct Watched {
    stream: WatchStream<Object>,
    objects: HashMap<NamespacedName, Object>,
}

impl Watched {
    /// Starts to watch.
    pub fn start(client: &Client, resource: &Resource) -> Watched {
        let stream = watch(client.clone(), WatchOptions::new(resource.path("")));
        Watched { stream, objects: HashMap::new() }
    }

    /// The objects.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.values()
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Waits for events and applies them; `report` gets each created or changed object.
    pub async fn next(&mut self, mut report: impl FnMut(&Object)) {
        let mut events = Vec::new();
        self.stream.next_many(&mut events, MAX_EVENTS).await;
        for event in events {
            match event {
                Event::Restarted(objects) => {
                    objects.iter().for_each(&mut report);
                    let named = |object: Object| (object.metadata.namespaced_name(), object);
                    self.objects = objects.into_iter().map(named).collect();
                }
                Event::Applied(object) => {
                    report(&object);
                    self.objects.insert(object.metadata.namespaced_name(), object);
                }
                Event::Deleted(object) => drop(self.objects.remove(&object.metadata.namespaced_name())),
            }
        }
    }

    /// Waits until the objects meet a condition.
    ///
    /// # Errors
    /// They do not in time.
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
///
/// # Errors
/// It does not complete in time.
pub async fn within<T>(
    timeout: Duration,
    what: &str,
    future: impl Future<Output = T>,
) -> Result<T, BenchError> {
    let late = |_| BenchError::Timeout { what: what.to_owned(), seconds: timeout.as_secs() };
    tokio::time::timeout(timeout, future).await.map_err(late)
}
