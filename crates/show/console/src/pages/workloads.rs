//! The workloads as a list, and one with its spread, its pods and how many more fit.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::NamespacedName;
use berth_api::read::Kind;
use berth_api::syntax::format::{counted, grouped};
use berth_api::syntax::labels::ZONE;
use berth_picture::Class;
use berth_picture::bars::{Row, Section};
use berth_rules::WhenUnsatisfiable;
use berth_simulate::SimulatedPod;
use berth_simulate::capacity::{Capacity, CapacityRequest, Subject, capacity};
use berth_simulate::what_if::topology_key;
use maud::{Markup, html};

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::components::bars::bars;
use crate::components::listing::{Column, Filter, listing};
use crate::components::time::Clock;
use crate::components::{Tone, badge, card, field};
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
    let filter = Filter::of(request);
    let namespaces: BTreeSet<&str> = workloads.keys().map(|(namespace, _)| namespace.as_str()).collect();
    let namespaces: Vec<&str> = namespaces.into_iter().collect();
    let mut workloads: Vec<Row<'_>> = workloads
        .into_iter()
        .filter(|((namespace, workload), _)| filter.matches(namespace, &[workload]))
        .collect();
    let n_single = table.single().count();
    let n_workloads = workloads.len();
    let broken = |name: &WorkloadName| overview.broken.of_workload(name).map_or(0, |broken| broken.n_pods);
    type Row<'a> = (&'a WorkloadName, Counts);
    let columns = [
        Column::new("name", "Workload", |((namespace, workload), _): &Row<'_>| parts::link(&links::workload(namespace, workload), workload))
            .by(|(a, _), (b, _)| a.1.cmp(&b.1)),
        Column::new("namespace", "Namespace", |((namespace, _), _): &Row<'_>| html! { (namespace) }).by(|(a, _), (b, _)| a.0.cmp(&b.0)),
        Column::number("pods", "Pods", |(_, counts): &Row<'_>| counts.n_pods),
        Column::new("pending", "Pending", |(_, counts): &Row<'_>| {
            html! { @if counts.n_pending > 0 { (badge(Tone::Warn, &grouped(counts.n_pending))) } @else { "0" } }
        })
        .by(|(_, a), (_, b)| a.n_pending.cmp(&b.n_pending)),
        Column::new("broken", "With broken rules", |(name, _): &Row<'_>| {
            html! { @if broken(name) > 0 { (badge(Tone::Bad, &grouped(broken(name)))) } @else { "0" } }
        })
        .by(|(a, _), (b, _)| broken(a).cmp(&broken(b))),
    ];
    let listed = listing(request, &counted(n_workloads, "workload"), &mut workloads, &columns)
        .map_err(PageError::Parameter)?;
    let content = html! {
        (filter.form(request, "Workload", &namespaces))
        (listed)
        @if n_single > 0 { p.hint { (counted(n_single, "pod")) " without a workload: " a href="/pods" { "all pods" } } }
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
    let clock = state.clock();
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
    let constraint = |c: &berth_rules::SpreadConstraint| {
        vec![
            field(&c.topology_key),
            html! { (c.max_skew) },
            html! {
                @match c.when_unsatisfiable {
                    WhenUnsatisfiable::DoNotSchedule => "DoNotSchedule",
                    WhenUnsatisfiable::ScheduleAnyway => "ScheduleAnyway",
                }
            },
            html! { (c.min_domains) },
            field(&c.path),
        ]
    };
    let has_yaml =
        state.object(Kind::named(kind).unwrap_or(Kind::Pod), &NamespacedName::new(namespace, name)).is_some();
    let content = html! {
        p {
            (counted(pods.len(), "pod")) ", " (grouped(n_pending)) " pending"
            @if n_unadmitted > 0 { ", " (grouped(n_unadmitted)) " not running on the node that they name, or not created" }
        }
        div.columns {
            div.fields {
                @for section in pictures::spread_of(simulation, &workload, &pods, Some(&key)) {
                    (card(&section.name, &bars(&section)))
                }
                (parts::table_of(
                    "Spread constraints",
                    &["Topology key", "maxSkew", "whenUnsatisfiable", "minDomains", "Field"],
                    constraints.iter().map(constraint).collect(),
                ))
                (self::pods(&pods, request, clock)?)
            }
            div.fields {
                section.card {
                    h2 { "Capacity" }
                    @if let Some(capacity) = &capacity { (capacity) }
                    form.fields method="get" {
                        label { span { "How many more replicas fit, by node label" } input name="capacity" value="zone"; }
                        div.actions { button { "Count" } }
                    }
                }
                section.card {
                    h2 { "Scale" }
                    form.fields method="get" action="/what-if" {
                        input type="hidden" name="namespace" value=(namespace);
                        label { span { "What if it had another number of replicas" } input name="scale" value={ (kind.to_lowercase()) "/" (name) "=" (pods.len() + 1) }; }
                        div.actions { button { "Show the effect" } }
                    }
                }
                section.card {
                    h2 { "Pods by domain" }
                    form.fields method="get" {
                        label { span { "Node label" } input name="by" value=(key); }
                        div.actions { button { "Show" } }
                    }
                }
                (domains(&key, &pods, |node| simulation.node_label(node, &key).map(str::to_owned)))
                (domains("node", &pods, |node| Some(node.to_owned())))
            }
        }
    };
    let actions = html! {
        a.button.small href=(links::with(&links::with("/topology", "color", "workload"), "workload", &format!("{kind} {name}"))) { "Show in the topology" }
        @if has_yaml { a.button.small href=(links::path(&["yaml", kind, namespace, name])) { "YAML" } }
    };
    Ok(Page::new(format!("{kind} {namespace}/{name}"), content).actions(actions))
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

fn pods(pods: &[&SimulatedPod], request: &Request<'_>, clock: Clock) -> Result<Markup, PageError> {
    let mut pods: Vec<&SimulatedPod> = pods.to_vec();
    let n_pods = pods.len();
    let columns = [
        Column::new("name", "Pod", |pod: &&SimulatedPod| {
            parts::link(
                &links::pod(&pod.pod.metadata.namespace, &pod.pod.metadata.name),
                &pod.pod.metadata.name,
            )
        })
        .by(|a, b| a.pod.metadata.name.cmp(&b.pod.metadata.name)),
        Column::new("state", "State", |pod: &&SimulatedPod| super::pods::state_of(pod))
            .by(|a, b| a.node().is_some().cmp(&b.node().is_some())),
        Column::new(
            "node",
            "Node",
            |pod: &&SimulatedPod| html! { @if let Some(node) = pod.node() { (parts::node(node)) } },
        )
        .by(|a, b| a.node().cmp(&b.node())),
        Column::new("age", "Age", move |pod: &&SimulatedPod| {
            clock.optional(pod.pod.metadata.creation_timestamp)
        })
        .by(|a, b| b.pod.metadata.creation_timestamp.cmp(&a.pod.metadata.creation_timestamp)),
    ];
    if pods.is_empty() {
        return Ok(html! {});
    }
    listing(request, &counted(n_pods, "pod"), &mut pods, &columns).map_err(PageError::Parameter)
}

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
    let request = CapacityRequest { topology_key: key.to_owned(), target: None, defragmentation: None };
    let found = capacity(inventory, &options, &subject, &request);
    let (found, _) = found.map_err(|error| PageError::Parameter(format!("capacity: {error}")))?;
    let Capacity { replicas, limited_by, by_domain, running, n_unplaced_others, message, .. } = &found;
    let rows = by_domain.iter().map(|(domain, n)| Row {
        name: domain.clone(),
        title: format!("{domain}: {}", counted(*n, "more replica")),
        parts: vec![(Class::Kind(0), *n)],
        note: grouped(*n),
        limit: None,
    });
    let section = Section { rows: rows.take(parts::MAX_SHOWN).collect(), ..Section::default() };
    Ok(html! {
        h3 { (counted(*replicas, "more replica")) @if *replicas == 1 { " fits" } @else { " fit" } }
        p.detail {
            "beyond the " (grouped(*running)) " that run, by " (key)
            @if *n_unplaced_others > 0 { "; " (counted(*n_unplaced_others, "pending pod")) " of other workloads unschedulable" }
        }
        (bars(&section))
        (parts::more(by_domain.len(), "domain"))
        @if let Some(limit) = limited_by { p.detail { "The next replica is stopped by " strong { (limit) } ": " (message) } }
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
                "<a href=\"/workloads/Deployment/shop/web\">Deployment web</a></th><td data-label=\"Namespace\">shop</td>\
                 <td class=\"number\" data-label=\"Pods\">3</td><td data-label=\"Pending\"><span class=\"badge warn\">1</span></td>",
            ],
        );
        check(
            "/workloads/Deployment/shop/web?capacity=zone",
            &[
                "3 pods, 1 pending",
                "maxSkew 1 by topology.kubernetes.io/zone",
                "<th scope=\"row\" data-label=\"topology.kubernetes.io/zone\">a</th><td data-label=\"Pods\">1</td>",
                "<a href=\"/nodes/a-1\">a-1</a></th><td data-label=\"Pods\">1</td>",
                "<h3>0 more replicas fit</h3>",
                "The next replica is stopped by",
                "<a href=\"/pods/shop/web-3\">web-3</a></th><td data-label=\"State\"><span class=\"badge warn\">pending</span></td>",
            ],
        );
    }
}
