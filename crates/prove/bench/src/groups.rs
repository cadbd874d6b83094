//! Pod groups: gangs whose members share a zone or a rack and avoid each other's nodes, decided one after the other.
//!
//! A group that does not fit has no member placed.

use std::collections::BTreeSet;

use berth_api::object::group::TopologyLevel;
use berth_api::object::{Node, Pod};
use berth_api::syntax::labels::HOSTNAME;
use berth_engine::{Cluster, Group, GroupLevel, GroupOutcome, Outcome, PreparedPod, Settings};
use serde::Serialize;
use serde_json::json;

use crate::check::{self, Findings, Placed};
use crate::count;
use crate::measure::{Checksum, Figures, Samples, peak_rss_bytes, reset_peak_rss, timed};
use crate::scale::nodes::{N_ZONES, ZONE, node_index, node_name, object, plain_node};

/// The CPUs of a node that are free at first, on average; a member requests one.
const CPUS_PER_NODE: usize = 4;
/// The node label with the rack.
const RACK: &str = "example.com/rack";

/// The size of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Groups {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = count(1..=999_999))]
    pub nodes: usize,
    /// Number of groups
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = count(1..=99_999))]
    pub groups: usize,
    /// Number of members of each group
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = count(1..=9_999))]
    pub members: usize,
    /// Nodes of a rack: the members of a group share one. They share a zone without it
    #[arg(long, value_name = "N", value_parser = count(1..=99_999))]
    pub racks_of: Option<usize>,
    /// Members also share a zone, and their racks are in it
    #[arg(long, requires = "racks_of")]
    pub zones: bool,
    /// Percentage of the CPUs that other pods use at first. With more than 0, they leave 3 to 5 CPUs of each node
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = count(0..=99))]
    pub full: usize,
    /// Members may share a node
    #[arg(long)]
    pub packed: bool,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupsReport {
    /// Nodes.
    pub nodes: usize,
    /// Groups.
    pub groups: usize,
    /// Members of each group.
    pub members: usize,
    /// Groups with all members placed.
    pub placed: usize,
    /// Groups with some members placed, or in several domains: there must be none.
    pub broken: usize,
    /// Decisions of whole groups.
    pub figures: Figures,
    /// What the independent check found.
    pub check: Findings,
    /// Of all placements.
    pub checksum: String,
    /// Peak memory of the process.
    pub peak_rss_bytes: Option<u64>,
}

/// Runs the benchmark; `progress` is called with the number of decided groups.
pub fn run(groups: Groups, progress: &mut dyn FnMut(usize)) -> GroupsReport {
    reset_peak_rss();
    let Groups { nodes: n_nodes, groups: n_groups, members: n_members, .. } = groups;
    let mut cluster = Cluster::new(Settings::default());
    (0..n_nodes).for_each(|i| cluster.set_node(&groups.node(i)));
    let pod = |group, i| groups.pod(group, i);
    let mut templates: Vec<Pod> = (0..n_groups).map(|group| pod(group, 0)).collect();
    let mut placed = Vec::new();
    for i in (0..n_nodes).filter(|_| groups.full > 0) {
        let mut filler = groups.filler(i);
        templates.extend((i < 3).then(|| filler.clone()));
        filler.spec.node_name = node_name(i);
        cluster.set_pod(&filler);
        placed.push(Placed { template: (n_groups + i % 3) as u32, node: i as u32 });
    }
    let (mut samples, mut checksum) = (Samples::default(), Checksum::default());
    let keys: &[&str] = match (groups.racks_of, groups.zones) {
        (None, _) => &[ZONE],
        (Some(_), false) => &[RACK],
        (Some(_), true) => &[ZONE, RACK],
    };
    let rules: Vec<TopologyLevel> = keys.iter().map(|key| TopologyLevel::required(key)).collect();
    let levels: Vec<GroupLevel<'_>> = rules.iter().map(|rule| GroupLevel { rule, value: None }).collect();
    let (mut n_placed, mut n_broken) = (0, 0);
    for group in 0..n_groups {
        let members: Vec<PreparedPod> = (0..n_members).map(|i| cluster.prepare(&pod(group, i))).collect();
        let gang = Group { members: &members, min: n_members, levels: &levels, composite: None };
        let (outcome, duration) = timed(|| cluster.place_group(&gang));
        samples.add(duration);
        let nodes: Vec<usize> = match &outcome {
            GroupOutcome::Placed { members, .. } => {
                members.iter().filter_map(Outcome::node).filter_map(node_index).collect()
            }
            GroupOutcome::Unplaced(_) => Vec::new(),
        };
        let domains: BTreeSet<usize> = nodes.iter().map(|node| groups.domain(*node)).collect();
        n_placed += usize::from(nodes.len() == n_members);
        n_broken += usize::from(!nodes.is_empty() && (nodes.len() < n_members || domains.len() > 1));
        for (i, node) in nodes.iter().enumerate() {
            checksum.add("default", members[i].name(), &node_name(*node));
            placed.push(Placed { template: group as u32, node: *node as u32 });
        }
        progress(group + 1);
    }
    let peak_rss_bytes = peak_rss_bytes();
    drop(cluster);
    GroupsReport {
        nodes: n_nodes,
        groups: n_groups,
        members: n_members,
        placed: n_placed,
        broken: n_broken,
        figures: samples.figures(),
        check: check::check((0..n_nodes).map(|i| groups.node(i)), &[], &templates, &placed),
        checksum: checksum.hex(),
        peak_rss_bytes,
    }
}

impl Groups {
    /// The number of the domain that the members of a group share.
    fn domain(&self, node: usize) -> usize {
        match self.racks_of {
            Some(n) if self.zones => node % N_ZONES + node / N_ZONES / n * N_ZONES,
            Some(n) => node / n,
            None => node % N_ZONES,
        }
    }

    fn node(&self, i: usize) -> Node {
        let mut node = plain_node(i, self.cpus());
        if self.racks_of.is_some() {
            node.metadata.labels.insert(RACK.to_owned(), format!("rack-{}", self.domain(i)));
        }
        node
    }

    fn cpus(&self) -> usize {
        CPUS_PER_NODE * 100 / (100 - self.full)
    }

    /// What uses the CPUs of a node that are not free at first.
    fn filler(&self, i: usize) -> Pod {
        let free = CPUS_PER_NODE - 1 + i % 3;
        with_cpus(&format!("filler-{i}"), "filler", self.cpus() - free)
    }

    fn pod(&self, group: usize, i: usize) -> Pod {
        let app = format!("gang-{group}");
        let mut pod = with_cpus(&format!("{app}-{i}"), &app, 1);
        if !self.packed {
            let term = json!([{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}]);
            let affinity =
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
            pod.spec.affinity = Some(object(affinity));
        }
        pod
    }
}

fn with_cpus(name: &str, app: &str, n: usize) -> Pod {
    object(json!({
        "metadata": {"namespace": "default", "name": name, "uid": name, "labels": {"app": app}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "image": "registry.example/main:1",
                "resources": {"requests": {"cpu": n.to_string()}}}],
        },
    }))
}
