//! More replicas than anti-affinity or a spread constraint leaves domains for.

use std::collections::BTreeSet;

use berth_api::feature_gates::VersionChange;
use berth_api::object::Node;
use berth_rules::{TopologyScope, WhenUnsatisfiable, pod_requests};

use super::request_exceeds::allocatable;
use super::spread_stops::spread_stops;
use crate::finding::Findings;
use crate::input::LintInput;
use crate::nodes::listed_values;
use crate::subject::Subject;
use crate::terms::set;

/// A rule by which a domain takes only a limited number of pods of a subject.
pub(crate) struct DomainLimit {
    pub(crate) path: String,
    pub(crate) key: String,
    pub(crate) per_domain: i64,
    /// Whether nodes without the key take no pod: for spread constraints. Anti-affinity does not limit these nodes.
    pub(crate) needs_key: bool,
}

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        // A DaemonSet has a pod on each node.
        let eligible = input.nodes.eligible(subject);
        let replicas = subject.replicas.unwrap_or(eligible.nodes.len() as i64);
        let replicas_field = if subject.replicas.is_some() { "replicas" } else { "pods" };
        let limits = input.limits_per_domain(subject);
        let n_before = findings.all.len();
        for limit in &limits {
            let DomainLimit { path, key, per_domain, needs_key } = limit;
            let Some((n_domains, where_from)) = n_domains(input, subject, key) else { continue };
            let mut most = n_domains as i64 * per_domain;
            if replicas <= most || n_domains == 0 {
                continue;
            }
            let outside = if *needs_key { 0 } else { room_outside(input, subject, limit, &limits) };
            most = most.saturating_add(outside);
            if replicas > most {
                let each = if *per_domain == 1 { "one pod".to_owned() } else { format!("{per_domain} pods") };
                let elsewhere = match outside {
                    0 => String::new(),
                    n => format!(", and room for {n} on nodes without {key}"),
                };
                let message = format!(
                    "{replicas} {replicas_field}, and {n_domains} {} of {key} {where_from} with at most {each} \
                     each{elsewhere}: {} cannot be placed",
                    if n_domains == 1 { "domain" } else { "domains" },
                    replicas - most
                );
                findings.add(&subject.object, subject.path(path), message).fix(format!(
                    "lower replicas to {most}, add domains of {key}, or make the rule preferred"
                ));
            }
        }
        if findings.all.len() == n_before {
            spread_stops(input, subject, &limits, findings);
        }
    }
}

/// The number of domains that a pod may go to, if it is known, and from where.
pub(crate) fn n_domains(
    input: &LintInput<'_>,
    subject: &Subject<'_>,
    key: &str,
) -> Option<(usize, &'static str)> {
    if input.nodes.is_empty() {
        return Some((
            listed_values(&subject.rules, key, &input.work)?.len(),
            "that the node affinity lists",
        ));
    }
    let eligible = input.nodes.eligible(subject);
    Some((input.nodes.domains_of(key, &eligible).len(), "that the pod may go to"))
}

/// How many pods of a subject the nodes without the topology key of a limit take: as many as their resources and the other
/// limits allow.
fn room_outside(
    input: &LintInput<'_>,
    subject: &Subject<'_>,
    limit: &DomainLimit,
    limits: &[DomainLimit],
) -> i64 {
    let eligible = input.nodes.eligible(subject);
    let node = |i: &usize| input.nodes.get(*i);
    input.work.spend(eligible.nodes.len() * limits.len());
    let outside: Vec<&Node> =
        eligible.nodes.iter().map(node).filter(|node| node.metadata.label(&limit.key).is_none()).collect();
    let room = |nodes: &mut dyn Iterator<Item = &&Node>| {
        nodes.map(|node| capacity(node, subject)).fold(0, i64::saturating_add)
    };
    let allowed_by = |other: &DomainLimit| {
        let domains: BTreeSet<_> =
            outside.iter().filter_map(|node| node.metadata.label(&other.key)).collect();
        let of_domains = other.per_domain.saturating_mul(domains.len() as i64);
        let mut without = outside.iter().filter(|node| node.metadata.label(&other.key).is_none());
        of_domains.saturating_add(if other.needs_key { 0 } else { room(&mut without) })
    };
    let others = limits.iter().filter(|other| other.key != limit.key).map(allowed_by);
    others.fold(room(&mut outside.iter()), i64::min)
}

/// How many pods of a subject an empty node takes.
pub(super) fn capacity(node: &Node, subject: &Subject<'_>) -> i64 {
    // A DaemonSet has one pod on a node, and host ports admit one.
    if subject.replicas.is_none() || !subject.rules.host_ports.is_empty() {
        return 1;
    }
    let requests = &subject.rules.requests;
    let of = |name: &str| match requests.amount(name) {
        amount @ 1.. => allocatable(node, name) / amount,
        _ => i64::MAX,
    };
    let by_requests = pod_requests(&subject.pod.spec).into_keys().map(|name| of(&name)).min();
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
        for term in &subject.rules.required_anti_affinity {
            if let TopologyScope::Key(key) = &term.topology
                && subject.others_are_in(&set(term), &self.namespaces)
            {
                let (path, key) = (term.path.clone(), key.clone());
                let per_domain = 1 + i64::from(term.limit);
                limits.push(DomainLimit { path, key, per_domain, needs_key: false });
            }
        }
        for constraint in &subject.rules.spread_constraints {
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
