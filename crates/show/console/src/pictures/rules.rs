//! Which workloads require or avoid which others, and whether that holds now.

use std::collections::BTreeMap;

use berth_api::syntax::format::counted;
use berth_engine::Violation;
use berth_picture::arcs::{Arc, Arcs};
use berth_picture::{Class, Key};
use berth_rules::{PodSet, PodTerm, TopologyScope};
use berth_simulate::{SimulatedPod, Simulation};

use crate::overview::{Overview, Pods};
use crate::workloads::{WorkloadName, name_of};

const MAX_ARCS: usize = 150;
/// With more workloads than this, pods without a workload are left out.
pub(crate) const MAX_WITH_SINGLE: usize = 2000;

/// A kind of pod term.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Requires,
    Avoids,
    Prefers,
    PrefersToAvoid,
}

impl Relation {
    pub(crate) fn verb(self) -> &'static str {
        self.look().2
    }

    fn look(self) -> (Class, bool, &'static str) {
        match self {
            Relation::Requires => (Class::Kind(2), false, "requires"),
            Relation::Avoids => (Class::Kind(1), true, "avoids"),
            Relation::Prefers => (Class::Kind(0), false, "prefers"),
            Relation::PrefersToAvoid => (Class::Kind(3), true, "prefers to avoid"),
        }
    }
}

/// A rule of a workload about the pods of another one, or its own.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) from: WorkloadName,
    pub(crate) to: WorkloadName,
    pub(crate) relation: Relation,
    pub(crate) term: PodTerm,
    /// Pods for which it does not hold.
    pub(crate) n_broken: usize,
}

/// The rules between workloads, by the workload that has them.
pub(crate) fn edges(overview: Overview<'_>) -> Vec<Edge> {
    let Overview { pods, broken } = overview;
    let Pods { simulation, table } = pods;
    // All pods of a workload have the rules and labels of one of them.
    let representatives = table.representatives(simulation);
    let of_workload =
        |(number, name): (usize, &WorkloadName)| Some((name.clone(), pods.at(representatives[number]?)));
    let mut workloads: Vec<(WorkloadName, &SimulatedPod)> =
        table.workloads().filter_map(of_workload).collect();
    // Pods without a workload count as one each, and every pair is compared.
    if workloads.len() + table.single().count() <= MAX_WITH_SINGLE {
        let single = table.single().map(|at| pods.at(at));
        workloads.extend(single.map(|pod| (name_of(pod), pod)));
    }
    workloads.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut edges = Vec::new();
    for (from, pod) in &workloads {
        let rules = simulation.rules_of(&pod.pod);
        let broken = broken.of_workload(from);
        let required = rules.required_affinity.iter().map(|term| (Relation::Requires, term));
        let avoided = rules.required_anti_affinity.iter().map(|term| (Relation::Avoids, term));
        let preferred = rules.preferred_affinity.iter().map(|p| (Relation::Prefers, &p.term));
        let unwanted = rules.preferred_anti_affinity.iter().map(|p| (Relation::PrefersToAvoid, &p.term));
        for (relation, term) in required.chain(avoided).chain(preferred).chain(unwanted) {
            let set = PodSet { selector: term.selector.clone(), namespaces: term.namespaces.clone() };
            let n_broken = broken.and_then(|broken| broken.by_term.get(&term.path)).copied().unwrap_or(0);
            for (to, other) in &workloads {
                let metadata = &other.pod.metadata;
                if set.contains(&metadata.namespace, &metadata.labels, simulation.namespaces()) {
                    edges.push(Edge {
                        from: from.clone(),
                        to: to.clone(),
                        relation,
                        term: term.clone(),
                        n_broken,
                    });
                }
            }
        }
    }
    edges
}

/// The graph of the pod affinity and anti-affinity between workloads. `broken` are the violated rules of running pods.
pub fn rules(simulation: &Simulation, broken: &[Violation]) -> String {
    Overview::once(simulation, broken, |overview| graph(&edges(overview), true))
}

/// `is_complete`: with the legend and a line for each rule, which pages have beside the picture.
pub(crate) fn graph(edges: &[Edge], is_complete: bool) -> String {
    let mut named: BTreeMap<&WorkloadName, usize> =
        edges.iter().flat_map(|edge| [(&edge.from, 0), (&edge.to, 0)]).collect();
    for (position, place) in named.values_mut().enumerate() {
        *place = position;
    }
    let n_edges = edges.len();
    let arc = |Edge { from, to, relation, term, n_broken }: &Edge| {
        let (class, dashed, verb) = relation.look();
        let holds = match *n_broken {
            0 => String::new(),
            n => format!("; ! broken for {}", counted(n, "pod")),
        };
        let text = format!("{} {verb} {}: {}{holds}", name(from), name(to), topology(term));
        let class = if *n_broken > 0 { Class::Alert } else { class };
        Arc {
            from: named[from],
            to: named[to],
            title: format!("{text} ({})", term.path),
            text: if is_complete { text } else { String::new() },
            class,
            dashed,
        }
    };
    let arcs: Vec<_> = edges.iter().take(MAX_ARCS).map(arc).collect();
    let mut notes = Vec::new();
    match n_edges.saturating_sub(MAX_ARCS) {
        0 => {}
        more => notes.push(format!("and {more} more")),
    }
    if n_edges == 0 {
        notes.push("No workload has a rule about another one.".to_owned());
    }
    Arcs {
        title: format!("{} between {}", counted(n_edges, "rule"), counted(named.len(), "workload")),
        description: "Arcs lead from the workload with the rule to the one that it is about.".to_owned(),
        legend: if is_complete { keys() } else { Vec::new() },
        names: named.keys().map(|workload| name(workload)).collect(),
        arcs,
        notes,
    }
    .svg()
}

/// What the looks of arcs mean.
pub(crate) fn keys() -> Vec<Key> {
    let kinds = [Relation::Requires, Relation::Avoids, Relation::Prefers, Relation::PrefersToAvoid];
    let key = |(class, dashed, verb): (Class, bool, &str)| Key {
        class,
        mark: None,
        text: format!("{verb} ({})", if dashed { "dashed" } else { "solid" }),
    };
    let mut legend: Vec<_> = kinds.map(Relation::look).map(key).into();
    legend.push(Key { class: Class::Alert, mark: Some('!'), text: "does not hold now".to_owned() });
    legend
}

fn name((namespace, workload): &WorkloadName) -> String {
    format!("{namespace}/{workload}")
}

pub(crate) fn topology(term: &PodTerm) -> String {
    let in_one = match &term.topology {
        TopologyScope::Key(key) => format!("per {key}"),
        TopologyScope::All => "in all topologies".to_owned(),
    };
    match term.limit {
        0 => in_one,
        limit => format!("{in_one}, at most {limit} others"),
    }
}
