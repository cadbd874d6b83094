//! Follows the placement policies of a cluster, and writes their status.
//!
//! Every replica of the webhook writes the same status, and only if the stored one differs: no leader is needed.

mod status;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use berth_api::config::ConfigErrors;
use berth_api::object::{Namespace, NamespacedName, ObjectMeta, PartialObjectMetadata, Shared, StringMap};
use berth_api::policy::{PlacementPolicy, PolicySet};
use berth_api::read::from_value;
use berth_api::resource::{CLUSTER_PLACEMENT_POLICIES, NAMESPACES, PLACEMENT_POLICIES, PODS, Resource};
use berth_client::watch::Event;
use berth_client::{KubeObject, WatchGroup, WatchOptions, WatchStream, watch};
use serde_json::Value;
use tokio::time::Instant;

use crate::admission::AdmissionController;
use status::{MatchedPods, StatusWriter};

/// A definition that is installed later is noticed after this time.
const LONGEST_RETRY: Duration = Duration::from_secs(2);
/// Changes within this time cause one write of the status.
const STATUS_DELAY: Duration = Duration::from_millis(500);

/// A policy as the API server has it.
struct Stored {
    /// The policy, or what is wrong with it.
    read: Result<PlacementPolicy, ConfigErrors>,
    metadata: ObjectMeta,
    status: Value,
}

impl Stored {
    fn new(object: &Value) -> Stored {
        Stored {
            read: PlacementPolicy::read(object),
            metadata: from_value::<ObjectMeta>(&object["metadata"]).unwrap_or_default(),
            status: object["status"].clone(),
        }
    }
}

/// What the API server reported so far.
#[derive(Default)]
struct Observed {
    policies: BTreeMap<NamespacedName, Stored>,
    namespaces: HashMap<String, Shared<StringMap>>,
    pods: MatchedPods,
}

impl Observed {
    fn set(&self) -> PolicySet {
        let valid = self.policies.values().filter_map(|stored| stored.read.as_ref().ok());
        PolicySet::new(valid.cloned(), self.namespaces.clone())
    }

    fn apply_policy(&mut self, resource: &Resource, event: Event<Value>) {
        let key = |object: &Value| {
            let (namespace, name) = object.key();
            NamespacedName::new(namespace, name)
        };
        match event {
            Event::Restarted(objects) => {
                self.policies.retain(|key, _| key.namespace().is_empty() == resource.namespaced);
                self.policies.extend(objects.iter().map(|object| (key(object), Stored::new(object))));
            }
            Event::Applied(object) => _ = self.policies.insert(key(&object), Stored::new(&object)),
            Event::Deleted(object) => _ = self.policies.remove(&key(&object)),
        }
    }

    fn apply_namespace(&mut self, event: Event<Namespace>) {
        let entry = |namespace: Namespace| (namespace.metadata.name, namespace.metadata.labels);
        match event {
            Event::Restarted(namespaces) => self.namespaces = namespaces.into_iter().map(entry).collect(),
            Event::Applied(namespace) => self.namespaces.extend([entry(namespace)]),
            Event::Deleted(namespace) => _ = self.namespaces.remove(&namespace.metadata.name),
        }
    }
}

impl AdmissionController {
    /// Keeps the placement policies equal to those of a cluster and writes their status, for as long as the runtime
    /// lives. Pods are watched only while there are policies.
    pub(crate) async fn follow_policies(&self, client: kube::Client, group: &WatchGroup) {
        let options = |resource: Resource| WatchOptions {
            missing_is_empty: true,
            group: group.clone(),
            longest_retry: LONGEST_RETRY,
            ..WatchOptions::new(resource.path(""))
        };
        let mut namespaced = watch::<Value>(client.clone(), options(PLACEMENT_POLICIES));
        let mut cluster_scoped = watch::<Value>(client.clone(), options(CLUSTER_PLACEMENT_POLICIES));
        let mut namespaces = watch::<Namespace>(client.clone(), options(NAMESPACES));
        let mut pods: Option<WatchStream<PartialObjectMetadata>> = None;
        let mut observed = Observed::default();
        let mut statuses = StatusWriter::new(client.clone());
        let mut status_due: Option<Instant> = None;
        loop {
            let listed = tokio::select! {
                Some(event) = namespaced.next() => {
                    observed.apply_policy(&PLACEMENT_POLICIES, event);
                    Some(PLACEMENT_POLICIES)
                }
                Some(event) = cluster_scoped.next() => {
                    observed.apply_policy(&CLUSTER_PLACEMENT_POLICIES, event);
                    Some(CLUSTER_PLACEMENT_POLICIES)
                }
                Some(event) = namespaces.next() => {
                    observed.apply_namespace(event);
                    Some(NAMESPACES)
                }
                Some(event) = next(&mut pods) => {
                    observed.pods.apply(event);
                    None
                }
                () = until(status_due) => {
                    status_due = None;
                    if !statuses.write(&observed).await {
                        status_due = Some(Instant::now() + LONGEST_RETRY);
                    }
                    continue;
                }
                else => return,
            };
            if let Some(resource) = listed {
                // The first event of a watch is its list.
                self.set_placement_policies(observed.set());
                self.listed(resource.plural);
            }
            if observed.policies.is_empty() {
                (pods, observed.pods) = (None, MatchedPods::default());
            } else {
                pods.get_or_insert_with(|| watch(client.clone(), options(PODS)));
                status_due.get_or_insert_with(|| Instant::now() + STATUS_DELAY);
            }
        }
    }
}

async fn next(pods: &mut Option<WatchStream<PartialObjectMetadata>>) -> Option<Event<PartialObjectMetadata>> {
    match pods {
        Some(pods) => pods.next().await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
