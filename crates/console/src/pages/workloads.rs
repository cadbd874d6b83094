//! The workloads as a list, and one with its spread, its pods and how many more fit.

use std::collections::BTreeMap;

use berth_api::object::NamespacedName;
use berth_api::rules::WhenUnsatisfiable;
use berth_simulate::SimulatedPod;
use berth_simulate::capacity::{Capacity, CapacityRequest, Subject, capacity};
use maud::{Markup, html};

use super::{Answer, Page, PageError, parts};
use crate::changes::{kind_of, topology_key};
use crate::names::{counted, grouped};
use crate::pictures::{self, ZONE};
use crate::workloads::name_of;
use crate::{Request, State, links};

#[derive(Default)]
struct Counts {
    n_pods: usize,
    n_pending: usize,
    n_broken: usize,
}

pub(super) fn list(state: &mut State, request: &Request<'_>) -> Answer {
    let (simulation, broken) = state.audited();
    let mut workloads: BTreeMap<(&str, &str), Counts> = BTreeMap::new();
    for (namespace, workload) in simulation.workloads() {
        workloads.entry((namespace, workload)).or_default();
    }
    let broken: std::collections::HashSet<_> =
        broken.iter().map(|v| (v.namespace.as_str(), v.name.as_str())).collect();
    let mut n_single = 0;
    for pod in simulation.pods() {
        let Some(workload) = &pod.workload else {
            n_single += 1;
            continue;
        };
        let metadata = &pod.pod.metadata;
        let counts = workloads.entry((&metadata.namespace, workload)).or_default();
        counts.n_pods += 1;
        counts.n_pending += usize::from(pod.node().is_none());
        counts.n_broken +=
            usize::from(broken.contains(&(metadata.namespace.as_str(), metadata.name.as_str())));
    }
    let workloads: Vec<_> = workloads.into_iter().collect();
    let (shown, pages) = parts::paged(request, &workloads)?;
    let row = |((namespace, workload), counts): &((&str, &str), Counts)| {
        vec![
            parts::link(&links::workload(namespace, workload), workload),
            html! { (namespace) },
            parts::number(counts.n_pods),
            parts::number(counts.n_pending),
            parts::number(counts.n_broken),
        ]
    };
    let headers = ["Workload", "Namespace", "Pods", "Pending", "With broken rules"];
    let content = html! {
        (parts::table(&counted(workloads.len(), "workload"), &headers, shown.iter().map(row)))
        (pages)
        @if n_single > 0 { p { (counted(n_single, "pod")) " without a workload" } }
    };
    Ok(Page::new("Workloads", content))
}

pub(super) fn page(
    state: &mut State,
    request: &Request<'_>,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Answer {
    let workload = (namespace.to_owned(), format!("{kind} {name}"));
    let key = request.parameter("by").map_or(ZONE.to_owned(), |key| topology_key(&key));
    let capacity = match request.parameter("capacity") {
        Some(key) => Some(more_replicas(state, kind, namespace, name, &topology_key(&key))?),
        None => None,
    };
    let simulation = state.simulation();
    let is_of = |pod: &&SimulatedPod| {
        pod.workload.as_ref() == Some(&workload.1) && pod.pod.metadata.namespace == namespace
    };
    let pods: Vec<_> = simulation.pods().iter().filter(is_of).collect();
    if pods.is_empty() && !simulation.workloads().contains(&workload) {
        let mut known: Vec<_> = simulation.workloads().to_vec();
        known.extend(simulation.pods().iter().filter(|pod| pod.workload.is_some()).map(name_of));
        known.sort();
        known.dedup();
        return Err(parts::not_found(
            format!("{kind} {namespace}/{name}"),
            name,
            known.iter(),
            |(_, workload)| workload.split_once(' ').map_or(workload.as_str(), |(_, name)| name),
            |(namespace, workload)| (links::workload(namespace, workload), format!("{namespace}/{workload}")),
        ));
    }
    let n_pending = pods.iter().filter(|pod| pod.node().is_none()).count();
    let constraints =
        pods.first().map(|pod| simulation.rules_of(&pod.pod).spread_constraints).unwrap_or_default();
    let constraint = |c: &berth_api::rules::SpreadConstraint| {
        vec![
            html! { code { (c.topology_key) } },
            html! { (c.max_skew) },
            html! {
                @match c.when_unsatisfiable {
                    WhenUnsatisfiable::DoNotSchedule => "DoNotSchedule",
                    WhenUnsatisfiable::ScheduleAnyway => "ScheduleAnyway",
                }
            },
            html! { (c.min_domains) },
            html! { code { (c.path) } },
        ]
    };
    let content = html! {
        p { (counted(pods.len(), "pod")) ", " (grouped(n_pending)) " pending" }
        form method="get" {
            label { "Count by node label " input name="by" value=(key) size="30"; }
            " " button { "Show" }
        }
        @if let Some(picture) = pictures::spread_of(simulation, &workload, &key) { (parts::figure(&picture)) }
        (parts::table_of(
            "Spread constraints",
            &["Topology key", "maxSkew", "whenUnsatisfiable", "minDomains", "Field"],
            constraints.iter().map(constraint).collect(),
        ))
        @match &capacity {
            Some(capacity) => { (capacity) }
            None => {
                form method="get" {
                    label { "How many more replicas fit, by node label " input name="capacity" value="zone" size="30"; }
                    " " button { "Count" }
                }
            }
        }
        (domains(&key, &pods, |node| simulation.node_label(node, &key).map(str::to_owned)))
        (domains("node", &pods, |node| Some(node.to_owned())))
        (self::pods(&pods, request)?)
    };
    Ok(Page::new(format!("{kind} {namespace}/{name}"), content))
}

/// The pods by domain, most pods first.
fn domains(key: &str, pods: &[&SimulatedPod], domain_of: impl Fn(&str) -> Option<String>) -> Markup {
    let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for node in pods.iter().filter_map(|pod| pod.node()) {
        *counts.entry(domain_of(node)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let row = |(domain, n): &(Option<String>, usize)| {
        let name = match domain {
            Some(domain) if key == "node" => parts::node(domain),
            Some(domain) => html! { (domain) },
            None => html! { "none" },
        };
        vec![name, parts::number(*n)]
    };
    let n_domains = counts.len();
    html! {
        (parts::table_of(&format!("Pods by {key}"), &[key, "Pods"], counts.iter().take(parts::MAX_SHOWN).map(row).collect()))
        (parts::more(n_domains, "domain"))
    }
}

fn pods(pods: &[&SimulatedPod], request: &Request<'_>) -> Result<Markup, PageError> {
    let (shown, pages) = parts::paged(request, pods)?;
    let row = |pod: &&SimulatedPod| {
        let metadata = &pod.pod.metadata;
        let on = pod.node().map_or(html! { strong { "pending" } }, parts::node);
        vec![parts::link(&links::pod(&metadata.namespace, &metadata.name), &metadata.name), on]
    };
    Ok(html! {
        (parts::table_of(&counted(pods.len(), "pod"), &["Pod", "Node"], shown.iter().map(row).collect()))
        (pages)
    })
}

/// How many more replicas fit.
fn more_replicas(
    state: &State,
    kind: &str,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<Markup, PageError> {
    let known = kind_of(kind).ok_or_else(|| PageError::Parameter(format!("{kind} has no replicas")))?;
    let (inventory, options) = state.objects();
    let subject = Subject::Workload(known, NamespacedName::new(namespace, name));
    let request = CapacityRequest { topology_key: key.to_owned(), target: None };
    let found = capacity(inventory, &options, &subject, &request);
    let found = found.map_err(|error| PageError::Parameter(format!("capacity: {error}")))?;
    let Capacity { replicas, limited_by, by_domain, running, n_unplaced_others, message, .. } = &found;
    let row = |(domain, n): (&String, &usize)| vec![html! { (domain) }, parts::number(*n)];
    Ok(html! {
        section aria-label="Capacity" {
            h2 { (counted(*replicas, "more replica")) @if *replicas == 1 { " fits" } @else { " fit" } }
            p {
                "beyond the " (grouped(*running)) " that run"
                @if *n_unplaced_others > 0 { "; " (counted(*n_unplaced_others, "pending pod")) " of others fit nowhere" }
            }
            (parts::table_of(
                &format!("More replicas by {key}"),
                &["Domain", "Replicas"],
                by_domain.iter().take(parts::MAX_SHOWN).map(row).collect(),
            ))
            (parts::more(by_domain.len(), "domain"))
            @if let Some(limit) = limited_by { p { "The next replica is stopped by " strong { (limit) } ": " (message) } }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;

    #[test]
    fn a_workload_has_its_spread_pods_and_capacity() {
        check(
            "/workloads",
            &[
                "<caption>1 workload</caption>",
                "<a href=\"/workloads/Deployment/shop/web\">Deployment web</a></th><td>shop</td><td>3</td><td>1</td><td>0</td>",
            ],
        );
        check(
            "/workloads/Deployment/shop/web?capacity=zone",
            &[
                "3 pods, 1 pending",
                "maxSkew 1 by topology.kubernetes.io/zone",
                "<th scope=\"row\">a</th><td>1</td>",
                "<a href=\"/nodes/a-1\">a-1</a></th><td>1</td>",
                "<h2>0 more replicas fit</h2>",
                "The next replica is stopped by",
                "<a href=\"/pods/shop/web-3\">web-3</a></th><td><strong>pending</strong></td>",
            ],
        );
    }
}
