//! Claims of devices: makes those of templates, releases those of pods that are done, and takes the allocation of unused ones
//! away.

mod groups;
mod plan;
mod taints;

pub(crate) use taints::DeviceTaintEviction;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use berth_api::feature_gates::FeatureGates;
use berth_api::object::device::{CLAIM_FINALIZER, ResourceClaimConsumerReference};
use berth_api::object::{NamespacedName, ObjectMeta, PodResourceClaim};
use berth_api::resource::{PODS, RESOURCE_CLAIMS};
use berth_client::call::CallError;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::plan::{ClaimOwner, ClaimPlan, Entry, entry_of, is_done, needs_reservation, new_claim, plan_claim};
use crate::api::{Api, DeleteOptions, Precondition};
use crate::events::{Recorder, Reference};
use crate::index::Index;
use crate::informers::{Caches, Informers};
use crate::queue::{Next, Queue, work};
use crate::view::{PartialObjectMetadata, ResourceClaim};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Pod(NamespacedName),
    Group(NamespacedName),
    Claim(NamespacedName),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Pod(name) => write!(f, "pod {name}"),
            Key::Group(name) => write!(f, "pod group {name}"),
            Key::Claim(name) => write!(f, "claim {name}"),
        }
    }
}

/// By uid of pods and PodGroups, the claims made for their entries: the caches may not show them yet.
type Created = HashMap<String, HashMap<String, String>>;

pub(crate) struct ResourceClaims {
    api: Api,
    recorder: Recorder,
    caches: Caches,
    queue: Arc<Queue<Key>>,
    created: Arc<Mutex<Created>>,
    /// Whether the pods of a PodGroup share its claims.
    groups_share: bool,
}

impl ResourceClaims {
    pub(crate) fn new(
        api: &Api,
        recorder: Recorder,
        informers: &mut Informers,
        feature_gates: FeatureGates,
    ) -> Self {
        let caches = informers.caches();
        let (queue, created) = Default::default();
        let groups_share = feature_gates.dra_workload_resource_claims;
        let controller = ResourceClaims { api: api.clone(), recorder, caches, queue, created, groups_share };
        controller.follow_groups(informers);
        let (queue, created) = (controller.queue.clone(), controller.created.clone());
        informers.pods.on_change(move |change| {
            let Some(pod) = change.latest().filter(|pod| pod.has_resource_claims()) else { return };
            match change.new.filter(|pod| !is_done(pod)) {
                Some(pod) => queue.add(Key::Pod(pod.metadata.namespaced_name())),
                None => {
                    created.lock().unwrap_or_else(PoisonError::into_inner).remove(&pod.metadata.uid);
                    pod.resource_claims().for_each(|claim| queue.add(Key::Claim(claim)));
                }
            }
        });
        let (queue, pods) = (controller.queue.clone(), controller.caches.pods.clone());
        informers.resource_claims.on_change(move |change| {
            let Some(claim) = change.latest() else { return };
            let name = claim.metadata.namespaced_name();
            let is_allocated = |claim: &ResourceClaim| claim.status.allocation.is_some();
            let is_newly_allocated = is_allocated(claim) && !change.old.is_some_and(|old| is_allocated(old));
            if change.new.is_none() || is_newly_allocated {
                for pod in pods.by(&Index::ResourceClaim(name.clone())) {
                    queue.add(Key::Pod(pod.metadata.namespaced_name()));
                }
            }
            if change.new.is_some() {
                queue.add(Key::Claim(name));
            }
        });
        let (queue, pods) = (controller.queue.clone(), controller.caches.pods.clone());
        informers.resource_claim_templates.on_change(move |change| {
            let (None, Some(template)) = (change.old, change.new) else { return };
            let name = Some(&template.metadata.name);
            for pod in pods.by(&Index::Namespace(template.metadata.namespace.clone())) {
                let mut entries = pod.spec.resource_claims.iter();
                if entries.any(|entry| entry.resource_claim_template_name.as_ref() == name) {
                    queue.add(Key::Pod(pod.metadata.namespaced_name()));
                }
            }
        });
        controller
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("resource-claims", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: Key) -> Result<Next, CallError> {
        match key {
            Key::Pod(name) => self.sync_pod(&name).await?,
            Key::Group(name) => self.sync_group(&name).await?,
            Key::Claim(name) => self.sync_claim(&name).await?,
        }
        Ok(Next::Wait)
    }

    async fn sync_pod(&self, key: &NamespacedName) -> Result<(), CallError> {
        let Some(pod) = self.caches.pods.get(key).filter(|pod| !is_done(pod) && !pod.metadata.is_deleting())
        else {
            return Ok(());
        };
        // Which claims are shared is known when the group is.
        let Some(shared) = self.shared_claims(&pod) else { return Ok(()) };
        let own = pod.spec.resource_claims.iter().filter(|entry| !shared.has(entry));
        self.record_claims(&ClaimOwner::pod(&pod), own, shared.statuses(&pod)).await?;
        for name in pod.resource_claims() {
            let consumer = shared.consumer(&pod, &name);
            let Some(claim) = self.caches.resource_claims.get(&name) else { continue };
            if needs_reservation(&pod, &consumer, &claim) {
                let consumers: Vec<_> = claim.status.reserved_for.iter().chain([&consumer]).collect();
                let status = json!({"reservedFor": consumers});
                self.api
                    .write_status(&RESOURCE_CLAIMS, &claim.metadata, &status, Precondition::Version)
                    .await?;
            }
        }
        Ok(())
    }

    /// Makes the claims of entries that have none, and adds them to the status of the owner, after `statuses`.
    async fn record_claims(
        &self,
        owner: &ClaimOwner<'_>,
        entries: impl Iterator<Item = &PodResourceClaim>,
        mut statuses: Vec<Value>,
    ) -> Result<(), CallError> {
        let namespace = &owner.metadata.namespace;
        let owned = self.caches.resource_claims.by(&Index::Controller(owner.metadata.uid.clone()));
        let mut outcome = Ok(());
        for entry in entries {
            let find = |name: &str| self.caches.resource_claims.get(&NamespacedName::new(namespace, name));
            let name = match entry_of(owner, entry, &owned, find) {
                Entry::Done => continue,
                Entry::Record(name) => name,
                Entry::Create { template } => match self.make_claim(owner, &entry.name, &template).await {
                    Ok(Some(name)) => name,
                    Ok(None) => continue,
                    Err(error) => {
                        outcome = Err(error);
                        continue;
                    }
                },
            };
            if !owner.names(&entry.name, &name) {
                statuses.push(json!({"name": entry.name, "resourceClaimName": name}));
            }
        }
        if !statuses.is_empty() {
            let status = json!({"resourceClaimStatuses": statuses});
            self.api.merge_status(owner.kind, owner.metadata, &status).await?;
        }
        outcome
    }

    /// Makes the claim of an entry, unless the caches only do not show it yet; returns its name. `None` if the template is missing
    /// or the namespace ends.
    async fn make_claim(
        &self,
        owner: &ClaimOwner<'_>,
        entry: &str,
        template: &str,
    ) -> Result<Option<String>, CallError> {
        let ObjectMeta { namespace, uid, .. } = owner.metadata;
        let recorded = owner.statuses.iter().find(|status| status.name == entry);
        let made = self.created().get(uid).and_then(|entries| entries.get(entry)).cloned();
        for name in made.into_iter().chain(recorded.and_then(|status| status.resource_claim_name.clone())) {
            let claim: Option<ResourceClaim> =
                self.api.get(&RESOURCE_CLAIMS, &NamespacedName::new(namespace, &name)).await?;
            if claim.is_some_and(|claim| claim.metadata.is_controlled_by(uid)) {
                return Ok(Some(name));
            }
        }
        let about = Reference::new(owner.kind, owner.metadata);
        let failed = |why: String| {
            let message = format!("{}ResourceClaim {entry}: {why}", owner.kind.kind);
            self.recorder.warning(&about, "FailedResourceClaimCreation", message);
        };
        let key = NamespacedName::new(namespace, template);
        let Some(found) = self.caches.resource_claim_templates.get(&key) else {
            failed(format!(
                "resource claim template {template:?}: resourceclaimtemplate.resource.k8s.io {template:?} not found"
            ));
            return Ok(None);
        };
        let claim = new_claim(owner, entry, &found);
        match self.api.create(&RESOURCE_CLAIMS, namespace, claim.to_string().into_bytes()).await {
            Ok(claim) => {
                let name = claim.metadata.name;
                self.created().entry(uid.clone()).or_default().insert(entry.to_owned(), name.clone());
                Ok(Some(name))
            }
            Err(error) if error.is_namespace_terminating() => Ok(None),
            Err(error) => {
                failed(format!("create ResourceClaim: {error}"));
                Err(error)
            }
        }
    }

    fn created(&self) -> std::sync::MutexGuard<'_, Created> {
        self.created.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sync_claim(&self, key: &NamespacedName) -> Result<(), CallError> {
        let Some(claim) = self.caches.resource_claims.get(key) else { return Ok(()) };
        let mut gone = HashSet::new();
        for consumer in &claim.status.reserved_for {
            let is_gone = match consumer.as_pod_group() {
                Some(_) => self.is_group_gone(key, consumer).await?,
                None => self.is_gone(key.namespace(), consumer).await?,
            };
            if is_gone {
                gone.insert(consumer.uid.as_str());
            }
        }
        let owner =
            claim.metadata.controller().filter(|owner| owner.kind == "Pod" && owner.api_version == "v1");
        let owner_is_done = owner.is_some_and(|owner| {
            let pod = self.caches.pods.get(&NamespacedName::new(key.namespace(), &owner.name));
            // Of a pod that is deleted, the garbage collector deletes the claim.
            pod.is_some_and(|pod| pod.metadata.uid != owner.uid || is_done(&pod))
        });
        let plan = plan_claim(&claim, |consumer| gone.contains(consumer.uid.as_str()), owner_is_done);
        self.carry_out(&claim, plan).await
    }

    /// Whether a consumer does not need the claim any longer.
    async fn is_gone(
        &self,
        namespace: &str,
        consumer: &ResourceClaimConsumerReference,
    ) -> Result<bool, CallError> {
        if consumer.resource != "pods" || !consumer.api_group.is_empty() {
            return Ok(false);
        }
        let key = NamespacedName::new(namespace, &consumer.name);
        let pod = match self.caches.pods.get(&key) {
            Some(pod) => return Ok(pod.metadata.uid != consumer.uid || is_done(&pod)),
            // The cache may not show a pod that the scheduler knows.
            None => self.api.get::<PartialObjectMetadata>(&PODS, &key).await?,
        };
        Ok(pod.is_none_or(|pod| pod.metadata.uid != consumer.uid))
    }

    async fn carry_out(&self, claim: &ResourceClaim, plan: ClaimPlan) -> Result<(), CallError> {
        let key = claim.metadata.namespaced_name();
        let mut version = claim.metadata.resource_version.clone();
        if plan.reserved_for.is_some() || plan.deallocate {
            let mut status = json!({});
            if let Some(consumers) = &plan.reserved_for {
                status["reservedFor"] = if consumers.is_empty() { Value::Null } else { json!(consumers) };
            }
            if plan.deallocate {
                status["allocation"] = Value::Null;
            }
            let patch = json!({"metadata": {"uid": claim.metadata.uid, "resourceVersion": version}, "status": status});
            let PartialObjectMetadata { metadata } =
                self.api.patch(&RESOURCE_CLAIMS, &key, "status", &patch).await?;
            version = metadata.resource_version;
        }
        if plan.remove_finalizer {
            let others: Vec<_> =
                claim.metadata.finalizers.iter().filter(|name| *name != CLAIM_FINALIZER).collect();
            let finalizers = if others.is_empty() { Value::Null } else { json!(others) };
            let metadata =
                json!({"uid": claim.metadata.uid, "resourceVersion": version, "finalizers": finalizers});
            self.api.patch_existing(&RESOURCE_CLAIMS, &key, &json!({"metadata": metadata})).await?;
        }
        if plan.delete {
            match self.api.delete(&RESOURCE_CLAIMS, &key, DeleteOptions::of_uid(&claim.metadata.uid)).await {
                Err(error) if error.is_stale() => {}
                result => result?,
            }
        }
        Ok(())
    }
}
