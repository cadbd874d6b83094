//! Toleration of anti-affinity by daemons (inter-pod affinity proposal, "Co-existing with daemons").
//!
//! A pod that tolerates the anti-affinity of others runs beside pods that reject it. Only pods of the configured namespaces
//! may do so; those of their DaemonSets do so without a declaration of their own.

use berth_api::object::Pod;
use berth_api::resource::DAEMON_SETS;
use berth_api::syntax::annotations::TOLERATION_ANNOTATION;
use serde_json::{Value, json};

use super::attributes::PodAttributes;
use crate::answer::Denial;
use crate::findings::Findings;
use crate::policy::{Action, Policy};
use crate::rule::Rule;

/// Checks that the namespace of a pod that tolerates anti-affinity may.
pub(super) fn is_allowed(attributes: &PodAttributes<'_>, found: &mut Findings) {
    let metadata = &attributes.pod.object.metadata;
    if !metadata.annotations.contains_key(TOLERATION_ANNOTATION)
        || attributes.policy.daemon_namespaces.contains(&metadata.namespace)
    {
        return;
    }
    let message = format!(
        "metadata.annotations[{TOLERATION_ANNOTATION}]: pods of namespace {:?} may not run beside pods that reject them; \
         remove the annotation, or add the namespace to daemonNamespaces of the admission policy",
        metadata.namespace
    );
    let denial = Denial::forbidden(Rule::AntiAffinityToleration, attributes.request, message);
    found.broken(Action::Reject, denial);
}

/// The operations of a JSON patch by which a pod of a DaemonSet tolerates the anti-affinity of all namespaces.
pub(crate) fn tolerate_as_daemon(pod: &Pod, policy: &Policy) -> Vec<Value> {
    let metadata = &pod.metadata;
    let is_daemon = metadata.controller().is_some_and(|owner| owner.kind == DAEMON_SETS.kind);
    if !is_daemon
        || !policy.daemon_namespaces.contains(&metadata.namespace)
        || metadata.annotations.contains_key(TOLERATION_ANNOTATION)
    {
        return Vec::new();
    }
    if metadata.annotations.is_empty() {
        let value = json!({TOLERATION_ANNOTATION: "*"});
        return vec![json!({"op": "add", "path": "/metadata/annotations", "value": value})];
    }
    let key = TOLERATION_ANNOTATION.replace('/', "~1");
    vec![json!({"op": "add", "path": format!("/metadata/annotations/{key}"), "value": "*"})]
}
