//! What of a topology is drawn, and how.

use std::collections::{BTreeSet, HashMap, HashSet};

use berth_picture::cells::Relation;
use berth_picture::{Class, MAX_HEAT};
use berth_simulate::SimulatedPod;
use jiff::Timestamp;

use super::keys::KeyBy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorBy<'a> {
    /// How much of the scarcest resource of the node is requested.
    Utilization,
    /// The workload with most pods there.
    Workload,
    /// The namespace with most pods there.
    Namespace,
    /// The pod group with most pods there.
    Group,
    /// The priority of most pods there.
    Priority,
    /// How old most pods there are at this time.
    Age(Timestamp),
    /// Whether required rules of its pods do not hold.
    Rule,
    /// Whether the simulation placed pods there or evicted some, or pods left the node before: one of these.
    Change(&'a BTreeSet<String>),
    /// Whether pods will leave the node: one of these.
    Leave(&'a BTreeSet<String>),
}

impl ColorBy<'_> {
    /// What pods of one color have in common.
    pub(super) fn key(self) -> KeyBy {
        match self {
            ColorBy::Namespace => KeyBy::Namespace,
            ColorBy::Group => KeyBy::Group,
            ColorBy::Priority => KeyBy::Priority,
            ColorBy::Age(now) => KeyBy::Age(now),
            _ => KeyBy::Workload,
        }
    }

    /// Whether the color of a node is that of most of its pods.
    pub(super) fn is_of_pods(self) -> bool {
        !matches!(self, ColorBy::Utilization | ColorBy::Rule | ColorBy::Change(_) | ColorBy::Leave(_))
    }
}

/// What a cell stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Zone,
    Rack,
    Node,
}

/// A pod that would nearly fit on a node.
pub(crate) struct Nearly {
    pub(crate) position: usize,
    pub(crate) why: String,
}

/// The address of a zone, or of a rack in it.
type PlaceLink<'a> = dyn Fn(&str, Option<&str>) -> String + 'a;

/// What of the topology is drawn, and how.
pub(crate) struct View<'a> {
    pub(crate) color_by: ColorBy<'a>,
    pub(crate) level: Level,
    /// Whether nodes and pods have links; to what else, if there is more to see of it: the address of a zone or rack, and that of a
    /// node.
    pub(crate) has_links: bool,
    pub(crate) place_link: Option<&'a PlaceLink<'a>>,
    pub(crate) node_link: Option<&'a dyn Fn(&str) -> String>,
    /// Only the nodes with this value of the zone or rack label.
    pub(crate) zone: Option<&'a str>,
    pub(crate) rack: Option<&'a str>,
    /// Only the nodes that changes concern.
    pub(crate) changed: Option<&'a BTreeSet<String>>,
    /// Whether a pod is drawn and counted.
    pub(crate) shows: &'a dyn Fn(&SimulatedPod) -> bool,
    pub(crate) is_filtered: bool,
    /// The node, and the pod, that the page is about.
    pub(crate) node: Option<&'a str>,
    pub(crate) relation: &'a dyn Fn(usize) -> Relation,
    /// Namespace and name of pods that will leave their nodes.
    pub(crate) leaving: Option<&'a HashSet<(&'a str, &'a str)>>,
    /// Pending pods by the node where they would nearly fit.
    pub(crate) nearly: HashMap<String, Vec<Nearly>>,
    pub(crate) has_pending: bool,
}

impl<'a> View<'a> {
    pub(crate) fn new(color_by: ColorBy<'a>) -> View<'a> {
        View {
            color_by,
            level: Level::Node,
            has_links: false,
            place_link: None,
            node_link: None,
            zone: None,
            rack: None,
            changed: None,
            shows: &|_| true,
            is_filtered: false,
            node: None,
            relation: &|_| Relation::None,
            leaving: None,
            nearly: HashMap::new(),
            has_pending: true,
        }
    }
}

/// The step of a level in percent; above 90 it needs attention.
pub(super) fn heat(level: usize) -> Class {
    match level {
        0 => Class::Heat(0),
        1..=90 => Class::Heat((level * MAX_HEAT).div_ceil(90)),
        _ => Class::Alert,
    }
}

/// The domain that all names end with, such as `.eu-west-1.compute.internal`: it tells nothing about one of them.
pub(crate) fn common_suffix<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut common: Option<&str> = None;
    for name in names {
        let domain = name.find('.').map_or("", |dot| &name[dot..]);
        let mut shared = common.unwrap_or(domain);
        while !domain.ends_with(shared) {
            shared = shared[1..].find('.').map_or("", |dot| &shared[dot + 1..]);
        }
        common = Some(shared);
    }
    common.unwrap_or_default().to_owned()
}
