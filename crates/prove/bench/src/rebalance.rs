//! Plans of moves: workloads with displaced pods, room for one pending pod, and nodes to be emptied.

use std::collections::BTreeMap;
use std::fmt;

use berth_api::object::{Node, Pod};
use berth_api::rules::KnownNamespaces;
use berth_api::syntax::labels::HOSTNAME;
use berth_engine::{Cluster, Settings};
use berth_rebalance::{Goal, Input, Pending, Request, RunningPod, plan};
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::count;
use crate::measure::{peak_rss_bytes, reset_peak_rss, rss_bytes, timed};
use crate::scale::nodes::{ZONE, node_name, object, plain_node};

/// CPUs of a node.
const CPUS: usize = 8;

/// The size of the benchmark.
#[derive(Clone, Debug, clap::Args)]
pub struct Rebalance {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = count(10..=1_000_000))]
    pub nodes: usize,
    /// Number of running pods
    #[arg(long, value_name = "N", default_value_t = 150_000, value_parser = count(0..=9_999_999))]
    pub pods: usize,
    /// Number of workloads
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = count(1..=1_000_000))]
    pub workloads: usize,
    /// Percentages of the pods that are displaced, each a case
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "1,5,20",
          value_parser = count(0..=100))]
    pub displaced: Vec<usize>,
    /// Number of nodes of the case that empties nodes at 40 % utilisation
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count(10..=1_000_000))]
    pub consolidated: usize,
}

/// What a plan is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebalanceCase {
    /// Pods of this percentage are displaced.
    Spread(usize),
    /// A pending pod needs room.
    Room,
    /// Nodes are to be emptied.
    Consolidate,
}

impl fmt::Display for RebalanceCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RebalanceCase::Spread(percent) => write!(f, "{percent} % of the pods displaced"),
            RebalanceCase::Room => f.write_str("room for one pending pod"),
            RebalanceCase::Consolidate => f.write_str("nodes at 40 % utilisation"),
        }
    }
}

impl Serialize for RebalanceCase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A plan, measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceReport {
    /// The case.
    pub case: RebalanceCase,
    /// Nodes.
    pub nodes: usize,
    /// Running pods.
    pub pods: usize,
    /// The time for the plan, without reading the cluster.
    pub seconds: f64,
    /// By how much the peak of memory exceeds the cluster with its copy, in bytes.
    pub memory_bytes: Option<u64>,
    /// Number of moves.
    pub moves: usize,
    /// The value of the goal before the plan.
    pub before: f64,
    /// After it.
    pub after: f64,
    /// What no plan comes below.
    pub bound: f64,
    /// Number of moves of the plan for the result.
    pub again: usize,
}

/// Runs all cases; `progress` is called with the number of cases that have ended.
pub fn run(size: &Rebalance, progress: &mut dyn FnMut(usize)) -> Vec<RebalanceReport> {
    let spread = size.displaced.iter().map(|percent| RebalanceCase::Spread(*percent));
    let cases = spread.chain([RebalanceCase::Room, RebalanceCase::Consolidate]);
    let measured = cases.enumerate().map(|(i, case)| {
        let report = measure(case, size);
        progress(i + 1);
        report
    });
    measured.collect()
}

fn measure(case: RebalanceCase, size: &Rebalance) -> RebalanceReport {
    let (nodes, running, pending, goal) = cluster(case, size);
    let by_name: BTreeMap<_, _> = nodes.into_iter().map(|node| (node.metadata.name.clone(), node)).collect();
    let request = Request::new(vec![goal], Timestamp::UNIX_EPOCH);
    let namespaces = KnownNamespaces::new([]);
    let make = |running: &[Pod], pending: &[Pod]| {
        let mut cluster = Cluster::new(Settings::default());
        by_name.values().for_each(|node| cluster.set_node(node));
        running.iter().for_each(|pod| _ = cluster.set_pod(pod));
        let of = |pod| RunningPod { pod, node: &pod.spec.node_name, stays: None, is_settled: false };
        let (running, pending) =
            (running.iter().map(of).collect(), pending.iter().map(Pending::from).collect());
        let input = Input {
            cluster,
            nodes: &by_name,
            namespaces: &namespaces,
            running,
            pending,
            budgets: Vec::new(),
        };
        reset_peak_rss();
        let before = rss_bytes();
        let (plan, time) = timed(|| plan(input, &request));
        let memory = peak_rss_bytes().zip(before).map(|(peak, before)| peak.saturating_sub(before));
        (plan, time, memory)
    };
    let (plan, time, memory_bytes) = make(&running, &pending);
    let n_pods = running.len();
    let mut result = running;
    let mut by_pod: BTreeMap<String, usize> =
        result.iter().enumerate().map(|(i, pod)| (pod.metadata.name.clone(), i)).collect();
    for made in &plan.moves {
        let at = by_pod.entry(made.name.clone()).or_default();
        result[*at].spec.node_name.clone_from(&made.to);
    }
    let pending: Vec<Pod> = if plan.placed.is_empty() { pending } else { Vec::new() };
    let again = make(&result, &pending).0.moves.len();
    let value = |values: &BTreeMap<Goal, f64>| values.get(&goal).copied().unwrap_or_default();
    RebalanceReport {
        case,
        nodes: by_name.len(),
        pods: n_pods,
        seconds: time.as_secs_f64(),
        memory_bytes,
        moves: plan.moves.len(),
        before: value(&plan.before),
        after: value(&plan.after),
        bound: value(&plan.bounds),
        again,
    }
}

/// Nodes, running and pending pods.
fn cluster(case: RebalanceCase, size: &Rebalance) -> (Vec<Node>, Vec<Pod>, Vec<Pod>, Goal) {
    match case {
        RebalanceCase::Spread(percent) => {
            let pods = (0..size.pods).map(|i| {
                let (workload, k) = (i % size.workloads, i / size.workloads);
                let node = (k * 17 + workload * 3) % size.nodes;
                // Zones are the last digit of the node.
                let node = if i * 7919 % 100 < percent { node / 10 * 10 } else { node };
                pod(i, &format!("app-{workload}"), Some(node), 100, spread(workload))
            });
            (nodes(size.nodes), pods.collect(), Vec::new(), Goal::Spread)
        }
        RebalanceCase::Room => {
            let n_pods = size.nodes * 7;
            let pods = (0..n_pods).map(|i| pod(i, "small", Some(i % size.nodes), 1000, json!({})));
            let pending = pod(n_pods, "big", None, 4000, json!({}));
            (nodes(size.nodes), pods.collect(), vec![pending], Goal::Defragment)
        }
        RebalanceCase::Consolidate => {
            // Pods of 250 to 2,000 milli-CPU, until 40 % of all nodes are requested.
            let mut pods = Vec::new();
            let (mut requested, mut i) = (0, 0);
            while requested < size.consolidated * CPUS * 400 {
                let milli_cpu = 250 * (1 + i * 7919 % 8);
                pods.push(pod(i, "app", Some(i % size.consolidated), milli_cpu, json!({})));
                (requested, i) = (requested + milli_cpu, i + 1);
            }
            (nodes(size.consolidated), pods, Vec::new(), Goal::Consolidate)
        }
    }
}

fn nodes(n: usize) -> Vec<Node> {
    (0..n).map(|i| plain_node(i, CPUS)).collect()
}

/// One pod per zone more or less, and one per node.
fn spread(workload: usize) -> Value {
    let constraint = |key: &str, when: &str| {
        json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": format!("app-{workload}")}}})
    };
    let constraints = [constraint(ZONE, "DoNotSchedule"), constraint(HOSTNAME, "ScheduleAnyway")];
    json!({"topologySpreadConstraints": constraints})
}

fn pod(i: usize, app: &str, node: Option<usize>, milli_cpu: usize, rules: Value) -> Pod {
    let mut value = json!({
        "metadata": {"name": format!("pod-{i:07}"), "namespace": "default", "labels": {"app": app},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "controller": true}]},
        "spec": {"schedulerName": "default-scheduler", "nodeName": node.map(node_name).unwrap_or_default(),
            "containers": [{"name": "c", "resources": {"requests": {"cpu": format!("{milli_cpu}m")}}}]},
    });
    if let (Some(spec), Value::Object(rules)) = (value["spec"].as_object_mut(), rules) {
        spec.extend(rules);
    }
    object(value)
}
