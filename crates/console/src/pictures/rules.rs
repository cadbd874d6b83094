//! Which workloads require or avoid which others, and whether that holds now.

use std::collections::{BTreeMap, HashMap};

use berth_api::object::Pod;
use berth_api::rules::{PodSet, PodTerm, TopologyScope};
use berth_engine::Violation;
use berth_picture::arcs::{Arc, Arcs};
use berth_picture::{Class, Key};
use berth_simulate::Simulation;

use crate::names::counted;
use crate::workloads::{WorkloadName, name_of};

/// Most arcs.
const MAX_ARCS: usize = 150;

/// A kind of pod term.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Requires,
    Avoids,
    Prefers,
    PrefersToAvoid,
}

impl Relation {
    fn look(self) -> (Class, bool, &'static str) {
        match self {
            Relation::Requires => (Class::Kind(2), false, "requires"),
            Relation::Avoids => (Class::Kind(1), true, "avoids"),
            Relation::Prefers => (Class::Kind(0), false, "prefers"),
            Relation::PrefersToAvoid => (Class::Kind(3), true, "prefers to avoid"),
        }
    }
}

/// The graph of the pod affinity and anti-affinity between workloads. `broken` are the violated rules of running pods.
pub fn rules(simulation: &Simulation, broken: &[Violation]) -> String {
    // All pods of a workload have the rules and labels of its first one.
    let mut firsts: BTreeMap<WorkloadName, Pod> = BTreeMap::new();
    let mut workload_of = HashMap::new();
    for pod in simulation.pods() {
        workload_of.insert(pod.pod.key(), name_of(pod));
        firsts.entry(name_of(pod)).or_insert_with(|| pod.pod.clone());
    }
    let mut n_broken: HashMap<(&WorkloadName, &str), usize> = HashMap::new();
    for violation in broken {
        let pod = format!("{}/{}", violation.namespace, violation.name);
        if let Some(workload) = workload_of.get(&pod) {
            *n_broken.entry((workload, &violation.term)).or_default() += 1;
        }
    }
    let (mut edges, mut named) = (Vec::new(), BTreeMap::new());
    for (from, pod) in &firsts {
        let rules = simulation.rules_of(pod);
        let required = rules.required_affinity.iter().map(|term| (Relation::Requires, term));
        let avoided = rules.required_anti_affinity.iter().map(|term| (Relation::Avoids, term));
        let preferred = rules.preferred_affinity.iter().map(|p| (Relation::Prefers, &p.term));
        let unwanted = rules.preferred_anti_affinity.iter().map(|p| (Relation::PrefersToAvoid, &p.term));
        for (relation, term) in required.chain(avoided).chain(preferred).chain(unwanted) {
            let set = PodSet { selector: term.selector.clone(), namespaces: term.namespaces.clone() };
            for (to, other) in &firsts {
                let metadata = &other.metadata;
                if set.contains(&metadata.namespace, &metadata.labels, simulation.namespaces()) {
                    named.insert(from, 0);
                    named.insert(to, 0);
                    let n_broken = n_broken.get(&(from, term.path.as_str())).copied().unwrap_or(0);
                    edges.push((from, to, relation, term.clone(), n_broken));
                }
            }
        }
    }
    for (position, place) in named.values_mut().enumerate() {
        *place = position;
    }
    let n_edges = edges.len();
    let arc = |(from, to, relation, term, n_broken): (_, _, Relation, PodTerm, usize)| {
        let (class, dashed, verb) = relation.look();
        let holds = match n_broken {
            0 => String::new(),
            n => format!("; ! broken for {}", counted(n, "pod")),
        };
        let text = format!("{} {verb} {}: {}{holds}", name(from), name(to), topology(&term));
        let class = if n_broken > 0 { Class::Alert } else { class };
        Arc {
            from: named[from],
            to: named[to],
            title: format!("{text} ({})", term.path),
            text,
            class,
            dashed,
        }
    };
    let arcs: Vec<_> = edges.into_iter().take(MAX_ARCS).map(arc).collect();
    let mut notes = Vec::new();
    match n_edges.saturating_sub(MAX_ARCS) {
        0 => {}
        more => notes.push(format!("and {more} more")),
    }
    if n_edges == 0 {
        notes.push("No workload has a rule about another one.".to_owned());
    }
    let kinds = [Relation::Requires, Relation::Avoids, Relation::Prefers, Relation::PrefersToAvoid];
    let key = |(class, dashed, verb): (Class, bool, &str)| Key {
        class,
        mark: None,
        text: format!("{verb} ({})", if dashed { "dashed" } else { "solid" }),
    };
    let mut legend: Vec<_> = kinds.map(Relation::look).map(key).into();
    legend.push(Key { class: Class::Alert, mark: Some('!'), text: "does not hold now".to_owned() });
    Arcs {
        title: format!("{} between {}", counted(n_edges, "rule"), counted(named.len(), "workload")),
        description: "Arcs lead from the workload with the rule to the one that it is about.".to_owned(),
        legend,
        names: named.keys().map(|workload| name(workload)).collect(),
        arcs,
        notes,
    }
    .svg()
}

fn name((namespace, workload): &WorkloadName) -> String {
    format!("{namespace}/{workload}")
}

fn topology(term: &PodTerm) -> String {
    let in_one = match &term.topology {
        TopologyScope::Key(key) => format!("per {key}"),
        TopologyScope::All => "in all topologies".to_owned(),
    };
    match term.limit {
        0 => in_one,
        limit => format!("{in_one}, at most {limit} others"),
    }
}
