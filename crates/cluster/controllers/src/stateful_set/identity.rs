//! The identity of a StatefulSet pod: name, labels, host name and claims.

use berth_api::resource::{PODS, STATEFUL_SETS};
use serde_json::{Map, Value, json};

use super::plan::{POD_INDEX_LABEL, POD_NAME_LABEL};
use crate::ownership::Owner;
use crate::pod_control::{object_at, pod_from_template};
use crate::revisions::REVISION_LABEL;
use crate::view::{ObjectMeta, OwnerReference, StatefulSet};

pub(super) fn pod_name(set: &StatefulSet, ordinal: i64) -> String {
    format!("{}-{ordinal}", set.metadata.name)
}

pub(super) fn pod(set: &StatefulSet, ordinal: i64, template: &Value, revision: &str) -> Map<String, Value> {
    let name = pod_name(set, ordinal);
    let mut pod = pod_from_template(template, Owner { kind: &STATEFUL_SETS, meta: &set.metadata });
    let metadata = object_at(&mut pod, "metadata");
    metadata.remove("generateName");
    metadata.insert("name".to_owned(), name.as_str().into());
    let labels = object_at(metadata, "labels");
    labels.insert(POD_NAME_LABEL.to_owned(), name.as_str().into());
    labels.insert(POD_INDEX_LABEL.to_owned(), ordinal.to_string().into());
    labels.insert(REVISION_LABEL.to_owned(), revision.into());

    let spec = object_at(&mut pod, "spec");
    spec.insert("hostname".to_owned(), name.into());
    if !set.spec.service_name.is_empty() {
        spec.insert("subdomain".to_owned(), set.spec.service_name.as_str().into());
    }
    let claims: Vec<(&str, String)> = claim_names(set, ordinal).collect();
    if !claims.is_empty() {
        let volumes = spec.entry("volumes").or_insert(Value::Null);
        let mut kept: Vec<Value> = volumes.as_array().cloned().unwrap_or_default();
        // A claim replaces the volume of the same name.
        kept.retain(|volume| claims.iter().all(|(name, _)| volume["name"] != **name));
        kept.extend(
            claims
                .into_iter()
                .map(|(name, claim)| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}})),
        );
        *volumes = kept.into();
    }
    pod
}

/// Volume and claim names of the pod of an ordinal.
pub(super) fn claim_names(set: &StatefulSet, ordinal: i64) -> impl Iterator<Item = (&str, String)> {
    let pod = pod_name(set, ordinal);
    let names = set.spec.volume_claim_templates.iter().filter_map(|t| t.pointer("/metadata/name")?.as_str());
    names.map(move |volume| (volume, format!("{volume}-{pod}")))
}

/// The owner of a claim by the retention policy: the pod that is deleted because its ordinal is no longer wanted
/// (`condemned`), the StatefulSet, or none. The claim is deleted with its owner.
pub(super) fn claim_owner(set: &StatefulSet, condemned: Option<&ObjectMeta>) -> Option<OwnerReference> {
    let policy = &set.spec.persistent_volume_claim_retention_policy;
    match condemned {
        Some(pod) if policy.when_scaled == "Delete" => Some(Owner { kind: &PODS, meta: pod }.reference()),
        _ if policy.when_deleted == "Delete" => {
            Some(Owner { kind: &STATEFUL_SETS, meta: &set.metadata }.reference())
        }
        _ => None,
    }
}

/// The owner references that a claim must have instead of its own; `None` if they are right, or another controller
/// manages the claim.
pub(super) fn claim_owners(
    set: &StatefulSet,
    pod: &ObjectMeta,
    is_condemned: bool,
    claim: &ObjectMeta,
) -> Option<Vec<OwnerReference>> {
    let is_ours = |owner: &OwnerReference| owner.uid == set.metadata.uid || owner.uid == pod.uid;
    if claim.controller().is_some_and(|controller| !is_ours(controller)) {
        return None;
    }
    let wanted = claim_owner(set, is_condemned.then_some(pod));
    let uids = |owners: &[OwnerReference]| owners.iter().map(|owner| owner.uid.clone()).collect::<Vec<_>>();
    let others = claim.owner_references.iter().filter(|owner| !is_ours(owner)).cloned();
    let owners: Vec<OwnerReference> = others.chain(wanted).collect();
    (uids(&owners) != uids(&claim.owner_references)).then_some(owners)
}

/// Whether a claim is that of an earlier pod and will be deleted: a new pod waits for that.
pub(super) fn is_stale(claim: &ObjectMeta) -> bool {
    claim.is_deleting() || claim.controller().is_some_and(|controller| controller.kind == PODS.kind)
}

/// The claims of the pod of an ordinal. The StatefulSet owns them only if its retention policy says so.
pub(super) fn claims(set: &StatefulSet, ordinal: i64) -> Vec<Value> {
    let pod = pod_name(set, ordinal);
    let templates = set.spec.volume_claim_templates.iter().filter_map(|template| {
        let volume = template.pointer("/metadata/name")?.as_str()?;
        let mut claim = template.as_object()?.clone();
        claim.insert("apiVersion".to_owned(), "v1".into());
        claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        claim.remove("status");
        let metadata = object_at(&mut claim, "metadata");
        metadata.insert("name".to_owned(), format!("{volume}-{pod}").into());
        metadata.insert("namespace".to_owned(), (*set.metadata.namespace).into());
        let labels = object_at(metadata, "labels");
        for (key, value) in &set.spec.selector.written.match_labels {
            labels.insert(key.clone(), value.as_str().into());
        }
        if let Some(owner) = claim_owner(set, None) {
            metadata.insert("ownerReferences".to_owned(), json!([owner]));
        }
        Some(Value::Object(claim))
    });
    templates.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_the_name_labels_and_claims_of_its_ordinal() {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": {"name": "db", "namespace": "a", "uid": "u"},
            "spec": {
                "serviceName": "dbs",
                "selector": {"matchLabels": {"app": "db"}},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"x": 1}}],
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
            },
        }))
        .unwrap();
        let template = json!({
            "metadata": {"labels": {"app": "db"}},
            "spec": {"volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}], "affinity": {"x": 1}},
        });
        let pod = Value::Object(pod(&set, 3, &template, "db-1"));
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "db", POD_NAME_LABEL: "db-3", POD_INDEX_LABEL: "3", REVISION_LABEL: "db-1"})
        );
        assert_eq!(pod["spec"]["hostname"], "db-3");
        assert_eq!(pod["spec"]["subdomain"], "dbs");
        assert_eq!(pod["spec"]["affinity"], json!({"x": 1}));
        let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-db-3"}});
        assert_eq!(pod["spec"]["volumes"], json!([{"name": "tmp", "emptyDir": {}}, claim]));
        let [claim] = &claims(&set, 3)[..] else { panic!("one claim") };
        assert_eq!(claim["metadata"]["name"], "data-db-3");
        assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(claim["spec"], json!({"x": 1}));
    }

    #[test]
    fn the_retention_policy_decides_who_owns_a_claim() {
        let meta = |uid: &str, owners: &[(&str, &str)]| -> ObjectMeta {
            let owners: Vec<_> = owners
                .iter()
                .map(|(kind, uid)| json!({"kind": kind, "uid": uid, "controller": kind != &"Other"}))
                .collect();
            serde_json::from_value(json!({"name": uid, "uid": uid, "ownerReferences": owners})).unwrap()
        };
        let (set, pod, other) = (("StatefulSet", "set"), ("Pod", "pod"), ("Other", "other"));
        for (deleted, scaled, is_condemned, owners, wanted) in [
            ("Retain", "Retain", false, vec![], None),
            ("Retain", "Retain", true, vec![set], Some(vec![])),
            ("Delete", "Retain", false, vec![], Some(vec!["set"])),
            ("Delete", "Retain", true, vec![set], None),
            ("Retain", "Delete", false, vec![pod], Some(vec![])),
            ("Retain", "Delete", true, vec![other], Some(vec!["other", "pod"])),
            ("Delete", "Delete", false, vec![pod], Some(vec!["set"])),
            ("Delete", "Delete", true, vec![set], Some(vec!["pod"])),
            ("Delete", "Delete", false, vec![("Database", "other")], None),
        ] {
            let policy = json!({"whenDeleted": deleted, "whenScaled": scaled});
            let mut stateful: StatefulSet =
                serde_json::from_value(json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}}))
                    .unwrap();
            stateful.metadata = meta("set", &[]);
            let found = claim_owners(&stateful, &meta("pod", &[]), is_condemned, &meta("claim", &owners));
            let found = found.map(|owners| owners.into_iter().map(|owner| owner.uid).collect::<Vec<_>>());
            let wanted = wanted.map(|uids| uids.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(found, wanted, "{deleted} {scaled} {is_condemned} {owners:?}");
        }
        assert!(is_stale(&meta("claim", &[pod])) && !is_stale(&meta("claim", &[set])));
    }
}
