//! Churn: pods with distinct labels, selectors, namespaces and topology values are created and deleted, round
//! after round, and nodes are replaced. A scheduler must use no more memory after the last round than after the first
//! ones, and must decide as fast.

use berth_api::admission::{AdmissionOptions, admit};
use berth_api::object::{
    Affinity, Container, LabelSelector, Namespace, Node, ObjectMeta, Pod, PodAffinity, PodAffinityTerm,
    TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use berth_api::syntax::labels::HOSTNAME;
use berth_api::syntax::quantity::Quantity;
use berth_engine::{Cluster, Settings};
use serde::Serialize;

use crate::count;
use crate::measure::{Samples, rss_bytes, timed};
use crate::scale::nodes::{self, RACK, ZONE};
use crate::scale::templates::{namespaces, templates};

/// Namespaces of each round.
const N_NAMESPACES: usize = 10;
/// One of this many nodes is replaced in each round.
const REPLACED: usize = 50;
/// Growth is measured from the end of this round: by then tables and caches have their size.
const WARM_UP: usize = 5;

/// The size of a churn benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Churn {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = count(1..=9_999_999))]
    pub nodes: usize,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = count(1..=65_535))]
    pub rounds: usize,
    /// Number of pods in each round
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count(1..=999_999))]
    pub pods: usize,
    /// Seed for node sizes, labels and taints
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChurnReport {
    /// Nodes.
    pub nodes: usize,
    /// Pods of each round.
    pub pods: usize,
    /// The seed.
    pub seed: u64,
    /// The rounds, in order.
    pub rounds: Vec<Round>,
    /// Memory after the last round divided by memory after round 5; none with fewer rounds.
    pub memory_growth: Option<f64>,
    /// Decision rate of the last round divided by that of round 5; none with fewer rounds.
    pub rate_change: Option<f64>,
}

/// One round.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// Number of the round, from 1.
    pub round: usize,
    /// Pods that fit on no node.
    pub unplaced: usize,
    /// Decisions per second, with the preparation of each pod and its assignment.
    pub decisions_per_second: f64,
    /// Resident memory of the process after all pods of the round were deleted, in bytes; on Linux only.
    pub rss_bytes: Option<u64>,
    /// The same of the API server, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apiserver_rss_bytes: Option<u64>,
}

impl ChurnReport {
    /// A report on rounds.
    pub fn new(churn: Churn, rounds: Vec<Round>) -> ChurnReport {
        let ratio = |figure: fn(&Round) -> Option<f64>| {
            let warm = rounds.get(WARM_UP - 1).filter(|_| rounds.len() > WARM_UP)?;
            Some(figure(rounds.last()?)? / figure(warm)?)
        };
        ChurnReport {
            nodes: churn.nodes,
            pods: churn.pods,
            seed: churn.seed,
            memory_growth: ratio(|round| round.rss_bytes.map(|bytes| bytes as f64)),
            rate_change: ratio(|round| Some(round.decisions_per_second)),
            rounds,
        }
    }
}

/// Runs all rounds in one engine; `progress` is called with the number of finished rounds.
pub fn run(churn: Churn, progress: &mut dyn FnMut(usize)) -> ChurnReport {
    let mut cluster = Cluster::new(Settings::default());
    namespaces().iter().for_each(|namespace| cluster.set_namespace(namespace));
    (0..churn.nodes).for_each(|i| cluster.set_node(&nodes::node(churn.seed, i)));
    // Two pods per node that stay.
    let templates = templates(false);
    let prepared: Vec<_> = templates.iter().map(|template| cluster.prepare(&template.pod)).collect();
    let place = |cluster: &mut Cluster, i: usize| {
        let outcome = cluster.place(&prepared[i % prepared.len()].named(&format!("stays-{i}")));
        outcome.node().unwrap_or_default().to_owned()
    };
    let mut node_of: Vec<_> = (0..2 * churn.nodes).map(|i| place(&mut cluster, i)).collect();
    let mut rounds = Vec::new();
    for round in 1..=churn.rounds {
        for (removed, added) in churn.replaced_nodes(round) {
            cluster.remove_node(&removed);
            cluster.set_node(&added);
            for (i, node) in node_of.iter_mut().enumerate().filter(|(_, node)| **node == removed) {
                let template = &templates[i % templates.len()].pod.metadata;
                cluster.remove_pod(&template.namespace, &format!("stays-{i}"));
                *node = place(&mut cluster, i);
            }
        }
        namespaces_of(round).iter().for_each(|namespace| cluster.set_namespace(namespace));
        let (mut samples, mut unplaced) = (Samples::default(), 0);
        let pods: Vec<_> = (0..churn.pods).map(|i| pod(round, i)).collect();
        for pod in &pods {
            let (outcome, duration) = timed(|| {
                let prepared = cluster.prepare(pod);
                cluster.place(&prepared)
            });
            samples.add(duration);
            unplaced += usize::from(outcome.node().is_none());
        }
        pods.iter().for_each(|pod| cluster.remove_pod(&pod.metadata.namespace, &pod.metadata.name));
        namespaces_of(round).iter().for_each(|namespace| cluster.remove_namespace(&namespace.metadata.name));
        rounds.push(Round {
            round,
            unplaced,
            decisions_per_second: samples.figures().decisions_per_second,
            rss_bytes: rss_bytes(),
            apiserver_rss_bytes: None,
        });
        progress(round);
    }
    ChurnReport::new(churn, rounds)
}

impl Churn {
    /// The nodes that are replaced before a round: names of those removed, and those added, whose names, host names
    /// and racks are new.
    pub fn replaced_nodes(&self, round: usize) -> impl Iterator<Item = (String, Node)> {
        let (n, seed) = (self.nodes, self.seed);
        let n_replaced = (n / REPLACED).clamp(1, n.max(1));
        let first = (round - 1) * n_replaced;
        (first..first + n_replaced).map(move |i| (nodes::node_name(i), nodes::node(seed, n + i)))
    }
}

/// The namespaces of a round.
pub fn namespaces_of(round: usize) -> Vec<Namespace> {
    let namespace =
        |i| Namespace { metadata: ObjectMeta { name: namespace_name(round, i), ..ObjectMeta::default() } };
    (0..N_NAMESPACES).map(namespace).collect()
}

fn namespace_name(round: usize, i: usize) -> String {
    format!("round-{round}-{}", i % N_NAMESPACES)
}

/// The `i`th pod of a round. Its `pod-template-hash` is its own, and its rules select by it; every tenth pod selects by
/// its own label key.
pub fn pod(round: usize, i: usize) -> Pod {
    let hash = format!("{round}-{i}");
    let key = if i % 10 == 9 { format!("example.com/job-{hash}") } else { "pod-template-hash".to_owned() };
    let mut pod = Pod::default();
    pod.metadata.namespace = namespace_name(round, i);
    pod.metadata.name = format!("churn-{hash}");
    pod.metadata.labels = [("app".to_owned(), format!("app-{}", i % 40)), (key.clone(), hash.clone())].into();
    let amount = |name: &str, quantity| (name.to_owned(), quantity);
    let requests =
        [amount("cpu", Quantity::from_millis(100)), amount("memory", Quantity::from_units(128 << 20))];
    let mut container =
        Container { name: "main".to_owned(), image: "app".to_owned(), ..Container::default() };
    container.resources.requests = requests.into();
    pod.spec.containers = vec![container].into();

    let selector = LabelSelector { match_labels: [(key, hash.clone())].into(), ..LabelSelector::default() };
    let term = |topology_key: &str| PodAffinityTerm {
        label_selector: Some(selector.clone()),
        topology_key: topology_key.to_owned(),
        ..PodAffinityTerm::default()
    };
    let required = |topology_key: &str| {
        Some(PodAffinity {
            required_during_scheduling_ignored_during_execution: vec![term(topology_key)],
            ..PodAffinity::default()
        })
    };
    let preferred = |topology_key: &str| {
        let term = WeightedPodAffinityTerm { weight: 50, pod_affinity_term: term(topology_key) };
        Some(PodAffinity {
            preferred_during_scheduling_ignored_during_execution: vec![term],
            ..PodAffinity::default()
        })
    };
    let affinity = match i % 6 {
        0 => Affinity { pod_anti_affinity: required(HOSTNAME), ..Affinity::default() },
        1 => Affinity { pod_affinity: required(ZONE), ..Affinity::default() },
        2 => Affinity { pod_anti_affinity: preferred(RACK), ..Affinity::default() },
        // A topology key that no node has.
        3 => Affinity { pod_affinity: preferred(&format!("example.com/{hash}")), ..Affinity::default() },
        _ => Affinity::default(),
    };
    pod.spec.affinity = Some(affinity.into());
    if i % 6 == 4 {
        pod.spec.topology_spread_constraints = vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: ZONE.to_owned(),
            when_unsatisfiable: "DoNotSchedule".to_owned(),
            label_selector: Some(selector),
            ..TopologySpreadConstraint::default()
        }]
        .into();
    }
    admit(&mut pod, &AdmissionOptions::default());
    pod
}
