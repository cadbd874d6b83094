//! Pod groups: gangs whose members share a zone and avoid each other's nodes, decided one after the other.
//!
//! A group that does not fit has no member placed.

use std::collections::BTreeSet;

use berth_api::object::Pod;
use berth_api::object::group::TopologyLevel;
use berth_api::syntax::labels::HOSTNAME;
use berth_engine::{Cluster, Group, GroupLevel, GroupOutcome, Outcome, PreparedPod, Settings};
use serde::Serialize;
use serde_json::json;

use crate::check::{self, Findings, Placed};
use crate::count;
use crate::measure::{Checksum, Figures, Samples, peak_rss_bytes, reset_peak_rss, timed};
use crate::scale::nodes::{N_ZONES, ZONE, node_index, node_name, object, plain_node};

/// The CPUs of a node; a member requests one.
const CPUS_PER_NODE: usize = 4;

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
    /// Groups with some members placed, or in several zones: there must be none.
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
    let Groups { nodes: n_nodes, groups: n_groups, members: n_members } = groups;
    let mut cluster = Cluster::new(Settings::default());
    (0..n_nodes).for_each(|i| cluster.set_node(&plain_node(i, CPUS_PER_NODE)));
    let templates: Vec<Pod> = (0..n_groups).map(|group| pod(group, 0)).collect();
    let (mut samples, mut checksum) = (Samples::default(), Checksum::default());
    let zone = TopologyLevel::required(ZONE);
    let mut placed = Vec::new();
    let (mut n_placed, mut n_broken) = (0, 0);
    for group in 0..n_groups {
        let members: Vec<PreparedPod> = (0..n_members).map(|i| cluster.prepare(&pod(group, i))).collect();
        let gang =
            Group { members: &members, min: n_members, levels: &[GroupLevel { rule: &zone, value: None }] };
        let (outcome, duration) = timed(|| cluster.place_group(&gang));
        samples.add(duration);
        let nodes: Vec<usize> = match &outcome {
            GroupOutcome::Placed { members, .. } => {
                members.iter().filter_map(Outcome::node).filter_map(node_index).collect()
            }
            GroupOutcome::Unplaced(_) => Vec::new(),
        };
        let zones: BTreeSet<usize> = nodes.iter().map(|node| node % N_ZONES).collect();
        n_placed += usize::from(nodes.len() == n_members);
        n_broken += usize::from(!nodes.is_empty() && (nodes.len() < n_members || zones.len() > 1));
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
        check: check::check((0..n_nodes).map(|i| plain_node(i, CPUS_PER_NODE)), &[], &templates, &placed),
        checksum: checksum.hex(),
        peak_rss_bytes,
    }
}

fn pod(group: usize, i: usize) -> Pod {
    let (app, name) = (format!("gang-{group}"), format!("gang-{group}-{i}"));
    let term = json!([{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}]);
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
    object(json!({
        "metadata": {"namespace": "default", "name": name, "uid": name, "labels": {"app": app}},
        "spec": {
            "schedulerName": "default-scheduler",
            "affinity": affinity,
            "containers": [{"name": "main", "image": "registry.example/main:1",
                "resources": {"requests": {"cpu": "1"}}}],
        },
    }))
}
