//! The rules of pods that need at most the placement policies and the namespaces of the cluster.

use berth_api::object::Pod;
use berth_api::syntax::annotations::{AFFINITY_ANNOTATION, ANNOTATION_PREFIX, TOLERATION_ANNOTATION};

use super::attributes::PodAttributes;
use super::{all_namespaces, dialects, toleration, topology_limit, trusted_users, unread_annotation};
use crate::answer::ReviewError;
use crate::findings::Findings;
use crate::request::{AdmissionRequest, RequestError};
use crate::state::StateAccess;

/// Checks the rules of a pod that do not depend on nodes and other pods.
pub(crate) fn check_pod<K: StateAccess>(
    attributes: &PodAttributes<'_>,
    access: &K,
    found: &mut Findings,
) -> Result<(), ReviewError> {
    toleration::is_allowed(attributes, found);
    topology_limit::keeps_to_hostname(attributes, found);
    all_namespaces::blocks_no_domains(attributes, access, found)?;
    dialects::warn_about_differences(attributes, found);
    trusted_users::is_trusted(attributes, found);
    unread_annotation::has_a_reader(attributes, found);
    Ok(())
}

pub(crate) fn has_annotation(pod: &Pod) -> bool {
    pod.metadata.annotations.keys().any(|key| key.starts_with(ANNOTATION_PREFIX))
}

/// Whether an update changes the pod's inter-pod rules. Other updates pass, so that pods created before a policy
/// can still be changed and deleted.
pub(crate) fn changes_affinity(request: &AdmissionRequest, pod: &Pod) -> Result<bool, RequestError> {
    let Some(old) = request.old_pod()? else { return Ok(true) };
    let is_new = |name| old.metadata.annotations.get(name) != pod.metadata.annotations.get(name);
    let annotations = [AFFINITY_ANNOTATION, TOLERATION_ANNOTATION];
    Ok(old.spec.affinity != pod.spec.affinity || annotations.into_iter().any(is_new))
}
