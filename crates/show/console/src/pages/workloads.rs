//! The workloads as a list, and one with its spread, its pods and how many more fit.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::NamespacedName;
use berth_api::read::Kind;
use berth_api::rules::WhenUnsatisfiable;
use berth_api::syntax::format::{counted, grouped};
use berth_api::syntax::labels::ZONE;
use berth_simulate::SimulatedPod;
use berth_simulate::capacity::{Capacity, CapacityRequest, Subject, capacity};
use berth_simulate::what_if::topology_key;
use maud::{Markup, html};

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::overview::Pods;
use crate::pictures;
use crate::workloads::WorkloadName;
use crate::{Request, State, links};

#[derive(Clone, Copy, Default)]
struct Counts {
    n_pods: usize,
    n_pending: usize,
}

pub(super) fn list(state: &mut State, request: &Request<'_>) -> Answer {
    let overview = state.overview();
    let table = overview.pods.table;
    let mut counts = vec![Counts::default(); table.n_numbers()];
    for position in 0..table.n_pods() {
        let Some(number) = table.workload(position) else { continue };
        counts[number].n_pods += 1;
        counts[number].n_pending += usize::from(!table.has_node(position));
    }
    let without_pods = overview.pods.simulation.workloads().iter().map(|name| (name, Counts::default()));
    let with_pods = table.workloads().map(|(number, name)| (name, counts[number]));
    let workloads: BTreeMap<&WorkloadName, Counts> = without_pods.chain(with_pods).collect();
    let workloads: Vec<_> = workloads.into_iter().collect();
    let n_single = table.single().count();
    let (shown, pages) = parts::paged(request, &workloads)?;
    let row = |(name, counts): &(&WorkloadName, Counts)| {
        let (namespace, workload) = name;
        let n_broken = overview.broken.of_workload(name).map_or(0, |broken| broken.n_pods);
        vec![
            parts::link(&links::workload(namespace, workload), workload),
            html! { (namespace) },
            parts::number(counts.n_pods),
            parts::number(counts.n_pending),
            parts::number(n_broken),
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
    let all = state.pods();
    let Pods { simulation, table } = all;
    let pods = all.sorted(table.of_workload(&workload), usize::MAX);
    let pods: Vec<&SimulatedPod> = pods.into_iter().map(|(_, pod)| pod).collect();
    if pods.is_empty() && !simulation.workloads().contains(&workload) {
        let with_pods = table.workloads().map(|(_, name)| name);
        let known: BTreeSet<&WorkloadName> = simulation.workloads().iter().chain(with_pods).collect();
        return Err(parts::not_found(
            format!("{kind} {namespace}/{name}"),
            name,
            known.into_iter(),
            |(_, workload)| workload.split_once(' ').map_or(workload.as_str(), |(_, name)| name),
            |(namespace, workload)| (links::workload(namespace, workload), format!("{namespace}/{workload}")),
        ));
    }
    let n_pending = pods.iter().filter(|pod| pod.is_unplaced()).count();
    let n_unadmitted = pods.iter().filter(|pod| pod.unadmitted.is_some()).count();
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
        p {
            (counted(pods.len(), "pod")) ", " (grouped(n_pending)) " pending"
            @if n_unadmitted > 0 { ", " (grouped(n_unadmitted)) " not running on the node that they name" }
        }
        form method="get" {
            label { "Count by node label " input name="by" value=(key) size="30"; }
            " " button { "Show" }
        }
        @if let Some(picture) = pictures::spread_of(simulation, &workload, &pods, &key) { (parts::figure(&picture)) }
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
    parts::short_table(&format!("Pods by {key}"), &[key, "Pods"], (&counts, "domain"), row)
}

fn pods(pods: &[&SimulatedPod], request: &Request<'_>) -> Result<Markup, PageError> {
    let (shown, pages) = parts::paged(request, pods)?;
    let row = |pod: &&SimulatedPod| {
        let metadata = &pod.pod.metadata;
        let on = match (pod.node(), &pod.unadmitted) {
            (Some(node), _) => parts::node(node),
            (None, Some(why)) => html! { strong { (why.short()) } },
            (None, None) => html! { strong { "pending" } },
        };
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
    let known = Kind::named(kind).ok_or_else(|| PageError::Parameter(format!("{kind} has no replicas")))?;
    let (inventory, options) = state.objects();
    let subject = Subject::Workload(known, NamespacedName::new(namespace, name));
    let request = CapacityRequest { topology_key: key.to_owned(), target: None };
    let found = capacity(inventory, &options, &subject, &request);
    let (found, _) = found.map_err(|error| PageError::Parameter(format!("capacity: {error}")))?;
    let Capacity { replicas, limited_by, by_domain, running, n_unplaced_others, message, .. } = &found;
    let row = |(domain, n): (&String, &usize)| vec![html! { (domain) }, parts::number(*n)];
    Ok(html! {
        section aria-label="Capacity" {
            h2 { (counted(*replicas, "more replica")) @if *replicas == 1 { " fits" } @else { " fit" } }
            p {
                "beyond the " (grouped(*running)) " that run"
                @if *n_unplaced_others > 0 { "; " (counted(*n_unplaced_others, "pending pod")) " of other workloads unschedulable" }
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
