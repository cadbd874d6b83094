//! Claims that the pods of a PodGroup share: made once for the group, and reserved for it until it is gone (enhancement 5729).

use std::sync::{Arc, PoisonError};

use berth_api::object::device::ResourceClaimConsumerReference;
use berth_api::object::{NamespacedName, PodResourceClaim};
use berth_api::resource::POD_GROUPS;
use berth_client::call::CallError;
use serde_json::{Value, json};

use super::plan::{ClaimOwner, is_done};
use super::{Key, ResourceClaims};
use crate::index::Index;
use crate::informers::Informers;
use crate::view::{PartialObjectMetadata, Pod, PodGroup};

/// What a pod shares with the others of its PodGroup.
pub(super) struct SharedClaims(Option<Arc<PodGroup>>);

impl SharedClaims {
    /// Whether the claim of an entry is that of the group.
    pub(super) fn has(&self, entry: &PodResourceClaim) -> bool {
        self.0.as_ref().is_some_and(|group| group.shares(entry))
    }

    /// The claims, as far as they are made, of entries with a template that the status of the pod does not name.
    pub(super) fn statuses(&self, pod: &Pod) -> Vec<Value> {
        let Some(group) = &self.0 else { return Vec::new() };
        let owner = ClaimOwner::pod(pod);
        let shared = pod.spec.resource_claims.iter().filter(|entry| group.shares(entry));
        let made = shared.filter(|entry| entry.resource_claim_template_name.is_some());
        let made = made.filter_map(|entry| Some((&entry.name, group.claim_of(entry)?)));
        made.filter(|(entry, claim)| !owner.names(entry, claim))
            .map(|(entry, claim)| json!({"name": entry, "resourceClaimName": claim}))
            .collect()
    }

    /// What a claim of the pod is reserved for.
    pub(super) fn consumer(&self, pod: &Pod, claim: &NamespacedName) -> ResourceClaimConsumerReference {
        let mut entries = pod.spec.resource_claims.iter();
        let is_shared = |group: &&Arc<PodGroup>| {
            entries.any(|entry| group.shares(entry) && group.claim_of(entry) == Some(claim.name()))
        };
        match self.0.as_ref().filter(is_shared) {
            Some(group) => {
                ResourceClaimConsumerReference::pod_group(&group.metadata.name, &group.metadata.uid)
            }
            None => ResourceClaimConsumerReference::pod(&pod.metadata),
        }
    }
}

impl ResourceClaims {
    /// Registers handlers for PodGroups, and for what their claims depend on.
    pub(super) fn follow_groups(&self, informers: &mut Informers) {
        let (queue, pods) = (self.queue.clone(), self.caches.pods.clone());
        let (claims, created) = (self.caches.resource_claims.clone(), self.created.clone());
        informers.pod_groups.on_change(move |change| {
            let Some(group) = change.latest().filter(|group| !group.spec.resource_claims.is_empty()) else {
                return;
            };
            let key = group.metadata.namespaced_name();
            if change.new.is_some() {
                for pod in pods.by(&Index::PodGroup(key.clone())) {
                    queue.add(Key::Pod(pod.metadata.namespaced_name()));
                }
                queue.add(Key::Group(key));
                return;
            }
            created.lock().unwrap_or_else(PoisonError::into_inner).remove(&group.metadata.uid);
            for claim in claims.by(&Index::Controller(group.metadata.uid.clone())) {
                queue.add(Key::Claim(claim.metadata.namespaced_name()));
            }
            let named = group.spec.resource_claims.iter().filter_map(|entry| group.claim_of(entry));
            named.for_each(|name| queue.add(Key::Claim(NamespacedName::new(key.namespace(), name))));
        });
        let queue = self.queue.clone();
        informers.resource_claims.on_change(move |change| {
            let (Some(claim), None) = (change.old, change.new) else { return };
            if let Some(owner) = claim.metadata.controller().filter(|owner| owner.kind == POD_GROUPS.kind) {
                queue.add(Key::Group(NamespacedName::new(&claim.metadata.namespace, &owner.name)));
            }
        });
        let (queue, groups) = (self.queue.clone(), self.caches.pod_groups.clone());
        informers.resource_claim_templates.on_change(move |change| {
            let (None, Some(template)) = (change.old, change.new) else { return };
            for group in groups.by(&Index::Namespace(template.metadata.namespace.clone())) {
                let mut entries = group.spec.resource_claims.iter();
                let name = Some(&template.metadata.name);
                if entries.any(|entry| entry.resource_claim_template_name.as_ref() == name) {
                    queue.add(Key::Group(group.metadata.namespaced_name()));
                }
            }
        });
    }

    pub(super) async fn sync_group(&self, key: &NamespacedName) -> Result<(), CallError> {
        let group = self.caches.pod_groups.get(key).filter(|_| self.groups_share);
        let Some(group) = group.filter(|group| !group.metadata.is_deleting()) else { return Ok(()) };
        let entries = group.spec.resource_claims.iter();
        self.record_claims(&ClaimOwner::pod_group(&group, self.api.served(&POD_GROUPS)), entries, Vec::new())
            .await
    }

    /// What a pod shares with its PodGroup; none while the group is not known.
    pub(super) fn shared_claims(&self, pod: &Pod) -> Option<SharedClaims> {
        match pod.pod_group().filter(|_| self.groups_share) {
            Some(group) => self.caches.pod_groups.get(&group).map(|group| SharedClaims(Some(group))),
            None => Some(SharedClaims(None)),
        }
    }

    /// Whether a PodGroup does not need a claim any longer: it is gone, and none of its pods uses the claim.
    pub(super) async fn is_group_gone(
        &self,
        claim: &NamespacedName,
        consumer: &ResourceClaimConsumerReference,
    ) -> Result<bool, CallError> {
        let key = NamespacedName::new(claim.namespace(), &consumer.name);
        let is_it = |uid: &str| uid == consumer.uid;
        if self.caches.pod_groups.get(&key).is_some_and(|group| is_it(&group.metadata.uid)) {
            return Ok(false);
        }
        let users = self.caches.pods.by(&Index::ResourceClaim(claim.clone()));
        if users.iter().any(|pod| pod.pod_group().as_ref() == Some(&key) && !is_done(pod)) {
            return Ok(false);
        }
        // The cache may not show a group that the scheduler knows.
        let group: Option<PartialObjectMetadata> = self.api.get(&POD_GROUPS, &key).await?;
        Ok(group.is_none_or(|group| !is_it(&group.metadata.uid)))
    }
}
