//! The nodes in their zones and racks, with their free room, pods, broken rules, and the pending pods.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use berth_api::simulated_nodes::RACK;
use berth_api::syntax::format::counted;
use berth_api::syntax::labels::ZONE;
use berth_engine::Violation;
use berth_picture::cells::{Cell, CellMap, Domain, Item, MAX_LARGE, Outside, Part};
use berth_picture::{Class, Key, N_KINDS};
use berth_simulate::{SimulatedPod, Simulation};

use super::workload_keys::WorkloadKeys;
use crate::links;
use crate::overview::{Overview, Pods};
use crate::places::{Place, places};
use crate::pod_table::PodTable;

/// Most cells; of more nodes, several share a cell.
const MAX_CELLS: usize = 5000;
/// Pending pods that are drawn.
const MAX_PENDING: usize = 500;
/// Broken rules that the title of a cell names; of many cells, each has a short title.
const MAX_BROKEN: usize = 12;
const MAX_BROKEN_OF_MANY: usize = 1;

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

/// As [`draw_overview`], of a simulation that is shown once.
pub(crate) fn draw(
    simulation: &Simulation,
    broken: &[Violation],
    color_by: ColorBy<'_>,
    frame: Frame,
) -> String {
    Overview::once(simulation, broken, |overview| draw_overview(overview, color_by, frame))
}

pub(crate) fn draw_overview(overview: Overview<'_>, color_by: ColorBy<'_>, frame: Frame) -> String {
    let Pods { simulation, table } = overview.pods;
    let by_node = table.by_node();
    let places = places(overview, &by_node);
    let has_items = places.len() <= MAX_LARGE;
    let changed = if let ColorBy::Change(_) = color_by { simulation.pods() } else { &[] };
    let evicted = changed.iter().filter(|pod| pod.preempted_by.is_some());
    let drawing = Drawing {
        pods: overview.pods,
        // Single pods are drawn on few nodes.
        keys: if has_items || color_by == ColorBy::Workload {
            WorkloadKeys::new(overview.pods)
        } else {
            WorkloadKeys::default()
        },
        color_by,
        evicted_from: evicted.map(|pod| pod.pod.spec.node_name.as_str()).collect(),
        has_items,
        has_links: frame.has_links,
    };
    let n_per_cell = places.len().div_ceil(MAX_CELLS).max(1);
    let mut domains: BTreeMap<&str, BTreeMap<&str, Vec<&Place<'_>>>> = BTreeMap::new();
    for place in &places {
        let label = |key: &str| place.node.metadata.labels.get(key).map_or("", String::as_str);
        domains.entry(label(ZONE)).or_default().entry(label(RACK)).or_default().push(place);
    }
    let domains = domains.into_iter().map(|(zone, racks)| {
        let of_zone = || racks.values().flatten().copied();
        let (n_nodes, n_pods) = (of_zone().count(), of_zone().map(|place| place.pods.len()).sum());
        let name = if zone.is_empty() { "no zone" } else { zone };
        let part = |(rack, places): (&&str, &Vec<&Place<'_>>)| Part {
            name: (*rack).to_owned(),
            cells: places.chunks(n_per_cell).map(|places| drawing.cell(places)).collect(),
        };
        let text = format!("{name}: {}, {}", counted(n_nodes, "node"), counted(n_pods, "pod"));
        Domain { name: text.clone(), title: text, parts: racks.iter().map(part).collect() }
    });
    let domains: Vec<_> = domains.collect();
    let n_pending = table.pending().count();
    let outside = (n_pending > 0).then(|| Outside {
        name: match n_pending.saturating_sub(MAX_PENDING) {
            0 => format!("{} without a node", counted(n_pending, "pod")),
            more => format!("{} without a node; {more} are not shown", counted(n_pending, "pod")),
        },
        items: drawing.items(table.pending(), MAX_PENDING),
    });
    let mut notes = Vec::new();
    if n_per_cell > 1 {
        notes.push(format!("A cell stands for up to {n_per_cell} nodes of a rack or zone."));
    }
    let nodes = counted(places.len(), "node");
    CellMap {
        width: frame.width,
        title: format!("{nodes}, {}, {}", counted(table.n_pods(), "pod"), pending_text(simulation, table)),
        description: format!(
            "{nodes} in {}; the filled part of a cell is the largest requested part of cpu, memory and pods.",
            counted(domains.len(), "zone")
        ),
        legend: legend(&drawing.keys, color_by),
        domains,
        outside,
        notes,
    }
    .svg()
}

/// `2 pending, 1 not running on the node that it names`.
fn pending_text(simulation: &Simulation, table: &PodTable) -> String {
    let (n_unadmitted, n_pending) = table.pending().fold((0, 0), |(unadmitted, pending), position| {
        match simulation.pods()[position].unadmitted {
            Some(_) => (unadmitted + 1, pending),
            None => (unadmitted, pending + 1),
        }
    });
    match n_unadmitted {
        0 => format!("{n_pending} pending"),
        n => format!("{n_pending} pending, {n} not running on the named node"),
    }
}

/// What the cells show.
struct Drawing<'a> {
    pods: Pods<'a>,
    keys: WorkloadKeys,
    color_by: ColorBy<'a>,
    /// The nodes of pods that were preempted, where changes are shown.
    evicted_from: HashSet<&'a str>,
    has_items: bool,
    has_links: bool,
}

impl Drawing<'_> {
    fn cell(&self, places: &[&Place<'_>]) -> Cell {
        let first = places[0];
        let pods = || places.iter().flat_map(|place| place.pods).copied();
        let n_broken: usize = places.iter().map(|place| place.broken.len()).sum();
        let level = places.iter().map(|place| place.utilization()).sum::<usize>() / places.len();
        let is_any = |nodes: &BTreeSet<String>| places.iter().any(|p| nodes.contains(&p.node.metadata.name));
        let is_evicted = |place: &&Place<'_>| self.evicted_from.contains(place.node.metadata.name.as_str());
        let (class, mark) = match self.color_by {
            ColorBy::Utilization if level > 90 => (Class::Alert, None),
            ColorBy::Utilization => (Class::Kind(0), None),
            ColorBy::Workload => {
                self.most_frequent(pods()).map_or((Class::Kind(5), None), |(c, m)| (c, Some(m)))
            }
            ColorBy::Rule if n_broken > 0 => (Class::Alert, Some('!')),
            ColorBy::Change(left) if places.iter().any(is_evicted) || is_any(left) => {
                (Class::Alert, Some('-'))
            }
            ColorBy::Change(_) if pods().any(|at| !self.pods.at(at).was_running) => {
                (Class::Kind(2), Some('+'))
            }
            ColorBy::Leave(leave) if is_any(leave) => (Class::Alert, Some('-')),
            ColorBy::Rule | ColorBy::Change(_) | ColorBy::Leave(_) => (Class::Kind(5), None),
        };
        let title = match places {
            [one] => one.text(if self.has_items { MAX_BROKEN } else { MAX_BROKEN_OF_MANY }),
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
        let items = if self.has_items { self.items(pods(), usize::MAX) } else { Vec::new() };
        let name = first.node.metadata.name.clone();
        let link = (self.has_links && places.len() == 1).then(|| links::node(&name));
        Cell { name, title, level, class, mark, items, link }
    }

    fn most_frequent(&self, pods: impl Iterator<Item = usize>) -> Option<(Class, char)> {
        let mut counts: Vec<((Class, char), usize)> = Vec::with_capacity(N_KINDS);
        for key in pods.map(|at| self.keys.of(self.pods.table, at)) {
            match counts.iter_mut().find(|(other, _)| *other == key) {
                Some((_, n)) => *n += 1,
                None => counts.push((key, 1)),
            }
        }
        let most = counts.into_iter().max_by_key(|((_, mark), n)| (*n, Reverse(*mark)));
        most.map(|(key, _)| key)
    }

    /// At most this many of the pods at these positions.
    fn items(&self, positions: impl Iterator<Item = usize>, most: usize) -> Vec<Item> {
        let pods = self.pods.sorted(positions, most).into_iter();
        pods.map(|(at, pod)| self.item(at, pod)).collect()
    }

    fn item(&self, position: usize, pod: &SimulatedPod) -> Item {
        let (class, mark) = self.keys.of(self.pods.table, position);
        let title = match (&pod.workload, pod.node()) {
            (workload, None) => {
                let workload = workload.as_ref().map(|w| format!(" of {w}")).unwrap_or_default();
                format!("{}{workload}: {}", pod.pod.key(), pod.outcome.message())
            }
            (Some(workload), _) => format!("{} of {workload}", pod.pod.key()),
            (None, _) => pod.pod.key(),
        };
        let metadata = &pod.pod.metadata;
        let link = self.has_links.then(|| links::pod(&metadata.namespace, &metadata.name));
        Item { title, class, mark, link }
    }
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
