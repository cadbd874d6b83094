//! The nodes in their zones and racks.

mod related;

use std::collections::{BTreeMap, HashMap, HashSet};

use berth_api::simulated_nodes::RACK;
use berth_api::syntax::format::{counted, grouped};
use berth_api::syntax::labels::ZONE;
use berth_api::work::WorkBudget;
use berth_picture::cells::Relation;
use berth_simulate::SimulatedPod;
use maud::{Markup, html};

use self::related::Related;
use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::components::bars::legend;
use crate::components::map::map_without_legend;
use crate::components::{datalist, empty, facts, tabs};
use crate::overview::{Overview, Pods};
use crate::pictures::{self, ColorBy, Level, Nearly, View};
use crate::places::place;
use crate::workloads::name_of;
use crate::{Request, State, links, verdicts};

const COLORS: [(&str, &str); 7] = [
    ("utilization", "Utilization"),
    ("workload", "Workload"),
    ("namespace", "Namespace"),
    ("group", "Pod group"),
    ("priority", "Priority"),
    ("age", "Age"),
    ("rule", "Broken rules"),
];
const LEVELS: [(&str, &str, Level); 3] =
    [("zone", "Zones", Level::Zone), ("rack", "Racks", Level::Rack), ("node", "Nodes", Level::Node)];
/// With more nodes than this, the first view is of racks; with more than that, of zones.
const MAX_NODES: usize = 400;
const MAX_RACKS: usize = 600;
/// Pending pods whose nearest node is looked for, and the work for it.
const MAX_PLACED: usize = 12;
const MAX_STEPS: u64 = 200_000;
const MAX_SUGGESTED: usize = 200;

/// What the parameters of the page select.
struct Selection {
    color: String,
    zone: Option<String>,
    rack: Option<String>,
    namespace: String,
    workload: String,
    label: Option<(String, String)>,
}

impl Selection {
    fn of(request: &Request<'_>) -> Result<Selection, PageError> {
        let text = |name: &str| {
            request.parameter(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let label = match text("label") {
            Some(label) => {
                let bad =
                    || PageError::Parameter(format!("label={label}: give KEY=VALUE of a label of pods"));
                let (key, value) = label.split_once('=').ok_or_else(bad)?;
                Some((key.to_owned(), value.to_owned()))
            }
            None => None,
        };
        let color = text("color").unwrap_or_else(|| COLORS[0].0.to_owned());
        if !COLORS.iter().any(|(known, _)| *known == color) {
            let known: Vec<_> = COLORS.iter().map(|(known, _)| *known).collect();
            return Err(PageError::Parameter(format!("color={color}: give one of {}", known.join(", "))));
        }
        Ok(Selection {
            color,
            zone: text("zone"),
            rack: text("rack"),
            namespace: text("namespace").unwrap_or_default(),
            workload: text("workload").unwrap_or_default(),
            label,
        })
    }

    fn is_filtered(&self) -> bool {
        !self.namespace.is_empty() || !self.workload.is_empty() || self.label.is_some()
    }

    fn shows(&self, pod: &SimulatedPod) -> bool {
        let metadata = &pod.pod.metadata;
        let is_of = || name_of(pod).1.to_lowercase().contains(&self.workload.to_lowercase());
        (self.namespace.is_empty() || metadata.namespace == self.namespace)
            && (self.workload.is_empty() || is_of())
            && self.label.as_ref().is_none_or(|(key, value)| metadata.labels.get(key) == Some(value))
    }
}

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let selection = Selection::of(request)?;
    let (n_nodes, racks) = extent(state, &selection);
    let level = level(request, n_nodes, racks)?;
    let nearly =
        if level == Level::Node && n_nodes <= MAX_NODES { nearest_nodes(state) } else { HashMap::new() };
    let now = state.clock().now;
    let overview = state.overview();
    let simulation = overview.pods.simulation;
    if simulation.nodes().next().is_none() {
        let hint =
            html! { "Nodes appear here when the cluster has some. Without a node, no pod can be placed." };
        return Ok(Page::new("Topology", empty("The cluster has no nodes", &hint)));
    }
    let chosen_node = request.parameter("node");
    let node = chosen_node.as_deref().filter(|name| simulation.has_node(name));
    let chosen_pod = request.parameter("pod");
    let pod = chosen_pod
        .as_deref()
        .and_then(|name| simulation.position(name.split_once('/')?.0, name.split_once('/')?.1));
    let related = Related::new(overview);
    let relation = |at: usize| pod.map_or(Relation::None, |chosen| related.relation(overview, chosen, at));
    let kept = |names: &[&str]| {
        let others =
            request.parameters().filter(|(key, value)| !names.contains(&key.as_ref()) && !value.is_empty());
        others.fold("/topology".to_owned(), |path, (key, value)| links::with(&path, &key, &value))
    };
    let base_of_places = kept(&["zone", "rack", "level", "node", "pod"]);
    let place_link = |zone: &str, rack: Option<&str>| {
        let to = links::with(&base_of_places, "zone", zone);
        rack.map_or(to.clone(), |rack| links::with(&to, "rack", rack))
    };
    let base_of_nodes = kept(&["node", "pod"]);
    let node_link = |name: &str| links::with(&base_of_nodes, "node", name);
    let shows = |pod: &SimulatedPod| selection.shows(pod);
    let view = View {
        level,
        has_links: true,
        place_link: Some(&place_link),
        node_link: Some(&node_link),
        zone: selection.zone.as_deref(),
        rack: selection.rack.as_deref(),
        shows: &shows,
        is_filtered: selection.is_filtered(),
        node,
        relation: &relation,
        nearly,
        has_pending: false,
        ..View::new(match selection.color.as_str() {
            "workload" => ColorBy::Workload,
            "namespace" => ColorBy::Namespace,
            "group" => ColorBy::Group,
            "priority" => ColorBy::Priority,
            "age" => ColorBy::Age(now),
            "rule" => ColorBy::Rule,
            _ => ColorBy::Utilization,
        })
    };
    let model = pictures::map(overview, &view);
    let inspector = match (node, pod) {
        (_, Some(at)) => inspect_pod(overview, at, &related),
        (Some(name), None) => inspect_node(overview, name),
        (None, None) => overview_of(overview),
    };
    let choice = |value: &str| links::with(&kept(&["color"]), "color", value);
    let colors: Vec<_> =
        COLORS.iter().map(|(value, name)| (choice(value), *name, *value == selection.color)).collect();
    let to_level = |name: &str| {
        let names: &[&str] = if name == "node" { &["level"] } else { &["level", "zone", "rack"] };
        links::with(&kept(names), "level", name)
    };
    let levels: Vec<_> =
        LEVELS.iter().map(|(value, name, of)| (to_level(value), *name, *of == level)).collect();
    let content = html! {
        (toolbar(request, overview, &selection, &colors, &levels))
        @if selection.zone.is_some() {
            nav.pages aria-label="Place" {
                a href=(kept(&["zone", "rack", "node", "pod"])) { "All zones" }
                @if let Some(zone) = &selection.zone { span { "› " @if selection.rack.is_some() { a href=(place_link(zone, None)) { (zone) } } @else { (zone) } } }
                @if let Some(rack) = &selection.rack { span { "› " (rack) } }
            }
        }
        (legend(&model.legend))
        div.with-inspector {
            div { a.skip.here href="#inspector" { "Skip the map" } h2.unseen { "Nodes and pods" } (map_without_legend(&model)) }
            aside.card.inspector id="inspector" tabindex="-1" aria-label="Selection" { (inspector) }
        }
        @for (rank, template) in related.templates(overview, &view) {
            template data-about=(rank) data-partners=(related.partners_of(rank)) { (template) }
        }
    };
    Ok(Page::new("Topology", content)
        .subtitle(html! { (model.title) })
        .actions(html! { a.button.small href="/nodes" { "The nodes as a list" } }))
}

/// The numbers of nodes that are selected, and of their racks.
fn extent(state: &State, selection: &Selection) -> (usize, usize) {
    let (mut n_nodes, mut racks) = (0, HashSet::new());
    for node in state.pods().simulation.nodes() {
        let label = |key: &str| node.metadata.labels.get(key).map(String::as_str);
        let is_in = |key: &str, wanted: &Option<String>| {
            wanted.as_deref().is_none_or(|wanted| label(key) == Some(wanted))
        };
        if is_in(ZONE, &selection.zone) && is_in(RACK, &selection.rack) {
            n_nodes += 1;
            racks.insert((label(ZONE), label(RACK)));
        }
    }
    (n_nodes, racks.len())
}

fn level(request: &Request<'_>, n_nodes: usize, n_racks: usize) -> Result<Level, PageError> {
    match request.parameter("level") {
        Some(wanted) => {
            let found = LEVELS.iter().find(|(value, ..)| *value == wanted).map(|(.., level)| *level);
            found.ok_or_else(|| PageError::Parameter(format!("level={wanted}: give zone, rack or node")))
        }
        None if n_nodes <= MAX_NODES => Ok(Level::Node),
        None if n_racks <= MAX_RACKS => Ok(Level::Rack),
        None => Ok(Level::Zone),
    }
}

fn toolbar(
    request: &Request<'_>,
    overview: Overview<'_>,
    selection: &Selection,
    colors: &[(String, &str, bool)],
    levels: &[(String, &str, bool)],
) -> Markup {
    let namespaces: std::collections::BTreeSet<&str> =
        overview.pods.table.workloads().map(|(_, (namespace, _))| namespace.as_str()).collect();
    let workloads = overview.pods.table.workloads().map(|(_, (_, workload))| workload.clone());
    let workloads: std::collections::BTreeSet<String> = workloads.take(MAX_SUGGESTED).collect();
    let kept =
        request.parameters().filter(|(key, _)| ["color", "level", "zone", "rack"].contains(&key.as_ref()));
    html! {
        div.toolbar {
            div.group { span { "Color" } (tabs("Color", colors)) }
            div.group { span { "Level" } (tabs("Level", levels)) }
        }
        form.toolbar method="get" action="/topology" aria-label="Pods that are shown" {
            label.group { span { "Namespace" }
                select name="namespace" data-go {
                    option value="" { "All namespaces" }
                    @for namespace in &namespaces { option value=(namespace) selected[*namespace == selection.namespace] { (namespace) } }
                }
            }
            label.group { span { "Workload" } input name="workload" list="workloads" value=(selection.workload) placeholder="all" size="18"; }
            label.group { span { "Pod label" } input name="label" placeholder="app=web" size="18" value=[selection.label.as_ref().map(|(k, v)| format!("{k}={v}"))]; }
            (datalist("workloads", workloads))
            @for (key, value) in kept { input type="hidden" name=(key) value=(value); }
            button { "Filter" }
            @if selection.is_filtered() { a href="/topology" { "Show all pods" } }
        }
    }
}

/// What stands beside the map when nothing is selected.
fn overview_of(overview: Overview<'_>) -> Markup {
    let table = overview.pods.table;
    let waiting = table.pending().count();
    html! {
        h2 { "Nothing selected" }
        p.detail { "Point at a pod, or move the focus to it, to see its workload, its partners and its rules. Select a node to drain, cordon or remove it in a what-if." }
        (facts(&[
            ("Nodes", html! { (grouped(overview.pods.simulation.n_nodes())) }),
            ("Pods", html! { (grouped(table.n_pods())) }),
            ("Without a node", html! { @if waiting > 0 { a href="/pending" { (counted(waiting, "pod")) } } @else { "none" } }),
            ("Broken rules", html! { @if overview.broken.violations.is_empty() { "none" } @else { a href="/enforcer" { (counted(overview.broken.violations.len(), "rule")) } } }),
        ]))
    }
}

/// A node, and what can be asked about it.
fn inspect_node(overview: Overview<'_>, name: &str) -> Markup {
    let Some(node) = overview.pods.simulation.node(name) else { return html! {} };
    let on_node: Vec<usize> = overview.pods.table.on_node(name).collect();
    let place = place(overview, node, &on_node);
    let mut workloads: BTreeMap<String, usize> = BTreeMap::new();
    for at in &on_node {
        let (namespace, workload) = name_of(overview.pods.at(*at));
        *workloads.entry(format!("{namespace}/{workload}")).or_default() += 1;
    }
    html! {
        h2 { "Node " (parts::node(name)) }
        (parts::node_actions(name, node.spec.unschedulable))
        (super::nodes::resources(&place))
        h3 { (counted(on_node.len(), "pod")) }
        ul.rows {
            @for (workload, n) in workloads.iter().take(parts::MAX_SHOWN) { li { span { (workload) } span.number { (n) } } }
        }
    }
}

/// A pod, the pods on its node and in its domain, and the rules that bind it.
fn inspect_pod(overview: Overview<'_>, at: usize, related: &Related) -> Markup {
    let pod = overview.pods.at(at);
    let metadata = &pod.pod.metadata;
    html! {
        h2 { "Pod " (parts::pod(&metadata.namespace, &metadata.name)) }
        (facts(&[
            ("Workload", parts::workload(&metadata.namespace, pod.workload.as_deref())),
            ("Node", match pod.node() { Some(node) => parts::node(node), None => html! { "none" } }),
        ]))
        @if let Some(number) = overview.pods.table.workload(at) { (related.rules(overview, number)) }
    }
}

/// The nodes where pending pods would nearly fit, one pod of each workload.
fn nearest_nodes(state: &mut State) -> HashMap<String, Vec<Nearly>> {
    let Pods { table, .. } = state.pods();
    let mut seen = HashSet::new();
    let pending = state.pods().sorted(table.pending(), MAX_SUGGESTED);
    let first = pending.into_iter().filter(|(_, pod)| seen.insert(name_of(pod))).take(MAX_PLACED);
    let names: Vec<_> = first.map(|(at, pod)| (at, pod.pod.metadata.namespaced_name())).collect();
    let budget = WorkBudget::new(MAX_STEPS);
    let mut nearly: HashMap<String, Vec<Nearly>> = HashMap::new();
    for (position, name) in names {
        let simulation = state.simulation();
        let Some(explained) =
            simulation.explain_without_repairs(name.namespace(), name.name(), None, &budget)
        else {
            continue;
        };
        let groups = verdicts::groups(simulation, &explained.explanation);
        let Some(group) = groups.first() else { continue };
        let why: Vec<_> = group.reasons.iter().map(|reason| reason.text(1)).collect();
        nearly.entry(group.nodes[0].to_owned()).or_default().push(Nearly { position, why: why.join(", ") });
    }
    nearly
}
