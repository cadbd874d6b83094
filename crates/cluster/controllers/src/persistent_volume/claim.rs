//! What happens to a claim next. Pure.

use std::sync::Arc;

use berth_api::object::volume::{
    BIND_COMPLETED_ANNOTATION as BIND_COMPLETED, BOUND_BY_CONTROLLER_ANNOTATION as BOUND_BY_CONTROLLER,
    NO_PROVISIONER, PersistentVolume, PersistentVolumeClaim, SELECTED_NODE_ANNOTATION as SELECTED_NODE,
};
use berth_control::claim::{best_match, mismatch};

use crate::events::Notice;
use crate::view::StorageClass;

/// What the controller knows about a claim.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// Volumes that refer to the claim.
    pub(super) reserved: Vec<Arc<PersistentVolume>>,
    /// Volumes of its class without claim.
    pub(super) free: Vec<Arc<PersistentVolume>>,
    pub(super) named: Option<Arc<PersistentVolume>>,
    pub(super) class: Option<Arc<StorageClass>>,
    pub(super) default_class: Option<String>,
    /// Names of the pods without node that use it, sorted.
    pub(super) waiting_pods: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Step {
    /// Bind it to this volume, or complete the binding.
    Bind(Arc<PersistentVolume>),
    Pending(Option<Notice>),
    Lost(Notice),
    /// It gets the default class.
    SetClass(String),
    Provision {
        provisioner: String,
    },
}

pub(super) fn plan(claim: &PersistentVolumeClaim, observed: &Observed) -> Step {
    if claim.metadata.annotation(BIND_COMPLETED).is_some() {
        plan_bound(claim, observed)
    } else if !claim.spec.volume_name.is_empty() {
        plan_named(claim, observed)
    } else {
        plan_unbound(claim, observed)
    }
}

fn plan_bound(claim: &PersistentVolumeClaim, observed: &Observed) -> Step {
    let lost = |reason, message: &str| Step::Lost(Notice::warning(reason, message));
    if claim.spec.volume_name.is_empty() {
        return lost(
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        );
    }
    match &observed.named {
        None => lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
        Some(volume) if volume.spec.claim_ref.as_ref().is_none_or(|c| c.uid == claim.metadata.uid) => {
            Step::Bind(volume.clone())
        }
        Some(_) => {
            lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
        }
    }
}

fn plan_named(claim: &PersistentVolumeClaim, observed: &Observed) -> Step {
    let Some(volume) = &observed.named else { return Step::Pending(None) };
    if volume.spec.claim_ref.is_some() {
        if volume.is_for(claim) {
            return Step::Bind(volume.clone());
        }
        let message = format!("volume {:?} already bound to a different claim.", volume.metadata.name);
        let by_user = claim.metadata.annotation(BOUND_BY_CONTROLLER).is_none();
        return Step::Pending(by_user.then(|| Notice::warning("FailedBinding", message)));
    }
    match mismatch(volume, claim) {
        None => Step::Bind(volume.clone()),
        Some(why) => {
            let message = format!("Cannot bind to requested volume {:?}: {why}", volume.metadata.name);
            Step::Pending(Some(Notice::warning("VolumeMismatch", message)))
        }
    }
}

fn plan_unbound(claim: &PersistentVolumeClaim, observed: &Observed) -> Step {
    if claim.needs_class()
        && let Some(class) = &observed.default_class
    {
        return Step::SetClass(class.clone());
    }
    let waits = observed.class.as_ref().is_some_and(|class| class.waits_for_first_consumer());
    // The scheduler binds the claims of such a class to existing volumes: it reserves them.
    let free = if waits { &[][..] } else { &observed.free };
    if let Some(volume) = best_match(claim, &observed.reserved, free) {
        return Step::Bind(volume.clone());
    }
    if waits && claim.metadata.annotation(SELECTED_NODE).is_none() {
        return Step::Pending(Some(waiting(&observed.waiting_pods)));
    }
    if claim.storage_class().is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set";
        return Step::Pending(Some(Notice::normal("FailedBinding", message)));
    }
    let failed = |message: String| Step::Pending(Some(Notice::warning("ProvisioningFailed", message)));
    match &observed.class {
        None => failed(format!("storageclass.storage.k8s.io {:?} not found", claim.storage_class())),
        Some(class) if class.provisioner == NO_PROVISIONER => {
            failed(format!("no volume plugin matched name: {NO_PROVISIONER}"))
        }
        Some(class) => Step::Provision { provisioner: class.provisioner.clone() },
    }
}

fn waiting(pods: &[String]) -> Notice {
    match pods {
        [] => {
            Notice::normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        }
        [pod] => Notice::normal("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
        pods => {
            let message = format!("waiting for pods {} to be scheduled", pods.join(","));
            Notice::normal("WaitForPodScheduled", message)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(change: Value) -> PersistentVolumeClaim {
        let mut claim = json!({"metadata": {"name": "c", "namespace": "n", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "s"}});
        json_patch::merge(&mut claim, &change);
        serde_json::from_value(claim).unwrap()
    }

    fn volume(spec: Value) -> Arc<PersistentVolume> {
        let mut volume = json!({"metadata": {"name": "v"}, "status": {"phase": "Available"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s"}});
        json_patch::merge(&mut volume["spec"], &spec);
        Arc::new(serde_json::from_value(volume).unwrap())
    }

    fn class(mode: &str, provisioner: &str) -> Option<Arc<StorageClass>> {
        let class = json!({"metadata": {"name": "s"}, "provisioner": provisioner, "volumeBindingMode": mode});
        Some(Arc::new(serde_json::from_value(class).unwrap()))
    }

    fn shown(step: &Step) -> String {
        match step {
            Step::Bind(volume) => format!("bind {}", volume.metadata.name),
            Step::Pending(None) => "pending".to_owned(),
            Step::Pending(Some(notice)) => format!("pending: {}", notice.reason),
            Step::Lost(notice) => format!("lost: {}", notice.reason),
            Step::SetClass(class) => format!("class {class}"),
            Step::Provision { provisioner } => format!("provision by {provisioner}"),
        }
    }

    #[test]
    fn unbound_claims_are_bound_or_wait_or_are_provisioned() {
        let (immediate, first) =
            (|p: &str| class("Immediate", p), |p: &str| class("WaitForFirstConsumer", p));
        let selected = json!({"metadata": {"annotations": {SELECTED_NODE: "node-1"}}});
        let prebound = json!({"claimRef": {"name": "c", "namespace": "n"}});
        for (change, class, free, reserved, wanted) in [
            (json!({}), immediate("p"), vec![volume(json!({}))], vec![], "bind v"),
            (json!({}), immediate("p"), vec![], vec![], "provision by p"),
            (json!({}), None, vec![], vec![], "pending: ProvisioningFailed"),
            (json!({}), immediate(NO_PROVISIONER), vec![], vec![], "pending: ProvisioningFailed"),
            (json!({"spec": {"storageClassName": ""}}), None, vec![], vec![], "pending: FailedBinding"),
            (json!({}), first("p"), vec![volume(json!({}))], vec![], "pending: WaitForFirstConsumer"),
            (json!({}), first("p"), vec![], vec![volume(prebound)], "bind v"),
            (selected.clone(), first("p"), vec![volume(json!({}))], vec![], "provision by p"),
            (selected, first(NO_PROVISIONER), vec![], vec![], "pending: ProvisioningFailed"),
        ] {
            let observed = Observed { reserved, free, class, ..Observed::default() };
            assert_eq!(shown(&plan(&claim(change.clone()), &observed)), wanted, "{change} {observed:?}");
        }
        let observed = Observed { default_class: Some("s".to_owned()), ..Observed::default() };
        assert_eq!(shown(&plan(&claim(json!({"spec": {"storageClassName": null}})), &observed)), "class s");
    }

    #[test]
    fn claims_that_name_a_volume_are_bound_to_it_or_wait() {
        let named = json!({"spec": {"volumeName": "v"}});
        let bound =
            json!({"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": "v"}});
        let lost = json!({"metadata": {"annotations": {BIND_COMPLETED: "yes"}}});
        let of = |name: &str, uid: &str| json!({"claimRef": {"name": name, "namespace": "n", "uid": uid}});
        for (change, spec, wanted) in [
            (&named, Some(json!({})), "bind v"),
            (&named, None, "pending"),
            (&named, Some(json!({"capacity": {"storage": "1Mi"}})), "pending: VolumeMismatch"),
            (&named, Some(json!({"storageClassName": "t"})), "pending: VolumeMismatch"),
            (&named, Some(of("c", "")), "bind v"),
            (&named, Some(of("d", "")), "pending: FailedBinding"),
            (&bound, Some(of("c", "u")), "bind v"),
            (&bound, Some(json!({})), "bind v"),
            (&bound, Some(of("c", "w")), "lost: ClaimMisbound"),
            (&bound, None, "lost: ClaimLost"),
            (&lost, None, "lost: ClaimLost"),
        ] {
            let observed = Observed { named: spec.clone().map(volume), ..Observed::default() };
            assert_eq!(shown(&plan(&claim(change.clone()), &observed)), wanted, "{change} {spec:?}");
        }
    }
}
