//! More replicas than anti-affinity or a spread constraint leaves domains for.

use std::collections::BTreeSet;

use berth_api::object::Node;

use super::spread_stops::spread_stops;
use crate::domain_limit::{DomainLimit, capacity, n_domains};
use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Subject;

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
