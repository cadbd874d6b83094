//! Preemption: pods of high priority in a cluster full of pods of low priority.
//!
//! Every node is full. Each incoming pod is unschedulable, finds the pod to be evicted, and is placed once that is gone. The
//! time of a pod is that of both decisions, the search for victims, their removal and the assignment.

use berth_api::object::{Pod, PodDisruptionBudget};
use berth_api::syntax::labels::HOSTNAME;
use berth_engine::{Cluster, DisruptionBudget, Outcome, Preemption, Settings};
use serde::Serialize;
use serde_json::{Value, json};

use crate::count;
use crate::measure::{Checksum, Figures, Samples, peak_rss_bytes, reset_peak_rss, timed};
use crate::scale::nodes::{N_ZONES, ZONE, node_name, object, plain_node};

/// Pods of low priority on each node, each with one CPU.
const PODS_PER_NODE: usize = 4;
/// Number of disruption budgets; each protects the same number of pods.
const N_BUDGETS: usize = 10;
/// Disruptions that each budget allows at first.
const ALLOWED: i32 = 20;

/// The size of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Preempt {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count(1..=999_999))]
    pub nodes: usize,
    /// Number of incoming pods of each kind; at most one per node is sensible
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count(1..=999_999))]
    pub pods: usize,
}

/// What the incoming pods have besides their requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreemptKind {
    /// Nothing.
    Plain,
    /// Required affinity to pods in the zone, and required anti-affinity to each other on a node.
    PodAffinity,
    /// Nothing, but budgets protect the victims. Each eviction uses up a disruption.
    DisruptionBudgets,
    /// Other requests than every other pod.
    DifferentRequests,
}

impl PreemptKind {
    /// All of them.
    pub const ALL: [PreemptKind; 4] = [
        PreemptKind::Plain,
        PreemptKind::PodAffinity,
        PreemptKind::DisruptionBudgets,
        PreemptKind::DifferentRequests,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            PreemptKind::Plain => "no rules",
            PreemptKind::PodAffinity => "pod affinity and anti-affinity",
            PreemptKind::DisruptionBudgets => "disruption budgets",
            PreemptKind::DifferentRequests => "each pod with other requests",
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptReport {
    /// Nodes.
    pub nodes: usize,
    /// Pods of low priority at first.
    pub low_priority_pods: usize,
    /// One entry for each kind.
    pub kinds: Vec<PreemptKindReport>,
    /// Peak memory of the process.
    pub peak_rss_bytes: Option<u64>,
}

/// The result of one kind of incoming pods.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptKindReport {
    /// The kind.
    pub kind: PreemptKind,
    /// Preemptions, each with the decisions before and after it.
    pub figures: Figures,
    /// Duration of the first preemption in microseconds.
    pub first_us: f64,
    /// Evicted pods.
    pub victims: usize,
    /// Victims whose eviction violates a budget.
    pub pdb_violations: usize,
    /// Pods that were not placed.
    pub unplaced: usize,
    /// Of all placements.
    pub checksum: String,
}

/// Runs the benchmark; `progress` is called with the number of preemptions.
pub fn run(preempt: Preempt, progress: &mut dyn FnMut(usize)) -> PreemptReport {
    reset_peak_rss();
    let mut n_done = 0;
    let kinds = PreemptKind::ALL.map(|kind| {
        run_kind(preempt, kind, &mut || {
            n_done += 1;
            progress(n_done);
        })
    });
    PreemptReport {
        nodes: preempt.nodes,
        low_priority_pods: preempt.nodes * PODS_PER_NODE,
        kinds: kinds.into(),
        peak_rss_bytes: peak_rss_bytes(),
    }
}

fn run_kind(
    Preempt { nodes, pods }: Preempt,
    kind: PreemptKind,
    progress: &mut dyn FnMut(),
) -> PreemptKindReport {
    let mut cluster = Cluster::new(Settings::default());
    (0..nodes).for_each(|i| cluster.set_node(&plain_node(i, PODS_PER_NODE)));
    for i in 0..nodes * PODS_PER_NODE {
        cluster.set_pod(&low_priority(i, nodes));
    }
    (0..nodes.min(N_ZONES)).for_each(|zone| _ = cluster.set_pod(&cache(zone)));
    let mut budgets: Vec<DisruptionBudget> = match kind {
        PreemptKind::DisruptionBudgets => {
            (0..N_BUDGETS).map(|i| DisruptionBudget::from(&budget(i))).collect()
        }
        _ => Vec::new(),
    };
    let incoming: Vec<Pod> = (0..pods).map(|i| incoming(kind, i)).collect();
    let prepared: Vec<_> = incoming.iter().map(|pod| cluster.prepare(pod)).collect();
    let mut samples = Samples::default();
    let mut checksum = Checksum::default();
    let mut report = PreemptKindReport {
        kind,
        figures: Figures::default(),
        first_us: 0.0,
        victims: 0,
        pdb_violations: 0,
        unplaced: 0,
        checksum: String::new(),
    };
    for (i, pod) in prepared.iter().enumerate() {
        let ((outcome, victims), duration) = timed(|| {
            let outcome = cluster.place(pod);
            if outcome.node().is_some() {
                return (outcome, None);
            }
            let Preemption::Victims(victims) = cluster.preempt(pod, &budgets) else { return (outcome, None) };
            victims.victims.iter().for_each(|victim| cluster.remove_pod(victim.namespace(), victim.name()));
            (cluster.place(pod), Some(victims))
        });
        samples.add(duration);
        if i == 0 {
            report.first_us = duration.as_secs_f64() * 1e6;
        }
        if let Some(victims) = victims {
            report.victims += victims.victims.len();
            report.pdb_violations += victims.n_pdb_violations;
            for victim in &victims.victims {
                let number = victim.name().rsplit('-').next().and_then(|number| number.parse::<usize>().ok());
                if let Some(budget) = number.and_then(|number| budgets.get_mut(number % N_BUDGETS)) {
                    budget.disruptions_allowed = (budget.disruptions_allowed - 1).max(0);
                }
            }
        }
        report.unplaced += usize::from(!matches!(outcome, Outcome::Placed { .. }));
        checksum.add("default", pod.name(), outcome.node().unwrap_or_default());
        progress();
    }
    PreemptKindReport { figures: samples.figures(), checksum: checksum.hex(), ..report }
}

fn pod(name: &str, labels: Value, priority: i32, milli_cpu: usize, more: Value) -> Value {
    let requests = json!({"cpu": format!("{milli_cpu}m")});
    let mut spec = json!({
        "schedulerName": "default-scheduler",
        "priority": priority,
        "containers": [{"name": "main", "image": "registry.example/main:1", "resources": {"requests": requests}}],
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    json!({"metadata": {"namespace": "default", "name": name, "uid": name, "labels": labels}, "spec": spec})
}

/// Pods fill one node after the other, and started in this order.
fn low_priority(i: usize, n_nodes: usize) -> Pod {
    let labels = json!({"app": format!("low-{}", i % N_BUDGETS)});
    let node = node_name(i / PODS_PER_NODE % n_nodes.max(1));
    let mut pod = pod(&format!("low-{i}"), labels, 0, 1000, json!({"nodeName": node}));
    let started =
        format!("2026-01-{:02}T{:02}:{:02}:{:02}Z", 1 + i / 86_400 % 28, i / 3600 % 24, i / 60 % 60, i % 60);
    pod["status"] = json!({"startTime": started});
    object(pod)
}

/// A pod that incoming pods have affinity to; it requests nothing.
fn cache(zone: usize) -> Pod {
    let more = json!({"nodeName": node_name(zone)});
    object(pod(&format!("cache-{zone}"), json!({"app": "cache"}), 1000, 0, more))
}

fn incoming(kind: PreemptKind, i: usize) -> Pod {
    let term =
        |app: &str, key: &str| json!([{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let more = match kind {
        PreemptKind::PodAffinity => json!({"affinity": {
            "podAffinity": {required: term("cache", ZONE)},
            "podAntiAffinity": {required: term("high", HOSTNAME)},
        }}),
        _ => json!({}),
    };
    let milli_cpu = if kind == PreemptKind::DifferentRequests { 1 + i % 1000 } else { 1000 };
    object(pod(&format!("high-{i}"), json!({"app": "high"}), 100, milli_cpu, more))
}

fn budget(i: usize) -> PodDisruptionBudget {
    object(json!({
        "metadata": {"namespace": "default", "name": format!("low-{i}")},
        "spec": {"selector": {"matchLabels": {"app": format!("low-{i}")}}},
        "status": {"disruptionsAllowed": ALLOWED},
    }))
}
