//! The rules, one file each.
//!
//! A pod rule receives the pod with its parsed rules ([`AskedPod`]) and reports its findings. Rules only
//! decide; they have no side effects.

mod all_namespaces;
mod annotation;
mod binding;
mod blast_radius;
mod dialects;
mod exclusive_nodes;
mod match_label_keys;
mod node_restriction;
mod placement_policy;
mod toleration;
mod topology_limit;
mod trusted_users;
mod unread_annotation;
mod workload;

use std::time::Instant;

use berth_api::object::Pod;
use berth_api::rules::{Dialect, PodRules, PodTerm};
use berth_api::syntax::annotations::{AFFINITY_ANNOTATION, TOLERATION_ANNOTATION};

use crate::findings::Findings;
use crate::policy::Policy;
use crate::request::{AdmissionRequest, RequestError};
pub(crate) use binding::keeps_required_rules;
pub(crate) use blast_radius::stays_within_blast_radius;
pub(crate) use exclusive_nodes::stays_within_exclusive_nodes;
pub(crate) use match_label_keys::merge_match_label_keys;
pub(crate) use node_restriction::keeps_to_own_node;
pub(crate) use placement_policy::{apply_placement_policies, is_valid_policy};
pub(crate) use toleration::tolerate_as_daemon;
pub(crate) use workload::check_template;

/// A pod in a create or update request, with its parsed rules.
pub(crate) struct AskedPod<'a> {
    pub(crate) request: &'a AdmissionRequest,
    pub(crate) policy: &'a Policy,
    pub(crate) pod: &'a Pod,
    pub(crate) rules: &'a PodRules,
    pub(crate) now: Instant,
}

impl AskedPod<'_> {
    /// Terms of required anti-affinity that can block other pods; none for a pod in an exempt namespace.
    fn blocking_terms(&self) -> impl Iterator<Item = &PodTerm> {
        let is_exempt = self.policy.exempt_namespaces.contains(&self.pod.metadata.namespace);
        let exempts = move |term: &PodTerm| {
            is_exempt && (term.dialect == Dialect::Proposal || self.policy.exempt_from_v1)
        };
        self.rules.required_anti_affinity.iter().filter(move |term| !exempts(term))
    }
}

/// The rules of a pod that need no state.
pub(crate) fn check_pod(asked: &AskedPod<'_>, found: &mut Findings) {
    annotation::is_valid(asked, found);
    toleration::is_allowed(asked, found);
    topology_limit::keeps_to_hostname(asked, found);
    all_namespaces::blocks_no_domains(asked, found);
    dialects::warn_about_differences(asked, found);
    trusted_users::is_trusted(asked, found);
    unread_annotation::has_a_reader(asked, found);
}

/// Whether an update changes the pod's inter-pod rules. Other updates pass, so that pods created before a policy
/// can still be changed and deleted.
pub(crate) fn changes_affinity(request: &AdmissionRequest, pod: &Pod) -> Result<bool, RequestError> {
    let Some(old) = request.old_pod()? else { return Ok(true) };
    let is_new = |name| old.metadata.annotations.get(name) != pod.metadata.annotations.get(name);
    let annotations = [AFFINITY_ANNOTATION, TOLERATION_ANNOTATION];
    Ok(old.spec.affinity != pod.spec.affinity || annotations.into_iter().any(is_new))
}
