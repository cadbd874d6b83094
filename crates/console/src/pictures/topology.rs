//! The nodes in their zones and racks, with their free room, pods, broken rules, and the pending pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_api::object::{Node, ResourceList};
use berth_api::quantity::with_unit;
use berth_api::rules::PodRequests;
use berth_api::simulated_nodes::RACK;
use berth_engine::Violation;
use berth_picture::cells::{Cell, CellMap, Domain, Item, Outside, Part};
use berth_picture::{Class, Key};
use berth_simulate::{SimulatedPod, Simulation};

use super::counted;
use super::workload_keys::{WorkloadKeys, name_of};

const ZONE: &str = "topology.kubernetes.io/zone";
/// Most cells; of more nodes, several share a cell.
const MAX_CELLS: usize = 5000;
/// Pending pods that are drawn, and pods and nodes that a title names.
const MAX_PENDING: usize = 500;
const MAX_NAMED: usize = 12;
/// The resources of a title.
const RESOURCES: [&str; 3] = ["cpu", "memory", "pods"];

/// What the color of a node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorBy<'a> {
    /// How much of the node is requested.
    Utilization,
    /// The workload with most pods there.
    Workload,
    /// Whether required rules of its pods do not hold.
    Rule,
    /// Whether the simulation placed pods there or evicted some, or pods left the node before: one of these.
    Change(&'a BTreeSet<String>),
}

/// A node with its pods.
struct Place<'a> {
    node: &'a Node,
    pods: Vec<&'a SimulatedPod>,
    used: ResourceTotals,
    broken: Vec<&'a Violation>,
    n_evicted: usize,
}

type ResourceTotals = [i64; RESOURCES.len()];

/// The topology. `broken` are the violated rules of running pods.
pub fn topology(simulation: &Simulation, broken: &[Violation], color_by: ColorBy<'_>) -> String {
    let keys = WorkloadKeys::new(simulation);
    let places = places(simulation, broken);
    let n_per_cell = places.len().div_ceil(MAX_CELLS).max(1);
    let mut domains: BTreeMap<&str, BTreeMap<&str, Vec<&Place<'_>>>> = BTreeMap::new();
    for place in places.values() {
        let label = |key: &str| place.node.metadata.labels.get(key).map_or("", String::as_str);
        domains.entry(label(ZONE)).or_default().entry(label(RACK)).or_default().push(place);
    }
    let domains = domains.into_iter().map(|(zone, racks)| {
        let of_zone = || racks.values().flatten().copied();
        let (n_nodes, n_pods) = (of_zone().count(), of_zone().map(|place| place.pods.len()).sum());
        let name = if zone.is_empty() { "no zone" } else { zone };
        let part = |(rack, places): (&&str, &Vec<&Place<'_>>)| Part {
            name: (*rack).to_owned(),
            cells: places.chunks(n_per_cell).map(|places| cell(places, &keys, color_by)).collect(),
        };
        let text = format!("{name}: {}, {}", counted(n_nodes, "node"), counted(n_pods, "pod"));
        Domain { name: text.clone(), title: text, parts: racks.iter().map(part).collect() }
    });
    let domains: Vec<_> = domains.collect();
    let pending: Vec<_> = simulation.pods().iter().filter(|pod| pod.node().is_none()).collect();
    let (n_pods, n_pending) = (simulation.pods().len(), pending.len());
    let outside = (n_pending > 0).then(|| Outside {
        name: match n_pending.saturating_sub(MAX_PENDING) {
            0 => format!("{} without a node", counted(n_pending, "pod")),
            more => format!("{} without a node; {more} are not shown", counted(n_pending, "pod")),
        },
        items: pending.iter().take(MAX_PENDING).map(|pod| item(pod, &keys)).collect(),
    });
    let mut notes = Vec::new();
    if n_per_cell > 1 {
        notes.push(format!("A cell stands for up to {n_per_cell} nodes of a rack or zone."));
    }
    let nodes = counted(places.len(), "node");
    CellMap {
        title: format!("{nodes}, {}, {n_pending} pending", counted(n_pods, "pod")),
        description: format!(
            "{nodes} in {}; the filled part of a cell is the largest requested part of cpu, memory and pods.",
            counted(domains.len(), "zone")
        ),
        legend: legend(&keys, color_by, places.len()),
        domains,
        outside,
        notes,
    }
    .svg()
}

fn places<'a>(simulation: &'a Simulation, broken: &'a [Violation]) -> BTreeMap<&'a str, Place<'a>> {
    let place = |node: &'a Node| {
        let place = Place { node, pods: Vec::new(), used: [0; 3], broken: Vec::new(), n_evicted: 0 };
        (node.metadata.name.as_str(), place)
    };
    let mut places: BTreeMap<_, _> = simulation.nodes().map(place).collect();
    for pod in simulation.pods() {
        if pod.preempted_by.is_some()
            && let Some(place) = places.get_mut(pod.pod.spec.node_name.as_str())
        {
            place.n_evicted += 1;
        }
        let Some(place) = pod.node().and_then(|node| places.get_mut(node)) else { continue };
        let requests = PodRequests::of(&pod.pod);
        for (used, resource) in place.used.iter_mut().zip(RESOURCES) {
            *used += if resource == "pods" { 1 } else { requests.amount(resource) };
        }
        place.pods.push(pod);
    }
    for violation in broken {
        if let Some(place) = places.get_mut(violation.node.as_str()) {
            place.broken.push(violation);
        }
    }
    places
}

impl Place<'_> {
    fn allocatable(&self) -> Option<&ResourceList> {
        let status = &self.node.status;
        status.allocatable.as_ref().or(status.capacity.as_ref())
    }

    /// Requested and allocatable amounts.
    fn amounts(&self) -> impl Iterator<Item = (&'static str, i64, i64)> + '_ {
        RESOURCES.into_iter().zip(self.used).map(|(resource, used)| {
            let quantity = self.allocatable().and_then(|list| list.get(resource));
            let amount = quantity.map_or(0, |q| if resource == "cpu" { q.millis() } else { q.units() });
            (resource, used, amount)
        })
    }

    /// The largest requested part of a resource, in percent.
    fn utilization(&self) -> usize {
        let percent = |(_, used, of): (_, i64, i64)| if of > 0 { used * 100 / of } else { 0 };
        usize::try_from(self.amounts().map(percent).max().unwrap_or(0)).unwrap_or(0)
    }

    fn text(&self) -> String {
        let amount = |(resource, used, of)| {
            format!("{resource} {} of {}", with_unit(resource, used), with_unit(resource, of))
        };
        let amounts: Vec<_> = self.amounts().map(amount).collect();
        let mut text = format!("{}: {}", self.node.metadata.name, amounts.join(", "));
        if self.node.spec.unschedulable {
            text.push_str("; cordoned");
        }
        for violation in self.broken.iter().take(MAX_NAMED) {
            let Violation { namespace, name, term, .. } = violation;
            text.push_str(&format!("; broken rule of {namespace}/{name}: {term}"));
        }
        match self.broken.len().saturating_sub(MAX_NAMED) {
            0 => {}
            more => text.push_str(&format!("; {more} more broken rules")),
        }
        text
    }
}

fn cell(places: &[&Place<'_>], keys: &WorkloadKeys, color_by: ColorBy<'_>) -> Cell {
    let first = places[0];
    let pods = || places.iter().flat_map(|place| &place.pods);
    let n_broken: usize = places.iter().map(|place| place.broken.len()).sum();
    let n_new = pods().filter(|pod| !pod.was_running).count();
    let n_evicted: usize = places.iter().map(|place| place.n_evicted).sum();
    let level = places.iter().map(|place| place.utilization()).sum::<usize>() / places.len();
    let (class, mark) = match color_by {
        ColorBy::Utilization if level > 90 => (Class::Alert, None),
        ColorBy::Utilization => (Class::Kind(0), None),
        ColorBy::Workload => {
            most_frequent(pods(), keys).map_or((Class::Kind(5), None), |(c, m)| (c, Some(m)))
        }
        ColorBy::Rule if n_broken > 0 => (Class::Alert, Some('!')),
        ColorBy::Change(left)
            if n_evicted > 0 || places.iter().any(|p| left.contains(&p.node.metadata.name)) =>
        {
            (Class::Alert, Some('-'))
        }
        ColorBy::Change(_) if n_new > 0 => (Class::Kind(2), Some('+')),
        ColorBy::Rule | ColorBy::Change(_) => (Class::Kind(5), None),
    };
    let title = match places {
        [one] => one.text(),
        several => {
            let last = &several[several.len() - 1].node.metadata.name;
            let nodes = counted(several.len(), "node");
            format!(
                "{} to {last}: {nodes}, {}, {level} % requested, {}",
                first.node.metadata.name,
                counted(pods().count(), "pod"),
                counted(n_broken, "broken rule")
            )
        }
    };
    // Broken rules are marked whatever the color says.
    let mark = if n_broken > 0 { Some('!') } else { mark };
    let items = pods().map(|pod| item(pod, keys)).collect();
    Cell { name: first.node.metadata.name.clone(), title, level, class, mark, items }
}

fn most_frequent<'a>(
    pods: impl Iterator<Item = &'a &'a SimulatedPod>,
    keys: &WorkloadKeys,
) -> Option<(Class, char)> {
    let mut counts: HashMap<char, (usize, Class)> = HashMap::new();
    for pod in pods {
        let (class, mark) = keys.of(&name_of(pod));
        counts.entry(mark).or_insert((0, class)).0 += 1;
    }
    let most = counts.into_iter().max_by(|(a, (n_a, _)), (b, (n_b, _))| n_a.cmp(n_b).then_with(|| b.cmp(a)));
    most.map(|(mark, (_, class))| (class, mark))
}

fn item(pod: &SimulatedPod, keys: &WorkloadKeys) -> Item {
    let (class, mark) = keys.of(&name_of(pod));
    let title = match (&pod.workload, pod.node()) {
        (workload, None) => {
            let workload = workload.as_ref().map(|w| format!(" of {w}")).unwrap_or_default();
            format!("{}{workload}: {}", pod.pod.key(), pod.outcome.message())
        }
        (Some(workload), _) => format!("{} of {workload}", pod.pod.key()),
        (None, _) => pod.pod.key(),
    };
    Item { title, class, mark }
}

fn legend(keys: &WorkloadKeys, color_by: ColorBy<'_>, n_nodes: usize) -> Vec<Key> {
    let key = |class, mark, text: &str| Key { class, mark, text: text.to_owned() };
    let mut legend = match color_by {
        ColorBy::Utilization => {
            vec![
                key(Class::Kind(0), None, "requested part of the node"),
                key(Class::Alert, None, "more than 90 %"),
            ]
        }
        ColorBy::Workload => Vec::new(),
        ColorBy::Rule => vec![
            key(Class::Alert, Some('!'), "node with broken rules"),
            key(Class::Kind(5), None, "all rules hold"),
        ],
        ColorBy::Change(_) => vec![
            key(Class::Kind(2), Some('+'), "node with new pods"),
            key(Class::Alert, Some('-'), "node that pods left"),
            key(Class::Kind(5), None, "no change"),
        ],
    };
    // Single pods are drawn on few nodes.
    if color_by == ColorBy::Workload || n_nodes <= berth_picture::cells::MAX_LARGE {
        legend.extend(keys.legend());
    }
    if color_by != ColorBy::Rule {
        legend.push(key(Class::Faint, Some('!'), "a rule is broken there"));
    }
    legend
}
