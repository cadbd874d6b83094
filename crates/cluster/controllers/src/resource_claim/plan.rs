//! What pods and claims need next. Pure.

use std::sync::Arc;

use berth_api::object::device::{
    CLAIM_FINALIZER, MAX_CONSUMERS, POD_CLAIM_NAME_ANNOTATION, POD_GROUP_CLAIM_NAME_ANNOTATION,
    ResourceClaimConsumerReference, claim_name_base,
};
use berth_api::object::{ObjectMeta, PodResourceClaim, PodResourceClaimStatus};
use berth_api::resource::{PODS, Resource};
use serde_json::{Value, json};

use crate::ownership::Owner;
use crate::view::{Pod, PodGroup, ResourceClaim, ResourceClaimTemplate};

/// A pod or a PodGroup that claims are made for from templates.
pub(super) struct ClaimOwner<'a> {
    pub(super) kind: &'static Resource,
    pub(super) metadata: &'a ObjectMeta,
    pub(super) statuses: &'a [PodResourceClaimStatus],
    /// The annotation of a claim with the name of its entry.
    annotation: &'static str,
}

impl ClaimOwner<'_> {
    pub(super) fn pod(pod: &Pod) -> ClaimOwner<'_> {
        let (metadata, statuses) = (&pod.metadata, &pod.status.resource_claim_statuses[..]);
        ClaimOwner { kind: &PODS, metadata, statuses, annotation: POD_CLAIM_NAME_ANNOTATION }
    }

    /// `kind` is the version of it that the API server has.
    pub(super) fn pod_group<'a>(group: &'a PodGroup, kind: &'static Resource) -> ClaimOwner<'a> {
        let (metadata, statuses) = (&group.metadata, &group.status.resource_claim_statuses[..]);
        ClaimOwner { kind, metadata, statuses, annotation: POD_GROUP_CLAIM_NAME_ANNOTATION }
    }

    /// Whether its status names this claim for an entry.
    pub(super) fn names(&self, entry: &str, claim: &str) -> bool {
        let mut statuses = self.statuses.iter();
        statuses.any(|status| status.name == entry && status.resource_claim_name.as_deref() == Some(claim))
    }
}

/// The next step for an entry of `spec.resourceClaims` of a pod or a PodGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Nothing: the claim is there, or none is needed.
    Done,
    /// The claim is there, and the status is to name it.
    Record(String),
    /// A claim is to be made from the template.
    Create { template: String },
}

/// The next step for an entry. `owned` are the claims that the pod or PodGroup owns; `find` looks for a claim by its name.
pub(super) fn entry_of(
    owner: &ClaimOwner<'_>,
    entry: &PodResourceClaim,
    owned: &[Arc<ResourceClaim>],
    find: impl Fn(&str) -> Option<Arc<ResourceClaim>>,
) -> Entry {
    let Some(template) = &entry.resource_claim_template_name else { return Entry::Done };
    let recorded = owner.statuses.iter().find(|status| status.name == entry.name);
    match recorded.map(|status| status.resource_claim_name.as_deref()) {
        // None is needed.
        Some(None) => return Entry::Done,
        Some(Some(name))
            if find(name).is_some_and(|claim| claim.metadata.is_controlled_by(&owner.metadata.uid)) =>
        {
            return Entry::Done;
        }
        _ => {}
    }
    // It was made, and the status not written yet.
    let is_for_entry = |claim: &&Arc<ResourceClaim>| {
        claim.metadata.annotation(owner.annotation) == Some(&entry.name) && !claim.metadata.is_deleting()
    };
    match owned.iter().find(is_for_entry) {
        Some(claim) => Entry::Record(claim.metadata.name.clone()),
        None => Entry::Create { template: template.clone() },
    }
}

/// The claim that is made from a template for an entry.
pub(super) fn new_claim(owner: &ClaimOwner<'_>, entry: &str, template: &ResourceClaimTemplate) -> Value {
    let ClaimOwner { kind, metadata: meta, annotation, .. } = *owner;
    let reference = Owner { kind, meta }.reference();
    let mut metadata = json!({"generateName": claim_name_base(&meta.name, entry), "namespace": meta.namespace,
        "ownerReferences": [reference]});
    for field in ["labels", "annotations"] {
        if let Some(value) = template.spec["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    metadata["annotations"][annotation] = entry.into();
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata,
        "spec": template.spec["spec"]})
}

/// Whether a pod that was bound without the scheduler, or its PodGroup, is to be entered in `reservedFor` of its claim.
pub(super) fn needs_reservation(
    pod: &Pod,
    consumer: &ResourceClaimConsumerReference,
    claim: &ResourceClaim,
) -> bool {
    !pod.spec.node_name.is_empty()
        && claim.status.allocation.is_some()
        && !claim.metadata.is_deleting()
        && !claim.status.is_reserved_for(&consumer.uid)
        && claim.status.reserved_for.len() < MAX_CONSUMERS
}

/// Whether no container of the pod runs or will run.
pub(super) fn is_done(pod: &Pod) -> bool {
    pod.is_terminal() || (pod.metadata.is_deleting() && pod.spec.node_name.is_empty())
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClaimPlan {
    /// The remaining consumers, if some are gone.
    pub(super) reserved_for: Option<Vec<ResourceClaimConsumerReference>>,
    /// Whether to take the allocation away.
    pub(super) deallocate: bool,
    /// Whether to remove the finalizer afterwards.
    pub(super) remove_finalizer: bool,
    /// Whether to delete the claim afterwards: it was made for a pod that does not need it any longer.
    pub(super) delete: bool,
}

/// The next steps for a claim. `owner_is_done` says whether the pod that it was made for is replaced or done.
pub(super) fn plan_claim(
    claim: &ResourceClaim,
    is_gone: impl Fn(&ResourceClaimConsumerReference) -> bool,
    owner_is_done: bool,
) -> ClaimPlan {
    let reserved = &claim.status.reserved_for;
    let kept: Vec<_> = reserved.iter().filter(|consumer| !is_gone(consumer)).cloned().collect();
    let has_finalizer = claim.metadata.finalizers.iter().any(|finalizer| finalizer == CLAIM_FINALIZER);
    let (is_unused, is_released) = (kept.is_empty(), kept.len() < reserved.len());
    // An allocation may come before its reservation: only a claim that was used, or is being deleted, loses it.
    let ends = has_finalizer && is_unused && (is_released || claim.metadata.is_deleting());
    ClaimPlan {
        reserved_for: is_released.then_some(kept),
        deallocate: ends && claim.status.allocation.is_some(),
        remove_finalizer: ends,
        delete: is_unused && owner_is_done && !claim.metadata.is_deleting(),
    }
}

#[cfg(test)]
mod tests {
    use berth_api::resource::POD_GROUPS;

    use super::*;

    fn pod(change: Value) -> Pod {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}});
        json_patch::merge(&mut pod, &change);
        serde_json::from_value(pod).unwrap()
    }

    fn claim(change: Value) -> ResourceClaim {
        let mut claim = json!({"metadata": {"name": "c", "namespace": "n"}});
        json_patch::merge(&mut claim, &change);
        serde_json::from_value(claim).unwrap()
    }

    fn owned_by(uid: &str, entry: &str) -> Arc<ResourceClaim> {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true});
        let annotations = json!({POD_CLAIM_NAME_ANNOTATION: entry});
        Arc::new(claim(json!({"metadata": {"ownerReferences": [owner], "annotations": annotations}})))
    }

    #[test]
    fn an_entry_with_a_template_gets_one_claim() {
        let create = Entry::Create { template: "t".to_owned() };
        let recorded = |name: Value| json!({"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]}});
        let (mine, others) = (owned_by("u", "gpu"), owned_by("v", "gpu"));
        for (status, owned, found, expected) in [
            (json!({}), vec![], None, create.clone()),
            (json!({}), vec![owned_by("u", "nic")], None, create.clone()),
            (json!({}), vec![mine.clone()], None, Entry::Record("c".to_owned())),
            (recorded("c".into()), vec![mine.clone()], Some(mine.clone()), Entry::Done),
            (recorded("c".into()), vec![], Some(others), create.clone()),
            (recorded("gone".into()), vec![], None, create.clone()),
            (recorded(Value::Null), vec![], None, Entry::Done),
        ] {
            let entry = PodResourceClaim {
                name: "gpu".to_owned(),
                resource_claim_template_name: Some("t".to_owned()),
                ..PodResourceClaim::default()
            };
            assert_eq!(
                entry_of(&ClaimOwner::pod(&pod(status.clone())), &entry, &owned, |_| found.clone()),
                expected,
                "{status}"
            );
        }
        let direct =
            PodResourceClaim { resource_claim_name: Some("c".to_owned()), ..PodResourceClaim::default() };
        assert_eq!(entry_of(&ClaimOwner::pod(&pod(json!({}))), &direct, &[], |_| None), Entry::Done);
    }

    #[test]
    fn a_new_claim_has_all_of_its_template_and_belongs_to_its_pod() {
        let template = json!({"spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}},
            "spec": {"devices": {"requests": [{"name": "r", "later": true}]}}}});
        let made = new_claim(
            &ClaimOwner::pod(&pod(json!({}))),
            "gpu",
            &serde_json::from_value(template.clone()).unwrap(),
        );
        assert_eq!(made["metadata"]["generateName"], "p-gpu-");
        assert_eq!(made["metadata"]["annotations"], json!({"x": "y", POD_CLAIM_NAME_ANNOTATION: "gpu"}));
        assert_eq!(made["metadata"]["labels"], json!({"a": "b"}));
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true, "blockOwnerDeletion": true});
        assert_eq!(made["metadata"]["ownerReferences"], json!([owner]));
        assert_eq!(made["spec"], template["spec"]["spec"]);
        let group = json!({"metadata": {"name": "ring", "namespace": "n", "uid": "g"}});
        let group: PodGroup = serde_json::from_value(group).unwrap();
        let template = serde_json::from_value(json!({"spec": {"spec": {}}})).unwrap();
        let made = new_claim(&ClaimOwner::pod_group(&group, &POD_GROUPS), "gpu", &template);
        assert_eq!(made["metadata"]["generateName"], "ring-gpu-");
        assert_eq!(made["metadata"]["annotations"], json!({POD_GROUP_CLAIM_NAME_ANNOTATION: "gpu"}));
        assert_eq!(made["metadata"]["ownerReferences"][0]["kind"], "PodGroup");
        let long = claim_name_base(&"p".repeat(100), &"c".repeat(20));
        assert!(long.len() <= 57 && long.starts_with("ppp") && long.ends_with("-ccccccccc"), "{long}");
    }

    #[test]
    fn a_claim_is_released_deallocated_and_deleted_with_its_last_pod() {
        let consumer = |name: &str| json!({"resource": "pods", "name": name, "uid": name});
        let of = |consumers: &[&str], finalizers: &[&str], deleting: bool, is_allocated: bool| {
            let consumers: Vec<_> = consumers.iter().map(|name| consumer(name)).collect();
            let deletion = deleting.then_some("2026-01-01T00:00:00Z");
            claim(json!({"metadata": {"finalizers": finalizers, "deletionTimestamp": deletion},
                "status": {"reservedFor": consumers, "allocation": is_allocated.then(|| json!({}))}}))
        };
        let names = |plan: &ClaimPlan| {
            let names = |list: &Vec<ResourceClaimConsumerReference>| {
                list.iter().map(|c| c.name.clone()).collect::<Vec<_>>()
            };
            plan.reserved_for.as_ref().map(names)
        };
        let f = &[CLAIM_FINALIZER][..];
        for (claim, owner_is_done, reserved, [deallocate, remove_finalizer, delete]) in [
            (of(&["a"], f, false, true), false, None, [false; 3]),
            (of(&["a", "gone"], f, false, true), false, Some(vec!["a"]), [false; 3]),
            (of(&["gone"], f, false, true), false, Some(vec![]), [true, true, false]),
            (of(&["gone"], f, false, true), true, Some(vec![]), [true; 3]),
            (of(&["gone"], &[], false, true), false, Some(vec![]), [false; 3]),
            (of(&[], f, false, true), false, None, [false; 3]),
            (of(&[], f, true, true), false, None, [true, true, false]),
            (of(&[], f, true, false), true, None, [false, true, false]),
            (of(&["a"], f, true, true), true, None, [false; 3]),
            (of(&[], &[], false, false), true, None, [false, false, true]),
        ] {
            let plan = plan_claim(&claim, |consumer| consumer.name == "gone", owner_is_done);
            let reserved = reserved.map(|names| names.into_iter().map(str::to_owned).collect());
            assert_eq!(names(&plan), reserved, "{claim:?}");
            assert_eq!(
                [plan.deallocate, plan.remove_finalizer, plan.delete],
                [deallocate, remove_finalizer, delete],
                "{claim:?}"
            );
        }
    }

    #[test]
    fn only_pods_bound_without_the_scheduler_are_reserved() {
        let bound = pod(json!({"spec": {"nodeName": "node"}}));
        let allocated = |uid: &str| {
            claim(
                json!({"status": {"allocation": {}, "reservedFor": [{"resource": "pods", "name": "p", "uid": uid}]}}),
            )
        };
        let needs = |pod: &Pod, claim: &ResourceClaim| {
            needs_reservation(pod, &ResourceClaimConsumerReference::pod(&pod.metadata), claim)
        };
        assert!(needs(&bound, &allocated("other")));
        assert!(!needs(&bound, &allocated("u")), "it is reserved");
        assert!(!needs(&bound, &claim(json!({}))), "it is not allocated");
        assert!(!needs(&pod(json!({})), &allocated("other")), "the scheduler will do it");
    }
}
