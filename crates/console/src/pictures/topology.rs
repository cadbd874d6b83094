//! The nodes in their zones and racks, with their free room, pods, broken rules, and the pending pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_api::simulated_nodes::RACK;
use berth_engine::Violation;
use berth_picture::cells::{Cell, CellMap, Domain, Item, MAX_LARGE, Outside, Part};
use berth_picture::{Class, Key};
use berth_simulate::{SimulatedPod, Simulation};

use super::workload_keys::WorkloadKeys;
use crate::links;
use crate::names::counted;
use crate::places::{Place, places};
use crate::workloads::name_of;

/// The node label with the zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// Most cells; of more nodes, several share a cell.
const MAX_CELLS: usize = 5000;
/// Pending pods that are drawn.
const MAX_PENDING: usize = 500;

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
    /// Whether pods will leave the node: one of these.
    Leave(&'a BTreeSet<String>),
}

/// The topology. `broken` are the violated rules of running pods.
pub fn topology(simulation: &Simulation, broken: &[Violation], color_by: ColorBy<'_>) -> String {
    draw(simulation, broken, color_by, Frame::default())
}

/// Where a picture stands.
#[derive(Clone, Copy, Default)]
pub(crate) struct Frame {
    /// The width in pixels; 0 for that of a page.
    pub(crate) width: usize,
    /// Whether nodes and pods have links to their pages.
    pub(crate) has_links: bool,
}

pub(crate) fn draw(
    simulation: &Simulation,
    broken: &[Violation],
    color_by: ColorBy<'_>,
    Frame { width, has_links }: Frame,
) -> String {
    let places = places(simulation, broken, |_| true);
    let has_items = places.len() <= MAX_LARGE;
    // Single pods are drawn on few nodes.
    let has_keys = has_items || color_by == ColorBy::Workload;
    let keys = if has_keys { WorkloadKeys::new(simulation) } else { WorkloadKeys::default() };
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
            cells: places
                .chunks(n_per_cell)
                .map(|places| cell(places, &keys, color_by, has_items, has_links))
                .collect(),
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
        items: pending.iter().take(MAX_PENDING).map(|pod| item(pod, &keys, has_links)).collect(),
    });
    let mut notes = Vec::new();
    if n_per_cell > 1 {
        notes.push(format!("A cell stands for up to {n_per_cell} nodes of a rack or zone."));
    }
    let nodes = counted(places.len(), "node");
    CellMap {
        width,
        title: format!("{nodes}, {}, {n_pending} pending", counted(n_pods, "pod")),
        description: format!(
            "{nodes} in {}; the filled part of a cell is the largest requested part of cpu, memory and pods.",
            counted(domains.len(), "zone")
        ),
        legend: legend(&keys, color_by),
        domains,
        outside,
        notes,
    }
    .svg()
}

fn cell(
    places: &[&Place<'_>],
    keys: &WorkloadKeys,
    color_by: ColorBy<'_>,
    has_items: bool,
    has_links: bool,
) -> Cell {
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
        ColorBy::Leave(leave) if places.iter().any(|p| leave.contains(&p.node.metadata.name)) => {
            (Class::Alert, Some('-'))
        }
        ColorBy::Rule | ColorBy::Change(_) | ColorBy::Leave(_) => (Class::Kind(5), None),
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
    let items = if has_items { pods().map(|pod| item(pod, keys, has_links)).collect() } else { Vec::new() };
    let name = first.node.metadata.name.clone();
    let link = (has_links && places.len() == 1).then(|| links::node(&name));
    Cell { name, title, level, class, mark, items, link }
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

fn item(pod: &SimulatedPod, keys: &WorkloadKeys, has_links: bool) -> Item {
    let (class, mark) = keys.of(&name_of(pod));
    let title = match (&pod.workload, pod.node()) {
        (workload, None) => {
            let workload = workload.as_ref().map(|w| format!(" of {w}")).unwrap_or_default();
            format!("{}{workload}: {}", pod.pod.key(), pod.outcome.message())
        }
        (Some(workload), _) => format!("{} of {workload}", pod.pod.key()),
        (None, _) => pod.pod.key(),
    };
    let metadata = &pod.pod.metadata;
    let link = has_links.then(|| links::pod(&metadata.namespace, &metadata.name));
    Item { title, class, mark, link }
}

fn legend(keys: &WorkloadKeys, color_by: ColorBy<'_>) -> Vec<Key> {
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
        ColorBy::Leave(_) => {
            vec![key(Class::Alert, Some('-'), "node that pods leave"), key(Class::Kind(5), None, "no change")]
        }
    };
    legend.extend(keys.legend());
    if color_by != ColorBy::Rule {
        legend.push(key(Class::Faint, Some('!'), "a rule is broken there"));
    }
    legend
}
