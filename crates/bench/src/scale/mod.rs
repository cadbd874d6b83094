//! Clusters of any size: nodes in zones and racks, pods of forty interleaved classes, decided one by one.

pub mod classes;
pub mod nodes;

use std::time::Duration;

use berth_engine::{Cluster, PreparedPod, Settings};
use serde::Serialize;

use crate::check::{self, Findings, Placed};
use crate::measure::{Checksum, Figures, Samples, peak_rss_bytes, reset_peak_rss, timed};
use classes::{Class, Kind};
use nodes::scattered;

/// How large, and which one of that size.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Nodes.
    pub nodes: usize,
    /// Pods.
    pub pods: usize,
    /// Settles the nodes' sizes, labels and taints, and the order of pods.
    pub seed: u64,
}

/// What was measured and found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Nodes.
    pub nodes: usize,
    /// Pods.
    pub pods: usize,
    /// The seed.
    pub seed: u64,
    /// Rate and distribution of all decisions.
    #[serde(flatten)]
    pub figures: Figures,
    /// Pods that fit nowhere.
    pub unplaced: usize,
    /// Making the nodes and telling the engine of them, in seconds.
    pub setup_seconds: f64,
    /// Naming the pods, in seconds; not part of the decisions.
    pub prepare_seconds: f64,
    /// All decisions, in seconds.
    pub decision_seconds: f64,
    /// Peak memory of the process before the check.
    pub peak_rss_bytes: Option<u64>,
    /// Fingerprint of the decisions, in order.
    pub checksum: String,
    /// The first decision of each class, which are among those above.
    pub first_of_class: Figures,
    /// Figures by kind of class.
    pub kinds: Vec<KindReport>,
    /// Rate of pods with affinity or anti-affinity to pods by that of plain pods.
    pub inter_pod_to_plain: f64,
    /// What the independent check found.
    pub check: Findings,
    /// How long it took, in seconds.
    pub check_seconds: f64,
}

/// Figures of one kind of class, or of several together.
#[derive(Clone, Debug, Serialize)]
pub struct KindReport {
    /// The kind.
    pub kind: String,
    /// Rate and distribution.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A cluster with nodes and no pods, and the classes' pods prepared for it.
pub struct Made {
    /// The engine.
    pub cluster: Cluster,
    /// The classes.
    pub classes: Vec<Class>,
    /// A pod of each class.
    pub prepared: Vec<PreparedPod>,
}

/// Makes the nodes and prepares the classes.
pub fn make(n_nodes: usize, seed: u64) -> Made {
    let mut cluster = Cluster::new(Settings::default());
    classes::namespaces().iter().for_each(|n| cluster.set_namespace(n));
    (0..n_nodes).for_each(|i| cluster.set_node(&nodes::node(seed, i)));
    let classes = classes::classes();
    let prepared = classes.iter().map(|c| cluster.prepare(&c.template)).collect();
    Made { cluster, classes, prepared }
}

/// Decides all pods and checks the placement; `progress` is told how many are decided.
pub fn run(scale: Scale, progress: &mut dyn FnMut(usize)) -> Report {
    reset_peak_rss();
    let Scale { nodes: n_nodes, pods: n_pods, seed } = scale;
    let (Made { mut cluster, classes, prepared }, setup) = timed(|| make(n_nodes, seed));
    let mut order = Order::new(seed, classes.len());
    let mut samples = vec![Samples::default(); classes.len()];
    let mut first_of_class = Samples::default();
    let mut seen = vec![false; classes.len()];
    let mut placed = Vec::with_capacity(n_pods);
    let mut checksum = Checksum::default();
    let (mut preparing, mut deciding) = (Duration::ZERO, Duration::ZERO);
    let mut unplaced = 0;
    for i in 0..n_pods {
        let class = order.next_class();
        let metadata = &classes[class].template.metadata;
        let name = pod_name(&metadata.name, i);
        let (pod, duration) = timed(|| prepared[class].named(&name));
        preparing += duration;
        let (outcome, duration) = timed(|| cluster.place_prepared(&pod));
        deciding += duration;
        samples[class].add(duration);
        if !std::mem::replace(&mut seen[class], true) {
            first_of_class.add(duration);
        }
        let node = outcome.node();
        checksum.add(&metadata.namespace, &name, node.unwrap_or_default());
        match node.and_then(nodes::node_index) {
            Some(node) => placed.push(Placed { template: class as u32, node: node as u32 }),
            None => unplaced += 1,
        }
        progress(i + 1);
    }
    let peak_rss_bytes = peak_rss_bytes();
    drop(cluster);

    let together = |belongs: &dyn Fn(Kind) -> bool| {
        let mut all = Samples::default();
        let concerned = classes.iter().zip(&samples).filter(|(class, _)| belongs(class.kind));
        concerned.for_each(|(_, samples)| all.extend(samples));
        all.figures()
    };
    let plain = together(&Kind::is_plain);
    let inter_pod = together(&Kind::is_inter_pod);
    let mut kinds: Vec<_> = Kind::ALL
        .iter()
        .map(|(kind, _)| KindReport { kind: kind.to_string(), figures: together(&|k| k == *kind) })
        .collect();
    kinds.push(KindReport { kind: "all plain".to_owned(), figures: plain });
    kinds.push(KindReport { kind: "all with inter-pod rules".to_owned(), figures: inter_pod });
    let ratio = inter_pod.decisions_per_second / plain.decisions_per_second;
    let figures = together(&|_| true);
    drop(samples);

    let templates: Vec<_> = classes.into_iter().map(|c| c.template).collect();
    let made = (0..n_nodes).map(|i| nodes::node(seed, i));
    let (check, checking) = timed(|| check::check(made, &classes::namespaces(), &templates, &placed));
    Report {
        nodes: n_nodes,
        pods: n_pods,
        seed,
        figures,
        unplaced,
        setup_seconds: setup.as_secs_f64(),
        prepare_seconds: preparing.as_secs_f64(),
        decision_seconds: deciding.as_secs_f64(),
        peak_rss_bytes,
        checksum: checksum.hex(),
        first_of_class: first_of_class.figures(),
        kinds,
        inter_pod_to_plain: if ratio.is_finite() { ratio } else { 0.0 },
        check,
        check_seconds: checking.as_secs_f64(),
    }
}

/// The name of the `i`th pod, which is of the class of this name.
pub fn pod_name(class: &str, i: usize) -> String {
    format!("{class}-{i:07}")
}

/// The classes of successive pods: every round has one pod of each. The first round is in the classes' order,
/// so that those that need another find it; the others are shuffled.
pub(crate) struct Order {
    seed: u64,
    round: Vec<usize>,
    at: usize,
    n_drawn: u64,
}

impl Order {
    pub(crate) fn new(seed: u64, n_classes: usize) -> Order {
        Order { seed: !seed, round: (0..n_classes).collect(), at: 0, n_drawn: 0 }
    }

    pub(crate) fn next_class(&mut self) -> usize {
        if self.at == self.round.len() {
            self.at = 0;
            for i in (1..self.round.len()).rev() {
                let j = scattered(self.seed, self.n_drawn) % (i as u64 + 1);
                self.n_drawn += 1;
                self.round.swap(i, j as usize);
            }
        }
        self.at += 1;
        self.round[self.at - 1]
    }
}
