//! Generated clusters of any size: nodes in zones and racks, pods of forty templates in turn, decided one by one.

pub mod nodes;
pub mod templates;

use std::time::Duration;

use berth_api::split_mix::SplitMix64;
use berth_engine::{Cluster, PreparedPod, Settings};
use berth_testkit::check::{self, Findings, Placed};
use serde::Serialize;

use crate::count;
use crate::measure::{Checksum, Figures, Samples, peak_rss_bytes, reset_peak_rss, timed};
use templates::{Kind, PodTemplate, namespaces};

/// The size of a cluster, and which one of that size.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Scale {
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = count(1..=9_999_999))]
    pub nodes: usize,
    /// Number of pods
    #[arg(long, value_name = "N", value_parser = count(0..=99_999_999))]
    pub pods: usize,
    /// Seed for node sizes, labels and taints, and for the order of pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Select pods by label ranges (Gt and Lt) instead of equal labels: the same decisions, for comparing the rates
    #[arg(long)]
    pub label_ranges: bool,
    /// Write the affinity of pods in the annotation scheduling.berth.dev/affinity, where it has the meaning of the proposals,
    /// for comparing the rates
    #[arg(long)]
    pub annotation: bool,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleReport {
    pub nodes: usize,
    pub pods: usize,
    pub seed: u64,
    /// Rate and distribution of all decisions.
    #[serde(flatten)]
    pub figures: Figures,
    /// Pods that fit on no node.
    pub unplaced: usize,
    /// Nodes that were evaluated for the decisions, each as often as it was.
    pub evaluated_nodes: u64,
    /// Creation of the nodes in the engine, in seconds.
    pub setup_seconds: f64,
    /// Naming of the pods, in seconds; not part of the decisions.
    pub prepare_seconds: f64,
    pub decision_seconds: f64,
    /// Peak memory of the process before the check.
    pub peak_rss_bytes: Option<u64>,
    /// Checksum of the decisions, in order.
    pub checksum: String,
    /// The first decision of each template, which are among those above.
    pub first_of_template: Figures,
    pub kinds: Vec<ScaleKindReport>,
    /// Rate of pods with affinity or anti-affinity to pods divided by that of plain pods.
    pub inter_pod_to_plain: f64,
    /// What the independent check found.
    pub check: Findings,
    /// Duration of the check, in seconds.
    pub check_seconds: f64,
}

/// Figures of one kind of template, or of several together.
#[derive(Clone, Debug, Serialize)]
pub struct ScaleKindReport {
    pub kind: String,
    /// Rate and distribution.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A cluster with nodes and no pods, and pods prepared for it.
pub struct GeneratedCluster {
    pub cluster: Cluster,
    pub templates: Vec<PodTemplate>,
    /// A pod of each template.
    pub prepared: Vec<PreparedPod>,
}

pub fn generate(n_nodes: usize, seed: u64, label_ranges: bool) -> GeneratedCluster {
    let mut cluster = Cluster::new(Settings::default());
    namespaces().iter().for_each(|n| cluster.set_namespace(n));
    (0..n_nodes).for_each(|i| cluster.set_node(&nodes::node(seed, i)));
    let templates = templates::templates(label_ranges);
    let prepared = templates.iter().map(|t| cluster.prepare(&t.pod)).collect();
    GeneratedCluster { cluster, templates, prepared }
}

/// Decides all pods and checks the placement; `progress` is called with the number of decided pods.
pub fn run(scale: Scale, progress: &mut dyn FnMut(usize)) -> ScaleReport {
    reset_peak_rss();
    let Scale { nodes: n_nodes, pods: n_pods, seed, label_ranges, annotation } = scale;
    let (generated, setup) = timed(|| generate(n_nodes, seed, label_ranges));
    let GeneratedCluster { mut cluster, templates, mut prepared } = generated;
    if annotation {
        prepared = templates.iter().map(|t| cluster.prepare(&templates::annotated(&t.pod))).collect();
    }
    let mut order = Order::new(seed, templates.len());
    let mut samples = vec![Samples::default(); templates.len()];
    let mut first_of_template = Samples::default();
    let mut seen = vec![false; templates.len()];
    let mut placed = Vec::with_capacity(n_pods);
    let mut checksum = Checksum::default();
    let (mut preparing, mut deciding) = (Duration::ZERO, Duration::ZERO);
    let mut unplaced = 0;
    for i in 0..n_pods {
        let template = order.next_template();
        let metadata = &templates[template].pod.metadata;
        let name = pod_name(&metadata.name, i);
        let (pod, duration) = timed(|| prepared[template].named(&name));
        preparing += duration;
        let (outcome, duration) = timed(|| cluster.place(&pod));
        deciding += duration;
        samples[template].add(duration);
        if !std::mem::replace(&mut seen[template], true) {
            first_of_template.add(duration);
        }
        let node = outcome.node();
        checksum.add(&metadata.namespace, &name, node.unwrap_or_default());
        match node.and_then(nodes::node_index) {
            Some(node) => placed.push(Placed { template: template as u32, node: node as u32 }),
            None => unplaced += 1,
        }
        progress(i + 1);
    }
    let peak_rss_bytes = peak_rss_bytes();
    let evaluated_nodes = cluster.n_evaluated_nodes();
    drop(cluster);

    let together = |belongs: &dyn Fn(Kind) -> bool| {
        let mut all = Samples::default();
        let belonging = templates.iter().zip(&samples).filter(|(template, _)| belongs(template.kind));
        belonging.for_each(|(_, samples)| all.extend(samples));
        all.figures()
    };
    let plain = together(&Kind::is_plain);
    let inter_pod = together(&Kind::is_inter_pod);
    let mut kinds: Vec<_> = Kind::ALL
        .iter()
        .map(|(kind, _)| ScaleKindReport { kind: kind.to_string(), figures: together(&|k| k == *kind) })
        .collect();
    kinds.push(ScaleKindReport { kind: "all plain".to_owned(), figures: plain });
    kinds.push(ScaleKindReport { kind: "all with inter-pod rules".to_owned(), figures: inter_pod });
    let ratio = inter_pod.decisions_per_second / plain.decisions_per_second;
    let figures = together(&|_| true);
    drop(samples);

    let templates: Vec<_> = templates.into_iter().map(|t| t.pod).collect();
    let nodes = (0..n_nodes).map(|i| nodes::node(seed, i));
    let (check, checking) = timed(|| check::check(nodes, &namespaces(), &templates, &placed));
    ScaleReport {
        nodes: n_nodes,
        pods: n_pods,
        seed,
        figures,
        unplaced,
        evaluated_nodes,
        setup_seconds: setup.as_secs_f64(),
        prepare_seconds: preparing.as_secs_f64(),
        decision_seconds: deciding.as_secs_f64(),
        peak_rss_bytes,
        checksum: checksum.hex(),
        first_of_template: first_of_template.figures(),
        kinds,
        inter_pod_to_plain: if ratio.is_finite() { ratio } else { 0.0 },
        check,
        check_seconds: checking.as_secs_f64(),
    }
}

/// The name of the `i`th pod, of the template with this name.
pub fn pod_name(template: &str, i: usize) -> String {
    format!("{template}-{i:07}")
}

/// The templates of successive pods: every round has one pod of each. The first round is in order, so that pods that
/// need pods of another template find them; the others are shuffled.
pub(crate) struct Order {
    seed: u64,
    round: Vec<usize>,
    at: usize,
    n_drawn: u64,
}

impl Order {
    pub(crate) fn new(seed: u64, n_templates: usize) -> Order {
        Order { seed: !seed, round: (0..n_templates).collect(), at: 0, n_drawn: 0 }
    }

    pub(crate) fn next_template(&mut self) -> usize {
        if self.at == self.round.len() {
            self.at = 0;
            for i in (1..self.round.len()).rev() {
                let j = SplitMix64::nth(self.seed, self.n_drawn) % (i as u64 + 1);
                self.n_drawn += 1;
                self.round.swap(i, j as usize);
            }
        }
        self.at += 1;
        self.round[self.at - 1]
    }
}
