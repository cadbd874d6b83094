//! The nodes in their zones and racks, with their pods, what these request, broken rules, and the pending pods.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use berth_api::simulated_nodes::RACK;
use berth_api::syntax::format::counted;
use berth_api::syntax::labels::ZONE;
use berth_engine::Violation;
use berth_picture::cells::{Cell, CellMap, Domain, Item, Outside, Part, Presence};
use berth_picture::{Class, Key};
use berth_simulate::{SimulatedPod, Simulation};

use super::keys::Keys;
use super::view::{ColorBy, Level, Nearly, View, common_suffix, heat};
use crate::links;
use crate::overview::{Overview, Pods};
use crate::places::{Place, places};
use crate::pod_table::PodTable;

/// Most cells; of more nodes, several share a cell.
const MAX_CELLS: usize = 5000;
const MAX_PENDING: usize = 500;
/// Broken rules that the title of a cell names; of many cells, each has a short title.
const MAX_BROKEN: usize = 12;
const MAX_BROKEN_OF_MANY: usize = 1;
/// Most nodes of a map in which each pod is drawn, and most pods.
const MAX_NODES_WITH_PODS: usize = 300;
const MAX_DRAWN_PODS: usize = 6000;

/// The topology. `broken` are the violated rules of running pods.
pub fn topology(simulation: &Simulation, broken: &[Violation], color_by: ColorBy<'_>) -> String {
    Overview::once(simulation, broken, |overview| map(overview, &View::new(color_by)).svg())
}

/// The topology, as the console shows it.
pub(crate) fn map(overview: Overview<'_>, view: &View<'_>) -> CellMap {
    let Pods { simulation, table } = overview.pods;
    let by_node = table.by_node();
    let mut places = places(overview, &by_node);
    let label = |place: &Place<'_>, key: &str| {
        place.node.metadata.labels.get(key).map_or("", String::as_str).to_owned()
    };
    let is_in = |place: &Place<'_>, key: &str, wanted: Option<&str>| {
        wanted.is_none_or(|value| label(place, key) == value)
    };
    places.retain(|place| is_in(place, ZONE, view.zone) && is_in(place, RACK, view.rack));
    let n_nodes = places.len();
    places.retain(|place| view.changed.is_none_or(|changed| changed.contains(&place.node.metadata.name)));
    let n_pods_here: usize = places.iter().map(|place| place.pods.len()).sum();
    let has_items =
        view.level == Level::Node && places.len() <= MAX_NODES_WITH_PODS && n_pods_here <= MAX_DRAWN_PODS;
    let color_by = view.color_by;
    let changed = matches!(color_by, ColorBy::Change(_)).then(|| simulation.pods());
    let evicted = changed.into_iter().flatten().filter(|pod| pod.preempted_by.is_some());
    let drawing = Drawing {
        pods: overview.pods,
        view,
        // Single pods are drawn on few nodes.
        keys: if has_items || color_by.is_of_pods() {
            Keys::new(overview.pods, color_by.key())
        } else {
            Keys::default()
        },
        evicted_from: evicted.map(|pod| pod.pod.spec.node_name.as_str()).collect(),
        has_items,
        ranks: table.ranks(),
        suffix: common_suffix(places.iter().map(|place| place.node.metadata.name.as_str())),
    };
    let mut zones: BTreeMap<String, BTreeMap<String, Vec<&Place<'_>>>> = BTreeMap::new();
    for place in &places {
        zones.entry(label(place, ZONE)).or_default().entry(label(place, RACK)).or_default().push(place);
    }
    let n_zones = zones.len();
    let n_per_cell = if view.level == Level::Node { places.len().div_ceil(MAX_CELLS).max(1) } else { 1 };
    let domains = drawing.domains(&zones, n_per_cell);
    let n_pending = table.pending().count();
    let outside = (n_pending > 0 && view.has_pending).then(|| Outside {
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
    if n_nodes > places.len() {
        notes.push(format!("{} without a change are left out.", counted(n_nodes - places.len(), "node")));
    }
    let nodes = counted(n_nodes, "node");
    CellMap {
        width: 0,
        title: format!("{nodes}, {}, {}", counted(table.n_pods(), "pod"), pending_text(simulation, table)),
        description: format!(
            "{nodes} in {}; the filled part of a cell is the requested part of the scarcest resource.",
            counted(n_zones, "zone")
        ),
        legend: drawing.legend(),
        domains,
        outside,
        notes,
    }
}

/// `2 pending, 1 not running on the named node or not created`.
fn pending_text(simulation: &Simulation, table: &PodTable) -> String {
    let (n_unadmitted, n_pending) = table.pending().fold((0, 0), |(unadmitted, pending), position| {
        match simulation.pods()[position].unadmitted {
            Some(_) => (unadmitted + 1, pending),
            None => (unadmitted, pending + 1),
        }
    });
    match n_unadmitted {
        0 => format!("{n_pending} pending"),
        n => format!("{n_pending} pending, {n} not running on the named node or not created"),
    }
}

struct Drawing<'a> {
    pods: Pods<'a>,
    view: &'a View<'a>,
    keys: Keys,
    /// The nodes of pods that were preempted, where changes are shown.
    evicted_from: HashSet<&'a str>,
    has_items: bool,
    /// The ranks of workloads by name.
    ranks: Vec<usize>,
    /// What all names of nodes end with.
    suffix: String,
}

impl Drawing<'_> {
    fn domains(
        &self,
        zones: &BTreeMap<String, BTreeMap<String, Vec<&Place<'_>>>>,
        n_per_cell: usize,
    ) -> Vec<Domain> {
        let view = self.view;
        let zone_name = |zone: &str| if zone.is_empty() { "no zone".to_owned() } else { zone.to_owned() };
        let link = |zone: &str, rack: Option<&str>| {
            view.place_link.filter(|_| !zone.is_empty()).map(|link| link(zone, rack))
        };
        if view.level == Level::Zone {
            let cells = zones.iter().map(|(zone, racks)| {
                let places: Vec<_> = racks.values().flatten().copied().collect();
                self.group(zone_name(zone), &places, link(zone, None))
            });
            let parts = vec![Part { name: String::new(), cells: cells.collect(), link: None }];
            return vec![Domain { name: counted(zones.len(), "zone"), parts, ..Domain::default() }];
        }
        let domain = |(zone, racks): (&String, &BTreeMap<String, Vec<&Place<'_>>>)| {
            let of_zone = || racks.values().flatten().copied();
            let (n_nodes, n_pods) = (of_zone().count(), of_zone().map(|place| place.pods.len()).sum());
            let rack_name = |rack: &str| if rack.is_empty() { "no rack".to_owned() } else { rack.to_owned() };
            let parts = match view.level {
                Level::Rack => {
                    let cells = racks.iter().map(|(rack, places)| {
                        let to = link(zone, Some(rack).filter(|rack| !rack.is_empty()).map(String::as_str));
                        self.group(rack_name(rack), places, to)
                    });
                    vec![Part { name: String::new(), cells: cells.collect(), link: None }]
                }
                Level::Node | Level::Zone => {
                    let part = |(rack, places): (&String, &Vec<&Place<'_>>)| Part {
                        name: rack.clone(),
                        cells: places.chunks(n_per_cell).map(|places| self.cell(places)).collect(),
                        link: link(zone, Some(rack)).filter(|_| !rack.is_empty()),
                    };
                    racks.iter().map(part).collect()
                }
            };
            let note = format!("{}, {}", counted(n_nodes, "node"), counted(n_pods, "pod"));
            Domain { name: zone_name(zone), note, link: link(zone, None), parts }
        };
        zones.iter().map(domain).collect()
    }

    /// A cell for the nodes of a rack or zone, a point each.
    fn group(&self, name: String, places: &[&Place<'_>], link: Option<String>) -> Cell {
        let n_pods: usize = places.iter().map(|place| place.pods.len()).sum();
        let n_broken: usize = places.iter().map(|place| place.broken.len()).sum();
        let level = places.iter().map(|place| place.utilization()).sum::<usize>() / places.len().max(1);
        let note = format!("{}, {level} %", counted(places.len(), "node"));
        Cell {
            title: format!(
                "{name}: {note} requested on average, {}, {}",
                counted(n_pods, "pod"),
                counted(n_broken, "broken rule")
            ),
            name,
            note,
            level,
            class: heat(level),
            mark: (n_broken > 0).then_some('!'),
            points: places.iter().map(|place| self.look(&[place]).0).collect(),
            link,
            ..Cell::default()
        }
    }

    /// The class and the mark of nodes that share a cell.
    fn look(&self, places: &[&Place<'_>]) -> (Class, Option<char>) {
        let pods = || places.iter().flat_map(|place| place.pods).copied();
        let is_any = |nodes: &BTreeSet<String>| places.iter().any(|p| nodes.contains(&p.node.metadata.name));
        let is_evicted = |place: &&Place<'_>| self.evicted_from.contains(place.node.metadata.name.as_str());
        match self.view.color_by {
            ColorBy::Utilization => {
                let level = places.iter().map(|place| place.utilization()).sum::<usize>() / places.len();
                (heat(level), None)
            }
            ColorBy::Rule if places.iter().any(|place| !place.broken.is_empty()) => (Class::Alert, Some('!')),
            ColorBy::Change(left) if places.iter().any(is_evicted) || is_any(left) => {
                (Class::Alert, Some('-'))
            }
            ColorBy::Change(_) if pods().any(|at| !self.pods.at(at).was_running) => {
                (Class::Kind(2), Some('+'))
            }
            ColorBy::Leave(leave) if is_any(leave) => (Class::Alert, Some('-')),
            ColorBy::Rule | ColorBy::Change(_) | ColorBy::Leave(_) => (Class::Other, None),
            _ => self.most_frequent(pods()).map_or((Class::Faint, None), |(c, m)| (c, Some(m))),
        }
    }

    fn cell(&self, places: &[&Place<'_>]) -> Cell {
        let first = places[0];
        let pods = || places.iter().flat_map(|place| place.pods).copied();
        let n_broken: usize = places.iter().map(|place| place.broken.len()).sum();
        let level = places.iter().map(|place| place.utilization()).sum::<usize>() / places.len();
        let (mut class, mark) = self.look(places);
        // The pods have the colors; the bar of their node says how full it is.
        if self.has_items && self.view.color_by.is_of_pods() {
            class = heat(level);
        }
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
        let mark = if n_broken > 0 {
            Some('!')
        } else {
            mark.filter(|_| !self.has_items || !self.view.color_by.is_of_pods())
        };
        let name = first.node.metadata.name.clone();
        let mut items = if self.has_items { self.items(pods(), usize::MAX) } else { Vec::new() };
        if self.has_items {
            let nearly = self.view.nearly.get(name.as_str()).into_iter().flatten();
            items.extend(nearly.map(|Nearly { position, why }| {
                let item = self.item(*position, self.pods.at(*position));
                let title = format!("{} would nearly fit here: {why}", self.pods.at(*position).pod.key());
                Item { presence: Presence::Nearly, title, ..item }
            }));
        }
        let is_single = self.view.has_links && places.len() == 1;
        let node_link = self.view.node_link.unwrap_or(&links::node);
        Cell {
            title,
            level,
            class,
            mark,
            note: match first.scarcest() {
                _ if first.node.spec.unschedulable => "cordoned".to_owned(),
                Some((resource, percent)) => format!("{percent} % {}", short_resource(resource)),
                None => String::new(),
            },
            items,
            points: Vec::new(),
            link: is_single.then(|| node_link(&name)),
            is_selected: self.view.node == Some(name.as_str()),
            name: name.strip_suffix(self.suffix.as_str()).unwrap_or(&name).to_owned(),
        }
    }

    fn most_frequent(&self, pods: impl Iterator<Item = usize>) -> Option<(Class, char)> {
        let mut counts: Vec<((Class, char), usize)> = Vec::new();
        let shown = pods.filter(|at| !self.view.is_filtered || (self.view.shows)(self.pods.at(*at)));
        for key in shown.map(|at| self.keys.of(self.pods.table, at)) {
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
        let shown = positions.filter(|at| !self.view.is_filtered || (self.view.shows)(self.pods.at(*at)));
        let pods = self.pods.sorted(shown, most).into_iter();
        pods.map(|(at, pod)| self.item(at, pod)).collect()
    }

    fn item(&self, position: usize, pod: &SimulatedPod) -> Item {
        let (class, mark) = self.keys.of(self.pods.table, position);
        let metadata = &pod.pod.metadata;
        let leaves =
            self.view.leaving.is_some_and(|names| names.contains(&(&metadata.namespace, &metadata.name)));
        let is_new =
            matches!(self.view.color_by, ColorBy::Change(_)) && !pod.was_running && pod.node().is_some();
        let (presence, what) = match (leaves, is_new) {
            (true, _) => (Presence::Leaves, " leaves this node: "),
            (_, true) => (Presence::Arrives, " arrives here: "),
            _ => (Presence::Is, ""),
        };
        let key = if what.is_empty() { pod.pod.key() } else { format!("{}{what}", pod.pod.key()) };
        let title = match (&pod.workload, pod.node()) {
            (workload, None) => {
                let workload = workload.as_ref().map(|w| format!(" of {w}")).unwrap_or_default();
                format!("{key}{workload}: {}", pod.outcome.message())
            }
            (Some(workload), _) if what.is_empty() => format!("{key} of {workload}"),
            (Some(workload), _) => format!("{key}pod of {workload}"),
            (None, _) => key,
        };
        Item {
            title,
            class,
            mark,
            link: self.view.has_links.then(|| links::pod(&metadata.namespace, &metadata.name)),
            presence,
            group: self.pods.table.workload(position).map(|number| self.ranks[number]),
            relation: (self.view.relation)(position),
        }
    }

    fn legend(&self) -> Vec<Key> {
        let key = |class, mark, text: &str| Key { class, mark, text: text.to_owned() };
        let steps = || {
            let step =
                |level: usize, text: &str| Key { class: heat(level), mark: None, text: text.to_owned() };
            vec![
                step(18, "up to 18 %"),
                step(54, "up to 54 %"),
                step(90, "up to 90 %"),
                step(91, "more of the scarcest resource"),
            ]
        };
        let mut legend = match self.view.color_by {
            ColorBy::Utilization => steps(),
            ColorBy::Rule => vec![
                key(Class::Alert, Some('!'), "node with broken rules"),
                key(Class::Other, None, "all rules hold"),
            ],
            ColorBy::Change(_) => vec![
                key(Class::Kind(2), Some('+'), "node with new pods"),
                key(Class::Alert, Some('-'), "node that pods left"),
                key(Class::Other, None, "no change"),
            ],
            ColorBy::Leave(_) => {
                vec![
                    key(Class::Alert, Some('-'), "node that pods leave"),
                    key(Class::Other, None, "no change"),
                ]
            }
            _ => Vec::new(),
        };
        legend.extend(self.keys.legend());
        if self.view.color_by != ColorBy::Rule {
            legend.push(key(Class::Faint, Some('!'), "a rule is broken there"));
        }
        legend
    }
}

/// `gpu` of `nvidia.com/gpu`.
fn short_resource(resource: &str) -> &str {
    resource.rsplit('/').next().unwrap_or(resource)
}
