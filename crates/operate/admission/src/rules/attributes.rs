//! The pod of a request.

use std::time::Instant;

use berth_rules::{AdmittedPod, Dialect, PodTerm};

use crate::policy::Policy;
use crate::request::AdmissionRequest;

/// A pod in a create or update request.
pub(crate) struct PodAttributes<'a> {
    pub(crate) request: &'a AdmissionRequest,
    pub(crate) policy: &'a Policy,
    pub(crate) pod: &'a AdmittedPod,
    pub(crate) now: Instant,
}

impl PodAttributes<'_> {
    /// Terms of required anti-affinity that can block other pods; none for a pod in an exempt namespace.
    pub(super) fn blocking_terms(&self) -> impl Iterator<Item = &PodTerm> {
        let is_exempt = self.policy.exempt_namespaces.contains(&self.pod.object.metadata.namespace);
        let exempts = move |term: &PodTerm| {
            is_exempt && (term.dialect == Dialect::Proposal || self.policy.exempt_from_v1)
        };
        self.pod.rules.required_anti_affinity.iter().filter(move |term| !exempts(term))
    }
}
