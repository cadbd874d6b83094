//! What is the case now, and where to look: the first page.

mod survival;

use std::collections::BTreeMap;

use berth_api::object::NamespacedName;
use berth_api::read::Kind;
use berth_api::syntax::format::{counted, grouped};
use berth_api::syntax::labels::ZONE;
use berth_engine::{ViolatedRule, Violation, ViolationKey};
use berth_simulate::capacity::{CapacityRequest, Subject, capacity};
use berth_simulate::replay::Interval;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::answer::{Answer, Page};
use super::parts;
use crate::components::map::map;
use crate::components::time::Clock;
use crate::components::{Tone, badge, linked_card, stat};
use crate::pending_groups::{causes, pending_groups};
use crate::pictures::{self, ColorBy, Level, View};
use crate::workloads::WorkloadName;
use crate::{State, links};

const MAX_ROWS: usize = 4;
/// With more pods than this, capacity is counted on the pages of the workloads: it places pods.
const MAX_PODS: usize = 400;
/// Of more pods, the newest are not looked for.
const MAX_SEARCHED: usize = 20_000;
/// With more broken rules, the evictions are planned on the page of the enforcer.
const MAX_EXECUTING: usize = 100;
const RECENT: SignedDuration = SignedDuration::from_mins(10);

pub(super) fn page(state: &mut State) -> Answer {
    let clock = state.clock();
    let pending = pending(state, clock);
    let broken = broken(state);
    let survival = survival::card(state, survival::MAX_STEPS);
    let capacity = capacity_left(state);
    let enforcer = enforcer(state, clock);
    let recent = recent(state, clock);
    let overview = state.overview();
    let n_nodes = overview.pods.simulation.n_nodes();
    let place_link = |zone: &str, _: Option<&str>| links::with("/topology", "zone", zone);
    let view = View {
        level: Level::Zone,
        place_link: Some(&place_link),
        has_pending: false,
        ..View::new(ColorBy::Utilization)
    };
    let model = pictures::map(overview, &view);
    let topology = html! {
        @if n_nodes == 0 { p.detail { "The cluster has no nodes." } } @else { (map(&model)) }
    };
    let content = html! {
        div.cards { (pending) (broken) (survival) (capacity) (enforcer) (recent) }
        (linked_card("Topology", ("/topology", "All of it"), &topology))
    };
    Ok(Page::new("Overview", content).subtitle(html! { (model.title) }))
}

/// Pending pods by cause.
fn pending(state: &mut State, clock: Clock) -> Markup {
    let groups = pending_groups(state);
    let n: usize = groups.iter().map(|group| group.pods.len()).sum();
    let causes = causes(&groups);
    let content = html! {
        (stat(&grouped(n), "/pending", if n == 1 { "pod without a node" } else { "pods without a node" }, if n == 0 { Tone::Good } else { Tone::Warn }))
        ul.rows {
            @for (cause, n, oldest) in causes.iter().take(MAX_ROWS) {
                li {
                    a href=(links::with("/pending", "cause", cause)) { (cause) }
                    span.detail { (grouped(*n)) @if let Some(oldest) = oldest { ", oldest " (clock.relative(*oldest)) } }
                }
            }
            @if causes.len() > MAX_ROWS { li { span.detail { "and " (counted(causes.len() - MAX_ROWS, "more cause")) } } }
        }
    };
    linked_card("Pending pods", ("/pending", "All"), &content)
}

/// Required rules of running pods that do not hold, by kind.
fn broken(state: &mut State) -> Markup {
    let (_, violations) = state.audited();
    let n = violations.len();
    let n_executing = violations.iter().filter(|violation| violation.required_during_execution).count();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    violations.iter().for_each(|violation| *kinds.entry(kind_of(violation.rule)).or_default() += 1);
    let content = html! {
        (stat(&grouped(n), "/enforcer", if n == 1 { "broken rule" } else { "broken rules" }, if n == 0 { Tone::Good } else { Tone::Bad }))
        ul.rows {
            @for (kind, n) in kinds.iter().take(MAX_ROWS) { li { span { (kind) } span.detail { (grouped(*n)) } } }
            @if n > 0 { li { span { "Required during execution" } span.detail { (grouped(n_executing)) } } }
            @else { li { span.detail { "All required rules of running pods hold." } } }
        }
    };
    linked_card("Broken rules", ("/rules", "Rules"), &content)
}

fn kind_of(rule: ViolatedRule) -> &'static str {
    match rule {
        ViolatedRule::NodeAffinity => "Node selector or affinity",
        ViolatedRule::PodAffinity => "Pod affinity",
        ViolatedRule::PodAntiAffinity => "Pod anti-affinity",
        ViolatedRule::TaintToleration => "Taints",
        ViolatedRule::NodePorts => "Host ports",
        ViolatedRule::NodeResourcesFit => "Resources",
        ViolatedRule::PodTopologySpread => "Spread constraints",
        ViolatedRule::VolumeBinding | ViolatedRule::VolumeZone => "Volumes",
    }
}

/// How many more replicas of the workloads with most pods fit.
fn capacity_left(state: &State) -> Markup {
    let all = state.pods();
    let table = all.table;
    let mut sizes = vec![0_usize; table.n_numbers()];
    (0..table.n_pods()).filter_map(|at| table.workload(at)).for_each(|number| sizes[number] += 1);
    let scales = |workload: &str| {
        ["Deployment ", "StatefulSet ", "ReplicaSet "].iter().any(|kind| workload.starts_with(kind))
    };
    let mut workloads: Vec<(usize, &WorkloadName)> = table
        .workloads()
        .filter(|(_, (_, workload))| scales(workload))
        .map(|(number, name)| (sizes[number], name))
        .collect();
    workloads.sort_by(|(n_a, a), (n_b, b)| n_b.cmp(n_a).then_with(|| a.cmp(b)));
    workloads.truncate(MAX_ROWS);
    let is_counted = table.n_pods() <= MAX_PODS;
    let left = |(namespace, workload): &WorkloadName| {
        let (kind, name) = workload.split_once(' ')?;
        let (inventory, options) = state.objects();
        let subject = Subject::Workload(Kind::named(kind)?, NamespacedName::new(namespace, name));
        let request = CapacityRequest { topology_key: ZONE.to_owned(), target: None, defragmentation: None };
        let (found, _) = capacity(inventory, &options, &subject, &request).ok()?;
        Some(found)
    };
    let content = html! {
        @if workloads.is_empty() { p.detail { "No Deployment or StatefulSet has pods." } }
        ul.rows {
            @for (n, name) in &workloads {
                @let to = links::with(&links::workload(&name.0, &name.1), "capacity", "zone");
                li {
                    span { (parts::link(&links::workload(&name.0, &name.1), &name.1)) " " span.detail { (counted(*n, "pod")) } }
                    @match is_counted.then(|| left(name)).flatten() {
                        Some(found) if found.limited_by.is_none() => a href=(to) { "no limit" },
                        Some(found) if found.replicas == 0 => a.badge.bad href=(to) { "none left" },
                        Some(found) => a href=(to) { (grouped(found.replicas)) " more" },
                        None => a href=(to) { "count them" },
                    }
                }
            }
        }
        @if !is_counted && !workloads.is_empty() { p.detail { "Counted on the pages of the workloads: the cluster has more than " (grouped(MAX_PODS)) " pods." } }
    };
    linked_card("Capacity left", ("/workloads", "Workloads"), &content)
}

/// What the enforcer would do, and what was evicted lately.
fn enforcer(state: &mut State, clock: Clock) -> Markup {
    let executing = state.audited().1.iter().filter(|violation| violation.required_during_execution);
    let executing: Vec<ViolationKey> = executing.map(Violation::key).collect();
    let planned = (executing.len() <= MAX_EXECUTING).then(|| {
        let (rules, now) = (state.enforcer, state.now());
        let options = rules.map(|rules| (rules.remedy_options)(state.simulation(), now)).unwrap_or_default();
        state.simulation().cluster().remedy(&executing, &options)
    });
    let n_evicted: Option<usize> =
        state.is_live().then(|| recent_intervals(state, clock).iter().map(|i| i.n_evictions).sum());
    let content = html! {
        @match &planned {
            Some(planned) => {
                @let n_held = planned.remedies.iter().filter(|remedy| remedy.is_held).count();
                @let n = planned.remedies.len() - n_held;
                (stat(&grouped(n), "/enforcer", if n == 1 { "planned eviction" } else { "planned evictions" }, if n == 0 { Tone::Neutral } else { Tone::Warn }))
                ul.rows {
                    @for remedy in planned.remedies.iter().filter(|remedy| !remedy.is_held).take(2) {
                        li { (parts::pod(&remedy.victim.namespace, &remedy.victim.name)) span.detail { "from " (remedy.victim.node) } }
                    }
                    li { span { "Held: no other node" } span.detail { (grouped(n_held)) } }
                    li { span { "Rules that no eviction fixes" } span.detail { (grouped(planned.stays.len())) } }
                }
            }
            None => (stat(&grouped(executing.len()), "/enforcer", "rules to enforce", Tone::Warn)),
        }
        @if let Some(n) = n_evicted { p.detail { (counted(n, "eviction")) " in the last 10 minutes" } }
    };
    linked_card("Enforcer", ("/enforcer", "Plan"), &content)
}

fn recent_intervals(state: &mut State, clock: Clock) -> Vec<Interval> {
    let timeline = state.timeline();
    let is_recent = |interval: &Interval| clock.now.duration_since(interval.begin) <= RECENT;
    timeline.intervals.into_iter().filter(is_recent).collect()
}

/// What changed in the last ten minutes; of a cluster that does not change, its newest pods.
fn recent(state: &mut State, clock: Clock) -> Markup {
    if !state.is_live() {
        let all = state.pods();
        let created = |at: usize| Some((all.at(at).pod.metadata.creation_timestamp?, at));
        let n_searched = if all.table.n_pods() <= MAX_SEARCHED { all.table.n_pods() } else { 0 };
        let mut newest: Vec<(Timestamp, usize)> = (0..n_searched).filter_map(created).collect();
        newest.sort_by_cached_key(|(time, at)| {
            (std::cmp::Reverse(*time), all.at(*at).pod.metadata.namespaced_name())
        });
        let content = html! {
            @if n_searched == 0 { p.detail { "A file does not change: with " code { "--live" } ", this card shows what has happened in the last ten minutes." } }
            @else if newest.is_empty() { p.detail { "The objects have no times." } }
            @else { p.detail { "A file does not change; these pods are its newest." } }
            ul.rows {
                @for (time, at) in newest.iter().take(MAX_ROWS) {
                    @let metadata = &all.at(*at).pod.metadata;
                    li { (parts::pod(&metadata.namespace, &metadata.name)) span.detail { (clock.relative(*time)) } }
                }
            }
        };
        return linked_card("Newest pods", ("/pods?sort=age", "All"), &content);
    }
    let intervals = recent_intervals(state, clock);
    let n_bound: usize = intervals.iter().map(|interval| interval.n_decisions).sum();
    let n_evicted: usize = intervals.iter().map(|interval| interval.n_evictions).sum();
    let time_of = |text: &str| text.parse::<Timestamp>().ok();
    let mut events: Vec<_> = state
        .events()
        .rev()
        .filter_map(|event| Some((time_of(&event.time)?, event)))
        .filter(|(time, _)| clock.now.duration_since(*time) <= RECENT)
        .collect();
    events.sort_by_key(|(_, event)| event.event_type != "Warning");
    let content = html! {
        (stat(&grouped(n_bound), "/timeline", &format!("pods bound, {} evicted", grouped(n_evicted)), Tone::Neutral))
        ul.rows {
            @for (time, event) in events.iter().take(MAX_ROWS) {
                li {
                    span { @if event.event_type == "Warning" { (badge(Tone::Warn, &event.reason)) } @else { (event.reason) } " " (parts::object(&event.kind, &event.namespace, &event.name)) }
                    span.detail { (clock.relative(*time)) }
                }
            }
            @if events.is_empty() { li { span.detail { "No events in the last 10 minutes." } } }
        }
    };
    linked_card("Last 10 minutes", ("/events", "Events"), &content)
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;

    #[test]
    fn the_first_page_says_what_is_the_case_and_where_to_look() {
        check(
            "/",
            &[
                "<a href=\"/pending\">1</a></b><span>pod without a node</span>",
                "<a href=\"/pending?cause=Pod%20anti-affinity\">Pod anti-affinity</a>",
                "<span>broken rules</span>",
                "<a href=\"/what-if?remove-domain=topology.kubernetes.io%2Fzone%3Da\">a</a>",
                "cannot be lost: 1 pod",
                "<a class=\"badge bad\" href=\"/workloads/Deployment/shop/web?capacity=zone\">none left</a>",
                "<span>planned evictions</span>",
                "aria-label=\"2 nodes, 3 pods, 1 pending\"",
            ],
        );
    }
}
