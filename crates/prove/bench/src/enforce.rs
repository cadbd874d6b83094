//! Violation tracking: how long it takes to find the rules required during execution that a change violates.
//!
//! Nodes are in ten zones; each has pods of ten kinds, of which seven have rules required during execution: a
//! label of the node, a cache in the zone, no other pod of their kind on the node. Then the labels of many nodes change at
//! once, for every other one the zone too, and change back.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::object::{Node, Pod};
use berth_api::syntax::labels::HOSTNAME;
use berth_engine::{
    Cluster, Remedies, Remedy, RemedyOptions, Settings, Target, Violation, ViolationChanges, ViolationKey,
};
use serde::Serialize;
use serde_json::json;

use crate::count;
use crate::measure::{Figures, Samples, peak_rss_bytes, reset_peak_rss, timed};
use crate::scale::nodes;

/// The label that pods' nodes must have.
const POOL: &str = "example.com/pool";
/// Number of different caches. Each zone has all of them.
const N_CACHES: usize = 20;
/// Of ten kinds of pods, the first seven have rules required during execution.
const N_EXECUTING_KINDS: usize = 7;

/// The size of a benchmark of violation tracking.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Enforce {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = count(1..=999_999))]
    pub nodes: usize,
    /// Number of pods
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = count(1..=9_999_999))]
    pub pods: usize,
    /// Number of nodes whose labels change in each round
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = count(1..=999_999))]
    pub changed: usize,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = count(1..=65_535))]
    pub rounds: usize,
    /// Seed for node sizes and taints
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnforceReport {
    /// Nodes.
    pub nodes: usize,
    /// Pods.
    pub pods: usize,
    /// Pods with rules required during execution.
    pub executing_pods: usize,
    /// Nodes whose labels change at once.
    pub changed: usize,
    /// Rules that each change violates.
    pub broken: usize,
    /// From the first node's change until all violations are known, with their verdicts.
    pub judged: Figures,
    /// From the first node's change back until no violation is left.
    pub mended: Figures,
    /// Duration of a check of every rule of every pod, in milliseconds.
    pub full_pass_ms: f64,
    /// Duration of the selection of victims and their targets for all violations, in milliseconds.
    pub remedies_ms: f64,
    /// Victims with a target node.
    pub evictions: usize,
    /// Victims without a target node.
    pub without_target: usize,
    /// Duration of the start of the tracker, in milliseconds.
    pub watch_ms: f64,
    /// Duration of a query when nothing has changed.
    pub idle: Figures,
    /// Deletion and creation of a pod without a tracker.
    pub churn_unwatched: Figures,
    /// The same with a tracker that is queried after every pod.
    pub churn_watched: Figures,
    /// Whether the tracker found the same violations as a full check every time.
    pub is_right: bool,
    /// Peak memory of the process.
    pub peak_rss_bytes: Option<u64>,
}

/// Runs the benchmark; `progress` is called with the number of finished rounds.
pub fn run(enforce: Enforce, progress: &mut dyn FnMut(usize)) -> EnforceReport {
    reset_peak_rss();
    let Enforce { nodes: n_nodes, pods: n_pods, changed, rounds, seed } = enforce;
    let mut cluster = Cluster::new(Settings::default());
    let before: Vec<Node> = (0..n_nodes).map(|i| labelled(seed, i, false)).collect();
    before.iter().for_each(|node| cluster.set_node(node));
    let pods: Vec<Pod> = (0..n_pods).map(|i| pod(i % n_nodes, i / n_nodes)).collect();
    pods.iter().for_each(|pod| _ = cluster.set_pod(pod));
    let executing_pods = (0..n_pods).filter(|i| kind_of(i / n_nodes) < N_EXECUTING_KINDS).count();

    let churned = pods.iter().step_by((n_pods / 1_000).max(1));
    let churn = |cluster: &mut Cluster| {
        let mut samples = Samples::default();
        for pod in churned.clone() {
            let (_, duration) = timed(|| {
                cluster.remove_pod(&pod.metadata.namespace, &pod.metadata.name);
                cluster.set_pod(pod);
                cluster.violation_changes()
            });
            samples.add(duration);
        }
        samples.figures()
    };
    // Warm-up: the first round touches new memory.
    churn(&mut cluster);
    let churn_unwatched = churn(&mut cluster);
    let (changes, watching) = timed(|| {
        cluster.watch_violations();
        cluster.violation_changes()
    });
    let mut tracked = BTreeSet::new();
    apply(changes, &mut tracked);
    let churn_watched = churn(&mut cluster);

    let mut idle = Samples::default();
    (0..1_000).for_each(|_| idle.add(timed(|| cluster.violation_changes()).1));

    // Spread over the cluster, so that nodes of all zones change.
    let step = (n_nodes / changed.max(1)).max(1);
    let concerned: Vec<usize> = (0..n_nodes).step_by(step).take(changed).collect();
    let after: Vec<Node> = concerned.iter().map(|i| labelled(seed, *i, true)).collect();
    let (mut judged, mut mended, mut full) = (Samples::default(), Samples::default(), Duration::ZERO);
    let (mut broken, mut is_right) = (0, true);
    let (mut remedies, mut seeking) = (Remedies::default(), Duration::ZERO);
    for round in 0..rounds {
        let (changes, duration) = timed(|| {
            after.iter().for_each(|node| cluster.set_node(node));
            cluster.violation_changes()
        });
        judged.add(duration);
        let (all, duration) = timed(|| cluster.violations());
        full = duration;
        apply(changes, &mut tracked);
        is_right &= all.iter().map(Violation::key).eq(tracked.iter().cloned());
        broken = all.len();
        if round == 0 {
            let keys: Vec<_> = all.iter().map(Violation::key).collect();
            (remedies, seeking) = timed(|| cluster.remedy(&keys, &RemedyOptions::default()));
            is_right &= cluster.violation_changes().is_empty();
        }
        let (changes, duration) = timed(|| {
            concerned.iter().for_each(|i| cluster.set_node(&before[*i]));
            cluster.violation_changes()
        });
        mended.add(duration);
        apply(changes, &mut tracked);
        is_right &= cluster.violations().iter().map(Violation::key).eq(tracked.iter().cloned());
        progress(round + 1);
    }
    let nowhere = |remedy: &&Remedy| matches!(remedy.target, Target::Nowhere(_));
    let without_target = remedies.remedies.iter().filter(nowhere).count();
    EnforceReport {
        nodes: n_nodes,
        pods: n_pods,
        executing_pods,
        changed: concerned.len(),
        broken,
        judged: judged.figures(),
        mended: mended.figures(),
        full_pass_ms: full.as_secs_f64() * 1e3,
        remedies_ms: seeking.as_secs_f64() * 1e3,
        evictions: remedies.remedies.len() - without_target,
        without_target,
        watch_ms: watching.as_secs_f64() * 1e3,
        idle: idle.figures(),
        churn_unwatched,
        churn_watched,
        is_right,
        peak_rss_bytes: peak_rss_bytes(),
    }
}

fn apply(changes: ViolationChanges, tracked: &mut BTreeSet<ViolationKey>) {
    changes.ended.iter().for_each(|key| _ = tracked.remove(key));
    tracked.extend(changes.began.iter().map(Violation::key));
}

/// A node with its label, or without it and, for every other one, in another zone.
fn labelled(seed: u64, i: usize, changed: bool) -> Node {
    let mut node = nodes::node(seed, i);
    let labels = &mut node.metadata.labels;
    labels.insert(POOL.to_owned(), if changed { "drained" } else { "general" }.to_owned());
    if changed && i.is_multiple_of(4) {
        labels.insert(nodes::ZONE.to_owned(), "zone-moved".to_owned());
    }
    node
}

fn kind_of(round: usize) -> usize {
    round % 10
}

/// The pod of one round on a node. Kinds 0 to 1 need the pool, 2 to 4 a cache in the zone, 5 and 6 to be the only one of
/// their kind on the node; 7 is a cache, 8 and 9 have no rules.
fn pod(node: usize, round: usize) -> Pod {
    let executing = "requiredDuringSchedulingRequiredDuringExecution";
    let kind = kind_of(round);
    let app = match kind {
        5 | 6 => format!("shard-{round}"),
        7 => format!("cache-{}", node % N_CACHES),
        _ => format!("app-{kind}"),
    };
    let affinity = match kind {
        0 | 1 => {
            let terms =
                json!([{"matchExpressions": [{"key": POOL, "operator": "In", "values": ["general"]}]}]);
            json!({"nodeAffinity": {executing: {"nodeSelectorTerms": terms}}})
        }
        2..=4 => {
            // On the next node: a node that changes its zone loses it.
            let cache = format!("cache-{}", (node + 1) % N_CACHES);
            let term = json!({"topologyKey": nodes::ZONE, "labelSelector": {"matchLabels": {"app": cache}}});
            json!({"podAffinity": {executing: [term]}})
        }
        5 | 6 => {
            let term = json!({"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}});
            json!({"podAntiAffinity": {executing: [term]}})
        }
        _ => json!({}),
    };
    let object = json!({
        "metadata": {"namespace": "default", "name": format!("p-{round}-{node}"), "labels": {"app": app}},
        "spec": {"nodeName": nodes::node_name(node), "affinity": affinity,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]},
    });
    serde_json::from_value(object).unwrap_or_default()
}
