//! Garbage collection: deletes dependents when all their owners are absent.
//!
//! If the watches do not show an owner, the collector reads it from the API by uid before it deletes a dependent. A
//! uid is never reused, so the collector caches absent ones. Deletions carry a resource version: if the
//! owner references have changed meanwhile, the deletion fails.

mod graph;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::object::NamespacedName;
use berth_api::resource::Resource;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::graph::{Graph, Node, ORPHAN, Uid};
use self::plan::{Action, OwnerState, owner_state, plan, without};
use super::api::{Api, DeleteOptions};
use super::index::Informer;
use super::queue::{Next, Queue, work};
use super::view::{ObjectMeta, OwnerReference, PartialObjectMetadata};
use berth_client::HasMetadata;
use berth_client::call::CallError;

/// Capacity of the cache of absent owners.
const MAX_ABSENT: usize = 10_000;

pub(crate) struct GarbageCollector {
    api: Api,
    shared: Arc<Shared>,
    absent: Mutex<HashSet<Uid>>,
}

#[derive(Default)]
struct Shared {
    graph: Mutex<Graph>,
    queue: Arc<Queue<Item>>,
}

/// An object to process, by uid.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Item(Uid);

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid {}", self.0)
    }
}

impl Shared {
    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, kind: &'static Resource, old: Option<&ObjectMeta>, new: Option<&ObjectMeta>) {
        let look = match (old, new) {
            (_, Some(new)) => {
                // Most changes affect only the status.
                let same = old.is_some_and(|old| {
                    old.owner_references == new.owner_references
                        && old.finalizers == new.finalizers
                        && old.is_deleting() == new.is_deleting()
                });
                if same {
                    return self.graph().touch(&new.uid, &new.resource_version);
                }
                self.graph().observe(Node::new(kind, new))
            }
            (Some(old), None) => self.graph().remove(&old.uid),
            (None, None) => return,
        };
        self.look_at(look);
    }

    fn look_at(&self, uids: Vec<Uid>) {
        for uid in uids {
            self.queue.add(Item(uid));
        }
    }
}

impl GarbageCollector {
    pub(crate) fn new(api: &Api) -> Self {
        GarbageCollector { api: api.clone(), shared: Arc::default(), absent: Mutex::default() }
    }

    /// Handles the events of all objects of a resource.
    pub(crate) fn follow<T: HasMetadata>(&self, kind: &'static Resource, informer: &mut Informer<T>) {
        let shared = self.shared.clone();
        informer.on_change(move |change| {
            shared.changed(kind, change.old.map(|old| old.meta()), change.new.map(|new| new.meta()));
        });
    }

    pub(crate) async fn run(self: Arc<Self>, n_workers: usize, stop: CancellationToken) {
        work("garbage-collector", &self.shared.queue, n_workers, |item| self.sync(item), stop).await;
    }

    async fn sync(&self, Item(uid): Item) -> Result<Next, CallError> {
        let Some((node, mut owners)) = ({
            let graph = self.shared.graph();
            graph.node(&uid).map(|node| {
                let owners: Vec<_> =
                    node.owners.iter().map(|owner| owner_state(&graph, node, owner)).collect();
                (node.clone(), owners)
            })
        }) else {
            return Ok(Next::Wait);
        };
        if !node.deleting {
            for (state, owner) in owners.iter_mut().zip(&node.owners) {
                if let OwnerState::Unknown(kind) = *state
                    && self.is_absent(kind, &node, owner).await?
                {
                    *state = OwnerState::Absent;
                }
            }
        }
        let action = plan(&self.shared.graph(), &node, &owners);
        match action {
            Action::Nothing => {}
            Action::Delete(propagation) => {
                let options = DeleteOptions {
                    uid: Some(&node.uid),
                    resource_version: Some(&node.resource_version),
                    grace_period_seconds: None,
                    propagation: Some(propagation),
                };
                self.api.delete(node.kind, &node.key, options).await?;
            }
            Action::SetOwners(owners) => self.write(&node, "ownerReferences", owners).await?,
            Action::SetFinalizers(finalizers) => self.write(&node, "finalizers", json!(finalizers)).await?,
            Action::Orphan => self.orphan(&node).await?,
            Action::WaitForDependents(dependents) => self.shared.look_at(dependents),
        }
        Ok(Next::Wait)
    }

    /// Reads an owner from the API to check whether it is absent.
    async fn is_absent(
        &self,
        kind: &'static Resource,
        dependent: &Node,
        owner: &OwnerReference,
    ) -> Result<bool, CallError> {
        if self.lock_absent().contains(&owner.uid) {
            return Ok(true);
        }
        let namespace = if kind.namespaced { dependent.key.namespace() } else { "" };
        let key = NamespacedName::new(namespace, &owner.name);
        let live: Option<PartialObjectMetadata> = self.api.get(kind, &key).await?;
        let absent = live.is_none_or(|live| live.metadata.uid != owner.uid);
        if absent {
            let mut cached = self.lock_absent();
            if cached.len() >= MAX_ABSENT {
                cached.clear();
            }
            cached.insert(owner.uid.clone());
        }
        Ok(absent)
    }

    /// Removes an owner from its dependents' references, then its orphan finalizer.
    async fn orphan(&self, owner: &Node) -> Result<(), CallError> {
        let dependents: Vec<Node> = self.shared.graph().dependents(&owner.uid).cloned().collect();
        let freed = dependents.iter().map(|dependent| {
            let others = dependent.owners.iter().filter(|other| other.uid != owner.uid);
            let others: Vec<&OwnerReference> = others.collect();
            self.write(dependent, "ownerReferences", json!(others))
        });
        join_all(freed).await.into_iter().collect::<Result<(), _>>()?;
        self.write(owner, "finalizers", json!(without(owner, ORPHAN))).await
    }

    async fn write(&self, node: &Node, field: &str, value: Value) -> Result<(), CallError> {
        let patch = json!({"metadata": {
            "uid": node.uid,
            "resourceVersion": node.resource_version,
            field: value,
        }});
        self.api.patch_existing(node.kind, &node.key, &patch).await.map(drop)
    }

    fn lock_absent(&self) -> MutexGuard<'_, HashSet<Uid>> {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
