//! Rules by which a domain takes only a limited number of pods, and how many pods a node takes.

use berth_api::feature_gates::VersionChange;
use berth_api::object::Node;
use berth_rules::{PodSet, TopologyScope, WhenUnsatisfiable, pod_requests};

use crate::input::LintInput;
use crate::nodes::{allocatable, listed_values};
use crate::subject::Subject;

/// A rule by which a domain takes only a limited number of pods of a subject.
pub(crate) struct DomainLimit {
    pub(crate) path: String,
    pub(crate) key: String,
    pub(crate) per_domain: i64,
    /// Whether nodes without the key take no pod: for spread constraints. Anti-affinity does not limit these nodes.
    pub(crate) needs_key: bool,
}

/// The number of domains that a pod may go to, if it is known, and from where.
pub(crate) fn n_domains(
    input: &LintInput<'_>,
    subject: &Subject<'_>,
    key: &str,
) -> Option<(usize, &'static str)> {
    if input.nodes.is_empty() {
        return Some((
            listed_values(&subject.pod.rules, key, &input.work)?.len(),
            "that the node affinity lists",
        ));
    }
    let eligible = input.nodes.eligible(subject);
    Some((input.nodes.domains_of(key, &eligible).len(), "that the pod may go to"))
}

/// How many pods of a subject an empty node takes.
pub(crate) fn capacity(node: &Node, subject: &Subject<'_>) -> i64 {
    // A DaemonSet has one pod on a node, and host ports admit one.
    if subject.replicas.is_none() || !subject.pod.rules.host_ports.is_empty() {
        return 1;
    }
    let requests = &subject.pod.rules.requests;
    let of = |name: &str| match requests.amount(name) {
        amount @ 1.. => allocatable(node, name) / amount,
        _ => i64::MAX,
    };
    let by_requests = pod_requests(&subject.pod.object.spec).into_keys().map(|name| of(&name)).min();
    let has_pods = node.status.allocatable.as_ref().is_some_and(|list| list.contains_key("pods"));
    let n_pods = if has_pods { allocatable(node, "pods") } else { i64::MAX };
    by_requests.unwrap_or(i64::MAX).min(n_pods)
}

impl LintInput<'_> {
    /// The rules by which a domain takes only a limited number of pods of a subject.
    pub(crate) fn limits_per_domain(&self, subject: &Subject<'_>) -> Vec<DomainLimit> {
        let mut limits = Vec::new();
        // Otherwise, a constraint with the empty selector counts no pod.
        let counts_all = self.settings.config.feature_gates.has(VersionChange::EmptySpreadSelector);
        for term in &subject.pod.rules.required_anti_affinity {
            if let TopologyScope::Key(key) = &term.topology
                && subject.others_are_in(&PodSet::of(term), &self.namespaces)
            {
                let (path, key) = (term.path.clone(), key.clone());
                let per_domain = 1 + i64::from(term.limit);
                limits.push(DomainLimit { path, key, per_domain, needs_key: false });
            }
        }
        for constraint in &subject.pod.rules.spread_constraints {
            // With fewer domains than minDomains, the minimum over the domains counts as 0.
            let key = &constraint.topology_key;
            let is_short =
                n_domains(self, subject, key).is_some_and(|(n, _)| (n as i64) < constraint.min_domains);
            if constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
                && is_short
                && (counts_all || !constraint.selector.is_everything())
                && subject.others_are_in(&subject.spread_set(constraint), &self.namespaces)
            {
                let (path, key, per_domain) = (constraint.path.clone(), key.clone(), constraint.max_skew);
                limits.push(DomainLimit { path, key, per_domain, needs_key: true });
            }
        }
        limits
    }
}
