//! Rolling updates that cannot start, because maxUnavailable comes to 0 and no new pod fits beside the old ones.

use berth_api::read::Kind;
use berth_engine::Outcome;
use berth_input::config::Plugin;
use berth_rules::{PodSet, SpreadConstraint, WhenUnsatisfiable};
use serde_json::Value;

use crate::domain_limit::{DomainLimit, n_domains};
use crate::finding::Findings;
use crate::input::LintInput;
use crate::rollout::{Trial, limits, pod_of_revision};
use crate::severity::Severity;
use crate::subject::Subject;

/// Where host ports are written.
const PORTS: &str = "spec.containers";

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let replicas = subject.n_pods();
        if subject.kind == Kind::DaemonSet {
            daemon_set(input, subject, findings);
        } else if replicas > 0 && limits(subject).is_some_and(|(_, unavailable)| unavailable == 0) {
            match input.nodes.is_empty() {
                true => without_nodes(input, subject, replicas, findings),
                false if is_limited(input, subject, replicas) => on_nodes(input, subject, replicas, findings),
                false => {}
            }
        }
    }
}

/// Whether rules could keep a new pod out. False only if it certainly fits, which saves the simulation.
fn is_limited(input: &LintInput<'_>, subject: &Subject<'_>, replicas: i64) -> bool {
    let eligible = input.nodes.eligible(subject);
    let limits = limits_for_updates(input, subject);
    let by_domain = limits.iter().any(|limit| {
        input.nodes.domains_of(&limit.key, &eligible).len() as i64 * limit.per_domain <= replicas
    });
    let is_hard = |c: &&SpreadConstraint| c.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
    let hard: Vec<_> = subject.pod.rules.spread_constraints.iter().filter(is_hard).collect();
    // In the domain with the fewest pods there is room, if a pod may go there and no other rule keeps it out.
    let by_spread = match hard.as_slice() {
        [] => false,
        [one] if limits.is_empty() => {
            let counted = input.nodes.domains(&one.topology_key);
            let open = input.nodes.domains_of(&one.topology_key, &eligible);
            (open.len() as i64) < one.min_domains || counted.len() > open.len()
        }
        _ => true,
    };
    by_domain
        || by_spread
        || eligible.nodes.len() as i64 <= replicas && !subject.pod.rules.host_ports.is_empty()
}

/// The rules by which old pods limit the new ones: a domain takes only a limited number of pods of both revisions.
fn limits_for_updates(input: &LintInput<'_>, subject: &Subject<'_>) -> Vec<DomainLimit> {
    let old = pod_of_revision(subject, "old", input.admission());
    let is_of_both = |path: &str| {
        let terms = subject.pod.rules.required_anti_affinity.iter().filter(|term| term.path == path);
        terms.into_iter().any(|term| {
            PodSet::of(term).contains(subject.namespace(), &old.metadata.labels, &input.namespaces)
        })
    };
    let mut limits = input.limits_per_domain(subject);
    limits.retain(|limit| limit.needs_key || is_of_both(&limit.path));
    limits
}

fn on_nodes(input: &LintInput<'_>, subject: &Subject<'_>, replicas: i64, findings: &mut Findings) {
    let Trial::Blocked { outcome, after } = input.try_rollout(subject, replicas as usize) else { return };
    let Outcome::Unschedulable { message, plugins } = outcome else { return };
    let rules = &subject.pod.rules;
    let is_hard = |c: &&SpreadConstraint| c.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
    let path_of = |plugin: &Plugin| match plugin {
        Plugin::InterPodAffinity => {
            limits_for_updates(input, subject).into_iter().next().map(|limit| limit.path)
        }
        Plugin::PodTopologySpread => rules.spread_constraints.iter().find(is_hard).map(|c| c.path.clone()),
        Plugin::NodePorts => Some(PORTS.to_owned()),
        _ => None,
    };
    let path = plugins.iter().find_map(path_of).unwrap_or_else(|| "spec".to_owned());
    let node = if path == PORTS { "a node" } else { "a node in a new domain" };
    let pods =
        if replicas == 1 { "the old pod runs".to_owned() } else { format!("all {replicas} old pods run") };
    let message =
        format!("maxUnavailable comes to 0, and while {pods} a new one is unschedulable: {message}");
    let finding = findings.add(&subject.object, subject.path(path), message);
    finding.severity(Severity::Error).fix(match after {
        Some(n) => {
            format!("set spec.strategy.rollingUpdate.maxUnavailable to {n}, or add {node}")
        }
        None => "correct the rules: a new pod is unschedulable even without the old ones".to_owned(),
    });
}

fn without_nodes(input: &LintInput<'_>, subject: &Subject<'_>, replicas: i64, findings: &mut Findings) {
    let fix = "set spec.strategy.rollingUpdate.maxUnavailable to 1";
    for DomainLimit { path, key, per_domain, .. } in limits_for_updates(input, subject) {
        let needed = (replicas + per_domain) / per_domain;
        let known = n_domains(input, subject, &key);
        let (message, severity) = match known {
            Some((n, _)) if n as i64 * per_domain < replicas => continue,
            Some((n, where_from)) if (n as i64) < needed => (
                format!(
                    "maxUnavailable comes to 0, and an update needs {needed} domains of {key}; there are {n} {where_from}"
                ),
                Severity::Error,
            ),
            Some(_) => continue,
            None => (
                format!(
                    "maxUnavailable comes to 0, so that an update starts only with at least {needed} domains of {key} for \
                     {replicas} {}",
                    if replicas == 1 { "replica" } else { "replicas" }
                ),
                Severity::Info,
            ),
        };
        findings.add(&subject.object, subject.path(path), message).severity(severity).fix(fix);
    }
    if !subject.pod.rules.host_ports.is_empty() {
        let message = format!(
            "maxUnavailable comes to 0 and the pods use host ports, so that an update starts only with at least {} nodes",
            replicas + 1
        );
        findings.add(&subject.object, subject.path(PORTS), message).severity(Severity::Info).fix(fix);
    }
}

/// A new pod of a DaemonSet with maxSurge comes to the node of the old one.
fn daemon_set(input: &LintInput<'_>, subject: &Subject<'_>, findings: &mut Findings) {
    let rolling = subject.object.raw.pointer("/spec/updateStrategy/rollingUpdate");
    let surge = rolling.and_then(|rolling| rolling.get("maxSurge"));
    let surges = surge.is_some_and(|surge| {
        surge.as_i64() != Some(0) && surge.as_str() != Some("0%") && *surge != Value::Null
    });
    if !surges {
        return;
    }
    let by_term = limits_for_updates(input, subject).into_iter().find(|limit| limit.per_domain == 1);
    let (path, reason) = match by_term {
        Some(limit) => (limit.path, "its required anti-affinity"),
        None if !subject.pod.rules.host_ports.is_empty() => (PORTS.to_owned(), "its host ports"),
        None => return,
    };
    let message =
        format!("maxSurge brings each new pod to the node of the old one, and {reason} keeps it out");
    findings
        .add(&subject.object, subject.path(path), message)
        .severity(Severity::Error)
        .fix("set spec.updateStrategy.rollingUpdate.maxSurge to 0 and maxUnavailable to 1");
}
