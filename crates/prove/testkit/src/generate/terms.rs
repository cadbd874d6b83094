//! Random affinity, anti-affinity and spread constraints, in both dialects.

use berth_api::object::{
    Affinity, LabelSelector, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, PodAffinity, PodAffinityTerm,
    PreferredSchedulingTerm, SelectorRequirement, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use berth_api::syntax::annotations::{AFFINITY_ANNOTATION, RELAX_AFTER_ANNOTATION, TOLERATION_ANNOTATION};
use berth_api::syntax::labels::HOSTNAME;

use super::names::{
    DISKS, LABEL_VERSIONS, NAMESPACES, RACK, RACKS, REGION, SLOT, SLOTS, VERSIONS, ZONE, ZONES, node_name,
};
use super::{Flavour, Random};

const FIELDS: [(&str, &[&str]); 4] = [
    ("metadata.name", &["n1", "n3", "n5"]),
    ("spec.unschedulable", &["true", "false"]),
    ("spec.providerID", &["test://1"]),
    ("status.nodeInfo.kernelVersion", &VERSIONS),
];
const TOPOLOGIES: [&str; 6] = [HOSTNAME, HOSTNAME, ZONE, ZONE, RACK, REGION];

/// Gives a pod rules: many have none, most of the others few.
pub fn draw(random: &mut Random, flavour: Flavour, pod: &mut Pod) {
    // Where volumes or devices are drawn as well, fewer pods fail because of other rules.
    if random.chance(if flavour.has_objects() { 20 } else { 60 }) {
        let mut affinity = Affinity::default();
        draw_affinity(random, &mut affinity, Carrier::Spec(flavour));
        if affinity != Affinity::default() {
            pod.spec.affinity = Some(affinity.into());
        }
    }
    if flavour == Flavour::Extensions && random.chance(30) {
        let mut affinity = Affinity::default();
        draw_affinity(random, &mut affinity, Carrier::Annotation);
        let json = serde_json::to_string(&affinity).expect("affinity is JSON");
        pod.metadata.annotations.insert(AFFINITY_ANNOTATION.to_owned(), json);
    }
    if flavour == Flavour::Extensions && random.chance(15) {
        let mut namespaces = random.words(&NAMESPACES, 1, 2);
        if random.chance(30) {
            namespaces = vec!["*".to_owned()];
        }
        pod.metadata.annotations.insert(TOLERATION_ANNOTATION.to_owned(), namespaces.join(","));
    }
    if flavour == Flavour::Extensions && random.chance(25) {
        // Terms that other pods also have.
        let anti_affinity =
            pod.spec.affinity.get_or_insert_default().pod_anti_affinity.get_or_insert_default();
        let labels = [("app".to_owned(), random.word(&["web", "db"]))];
        anti_affinity.required_during_scheduling_ignored_during_execution.push(PodAffinityTerm {
            label_selector: Some(LabelSelector { match_labels: labels.into(), ..LabelSelector::default() }),
            topology_key: random.word(&[HOSTNAME, ZONE]),
            ..PodAffinityTerm::default()
        });
        if random.chance(80) {
            pod.metadata.annotations.insert(RELAX_AFTER_ANNOTATION.to_owned(), relax_after(random));
        }
    }
    if random.chance(if flavour.has_objects() { 10 } else { 25 }) {
        for topology_key in random.words(&[HOSTNAME, ZONE, RACK], 1, 2) {
            pod.spec.topology_spread_constraints.push(spread(random, topology_key));
        }
    }
}

fn relax_after(random: &mut Random) -> String {
    random.word(&["30s", "10m", "11m"])
}

/// Where terms stand, which decides what may be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carrier {
    Spec(Flavour),
    Annotation,
}

impl Carrier {
    fn has_extensions(self) -> bool {
        matches!(self, Carrier::Spec(Flavour::Extensions) | Carrier::Annotation)
    }

    fn is_proposal(self) -> bool {
        self == Carrier::Annotation
    }
}

fn draw_affinity(random: &mut Random, affinity: &mut Affinity, carrier: Carrier) {
    if random.chance(30) {
        affinity.node_affinity = Some(node_affinity(random, carrier));
    }
    if random.chance(45) {
        affinity.pod_affinity = Some(pod_affinity(random, carrier));
    }
    if random.chance(45) {
        let mut anti_affinity = pod_affinity(random, carrier);
        let PodAffinity {
            required_during_scheduling_required_during_execution: executing,
            required_during_scheduling_ignored_during_execution: required,
            ..
        } = &mut anti_affinity;
        let required = required.iter_mut().filter(|_| carrier.is_proposal());
        for term in executing.iter_mut().chain(required) {
            term.limit = random.chance(40).then(|| random.below(4) as i32);
        }
        affinity.pod_anti_affinity = Some(anti_affinity);
    }
}

fn node_affinity(random: &mut Random, carrier: Carrier) -> NodeAffinity {
    let mut affinity = NodeAffinity::default();
    if random.chance(40) {
        let least = usize::from(!carrier.is_proposal() || random.chance(90));
        affinity.required_during_scheduling_ignored_during_execution =
            Some(node_selector(random, carrier.is_proposal(), least));
        if let Some(required) = &mut affinity.required_during_scheduling_ignored_during_execution
            && carrier.is_proposal()
            && random.chance(40)
        {
            required.relax_after = Some(relax_after(random));
        }
    }
    if carrier.has_extensions() && random.chance(30) {
        let least = usize::from(random.chance(90));
        affinity.required_during_scheduling_required_during_execution =
            Some(node_selector(random, true, least));
    }
    while random.chance(40) {
        let mut term = PreferredSchedulingTerm { weight: weight(random), ..Default::default() };
        let mut preference = node_term(random, carrier.is_proposal());
        if !carrier.is_proposal() && random.chance(15) {
            // The API server only warns of this one, and kube-scheduler fails on it.
            preference.match_expressions.push(SelectorRequirement {
                key: "cores".to_owned(),
                operator: "Gt".to_owned(),
                values: vec!["-2".to_owned()],
            });
        }
        if carrier.is_proposal() && random.chance(50) {
            term.match_expressions = std::mem::take(&mut preference.match_expressions);
        } else {
            term.preference = Some(preference);
        }
        affinity.preferred_during_scheduling_ignored_during_execution.push(term);
    }
    affinity
}

fn node_selector(random: &mut Random, proposal: bool, least: usize) -> NodeSelector {
    let n = least * (1 + random.below(2));
    NodeSelector {
        node_selector_terms: (0..n).map(|_| node_term(random, proposal)).collect(),
        ..NodeSelector::default()
    }
}

fn node_term(random: &mut Random, proposal: bool) -> NodeSelectorTerm {
    let mut term = NodeSelectorTerm::default();
    if random.chance(6) {
        term.is_null = random.chance(30);
        return term;
    }
    if !proposal && random.chance(15) {
        term.match_fields.push(SelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: random.word(&["In", "NotIn"]),
            values: vec![node_name(random)],
        });
    }
    if proposal && random.chance(20) {
        let (key, values) = *random.pick(&FIELDS).expect("there are fields");
        let requirement = comparing(random, key, values);
        term.match_fields.push(requirement);
    }
    if proposal && random.chance(20) {
        let requirement = comparing(random, SLOT, &SLOTS);
        term.match_annotations.push(requirement);
    }
    if proposal && random.chance(10) {
        let requirement = comparing(random, "kernel", LABEL_VERSIONS);
        term.match_expressions.push(requirement);
    }
    for _ in 0..=random.below(2) {
        let (key, values): (_, &[&str]) = match random.below(5) {
            0 => (ZONE, &ZONES),
            1 => (RACK, &RACKS),
            2 => ("disk", &DISKS),
            3 => ("missing", &["x"]),
            _ => ("cores", &["4", "8", "16"]),
        };
        let mut requirement = requirement(random, key, values);
        if key == "cores" && random.chance(70) {
            requirement.operator = random.word(&["Gt", "Lt"]);
            requirement.values = vec![random.word(&["0", "5", "9223372036854775807"])];
        }
        term.match_expressions.push(requirement);
    }
    term
}

fn pod_affinity(random: &mut Random, carrier: Carrier) -> PodAffinity {
    let mut affinity = PodAffinity::default();
    while random.chance(40) {
        let mut term = pod_term(random, carrier, carrier.is_proposal());
        if carrier.is_proposal() && random.chance(40) {
            term.relax_after = Some(relax_after(random));
        }
        affinity.required_during_scheduling_ignored_during_execution.push(term);
    }
    while carrier.has_extensions() && random.chance(25) {
        let term = pod_term(random, carrier, true);
        affinity.required_during_scheduling_required_during_execution.push(term);
    }
    while random.chance(40) {
        let pod_affinity_term = pod_term(random, carrier, carrier.is_proposal());
        let term = WeightedPodAffinityTerm { weight: weight(random), pod_affinity_term };
        affinity.preferred_during_scheduling_ignored_during_execution.push(term);
    }
    affinity
}

fn pod_term(random: &mut Random, carrier: Carrier, proposal: bool) -> PodAffinityTerm {
    let mut term = PodAffinityTerm {
        topology_key: random.word(&TOPOLOGIES),
        label_selector: (!random.chance(4)).then(|| pod_selector(random, carrier.has_extensions())),
        ..PodAffinityTerm::default()
    };
    if proposal && random.chance(20) {
        term.topology_key = String::new();
    }
    if random.chance(25) {
        term.namespaces = Some(random.words(&NAMESPACES, 1, 2));
    } else if proposal && random.chance(20) {
        term.namespaces = Some(Vec::new());
    }
    if random.chance(25) {
        let mut selector = LabelSelector::default();
        if !random.chance(20) {
            selector.match_expressions.push(requirement(random, "team", &["data", "web"]));
        }
        term.namespace_selector = Some(selector);
    }
    if !proposal && term.label_selector.as_ref().is_some_and(|s| !mentions(s, "tier")) && random.chance(10) {
        term.match_label_keys.push("tier".to_owned());
    }
    term
}

fn pod_selector(random: &mut Random, ordering: bool) -> LabelSelector {
    let mut selector = LabelSelector::default();
    if random.chance(60) {
        selector.match_labels.insert("app".to_owned(), random.word(&["web", "db", "cache"]));
    }
    if random.chance(25) {
        selector.match_expressions.push(requirement(random, "tier", &["fe", "be"]));
    }
    if random.chance(15) {
        let mut requirement = requirement(random, "gen", &["1", "5", "30"]);
        if ordering && random.chance(60) {
            requirement.operator = random.word(&["Gt", "Lt"]);
            requirement.values = vec![random.word(&["-1", "3", "5", "20"])];
        }
        selector.match_expressions.push(requirement);
    }
    selector
}

fn mentions(selector: &LabelSelector, key: &str) -> bool {
    selector.match_expressions.iter().any(|r| r.key == key)
}

fn requirement(random: &mut Random, key: &str, values: &[&str]) -> SelectorRequirement {
    let operator = random.word(&["In", "In", "NotIn", "Exists", "DoesNotExist"]);
    let values = match operator.as_str() {
        "In" | "NotIn" => random.words(values, 1, 2),
        _ => Vec::new(),
    };
    SelectorRequirement { key: key.to_owned(), operator, values }
}

/// With one of the operators of the proposals.
fn comparing(random: &mut Random, key: &str, values: &[&str]) -> SelectorRequirement {
    let mut requirement = requirement(random, key, values);
    if random.chance(50) {
        let (operators, bounds): (_, &[&str]) = match random.below(2) {
            0 => (["Gt", "Lt"], &["-1", "3"]),
            _ => (["VersionGt", "VersionLt"], &["5.15", "v5.15.0-91", "6.1.0", "4"]),
        };
        requirement.operator = random.word(&operators);
        requirement.values = vec![random.word(bounds)];
    }
    requirement
}

fn spread(random: &mut Random, topology_key: String) -> TopologySpreadConstraint {
    let hard = random.chance(50);
    let mut policy = |percent: usize| random.chance(percent).then(|| random.word(&["Honor", "Ignore"]));
    let (node_affinity_policy, node_taints_policy) = (policy(30), policy(30));
    let label_selector = pod_selector(random, false);
    let takes_key = !mentions(&label_selector, "gen");
    TopologySpreadConstraint {
        max_skew: 1 + random.below(2) as i32,
        topology_key,
        when_unsatisfiable: if hard { "DoNotSchedule" } else { "ScheduleAnyway" }.to_owned(),
        label_selector: Some(label_selector),
        min_domains: (hard && random.chance(20)).then(|| 1 + random.below(4) as i32),
        node_affinity_policy,
        node_taints_policy,
        match_label_keys: if takes_key && random.chance(15) { vec!["gen".to_owned()] } else { Vec::new() },
    }
}

fn weight(random: &mut Random) -> i32 {
    random.pick(&[1, 5, 10, 50, 100]).copied().unwrap_or(1)
}
