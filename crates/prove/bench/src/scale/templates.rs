//! The pods of a generated cluster: forty templates, each like that of a Deployment.

use std::fmt;

use berth_api::admission::{AdmissionOptions, admit};
use berth_api::object::{
    Affinity, Container, LabelSelector, Namespace, NodeAffinity, NodeSelector, NodeSelectorTerm, ObjectMeta,
    Pod, PodAffinity, PodAffinityTerm, PreferredSchedulingTerm, SelectorRequirement, Toleration,
    TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_api::syntax::labels::HOSTNAME;
use berth_api::syntax::quantity::Quantity;
use serde::{Serialize, Serializer};

use super::nodes::{DISK, INSTANCE_TYPE, ZONE};

/// Number of templates.
pub const N_TEMPLATES: usize = 40;
const N_NAMESPACES: usize = 4;
/// Pod label with the number of the template.
const NUMBER: &str = "number";

/// The rules of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Requests only.
    Plain,
    /// Requests, and a toleration of the `NoSchedule` taint.
    Tolerating,
    /// Required node affinity.
    NodeAffinity,
    /// Preferred node affinity.
    PreferredNodeAffinity,
    /// Required affinity to its own pods, by zone.
    ZoneAffinityToItself,
    /// Required affinity to pods of another template, by zone.
    ZoneAffinityToOther,
    /// Required anti-affinity to its own pods, by host name.
    HostAntiAffinity,
    /// Preferred affinity to pods of another template, by zone.
    PreferredZoneAffinity,
    /// Preferred anti-affinity to its own pods, by host name.
    PreferredHostAntiAffinity,
    /// Spread over zones, required.
    ZoneSpread,
    /// Spread over zones, preferred.
    PreferredZoneSpread,
}

impl Kind {
    /// In the order of reports, with the number of templates of each.
    pub const ALL: [(Kind, usize); 11] = [
        (Kind::Plain, 8),
        (Kind::Tolerating, 2),
        (Kind::NodeAffinity, 4),
        (Kind::PreferredNodeAffinity, 2),
        (Kind::ZoneAffinityToItself, 5),
        (Kind::ZoneAffinityToOther, 4),
        (Kind::HostAntiAffinity, 6),
        (Kind::PreferredZoneAffinity, 2),
        (Kind::PreferredHostAntiAffinity, 3),
        (Kind::ZoneSpread, 2),
        (Kind::PreferredZoneSpread, 2),
    ];

    /// Whether pods of this kind have no rules besides requests and tolerations.
    pub fn is_plain(self) -> bool {
        matches!(self, Kind::Plain | Kind::Tolerating)
    }

    /// Whether pods of this kind have affinity or anti-affinity to pods.
    pub fn is_inter_pod(self) -> bool {
        matches!(
            self,
            Kind::ZoneAffinityToItself
                | Kind::ZoneAffinityToOther
                | Kind::HostAntiAffinity
                | Kind::PreferredZoneAffinity
                | Kind::PreferredHostAntiAffinity
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Plain => "plain",
            Kind::Tolerating => "plain, tolerating a taint",
            Kind::NodeAffinity => "node affinity",
            Kind::PreferredNodeAffinity => "preferred node affinity",
            Kind::ZoneAffinityToItself => "zone affinity to itself",
            Kind::ZoneAffinityToOther => "zone affinity to another",
            Kind::HostAntiAffinity => "hostname anti-affinity",
            Kind::PreferredZoneAffinity => "preferred zone affinity",
            Kind::PreferredHostAntiAffinity => "preferred hostname anti-affinity",
            Kind::ZoneSpread => "zone spread",
            Kind::PreferredZoneSpread => "preferred zone spread",
        })
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A template. Its pods differ only in name.
#[derive(Clone, Debug)]
pub struct PodTemplate {
    /// Its rules.
    pub kind: Kind,
    /// A pod with the name of the template.
    pub pod: Pod,
}

/// The templates, kinds interleaved; the first of each namespace is plain. With `label_ranges`, pod terms select the same
/// pods by a number in a label, with `Gt` and `Lt`.
pub fn templates(label_ranges: bool) -> Vec<PodTemplate> {
    let kinds: Vec<Kind> =
        Kind::ALL.iter().flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count)).collect();
    // 3 and 40 have no common divisor: each kind occurs as often as `Kind::ALL` says.
    (0..N_TEMPLATES).map(|i| template(i, kinds[i * 3 % N_TEMPLATES], label_ranges)).collect()
}

/// A pod with its affinity in the annotation instead of the specification.
pub fn annotated(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    if let Some(affinity) = pod.spec.affinity.take() {
        let text = serde_json::json!(*affinity).to_string();
        pod.metadata.annotations.insert(AFFINITY_ANNOTATION.to_owned(), text);
    }
    pod
}

/// The namespaces of the templates.
pub fn namespaces() -> Vec<Namespace> {
    let namespace = |i| {
        let name = namespace_name(i);
        let labels = [("kubernetes.io/metadata.name".to_owned(), name.clone())].into();
        Namespace { metadata: ObjectMeta { name, labels, ..ObjectMeta::default() } }
    };
    (0..N_NAMESPACES).map(namespace).collect()
}

fn namespace_name(i: usize) -> String {
    format!("team-{}", i % N_NAMESPACES)
}

fn template(i: usize, kind: Kind, label_ranges: bool) -> PodTemplate {
    let mut pod = Pod::default();
    pod.metadata.namespace = namespace_name(i);
    pod.metadata.labels = [("app".to_owned(), app(i)), ("tier".to_owned(), format!("tier-{}", i % 3))].into();
    if label_ranges {
        pod.metadata.labels.insert(NUMBER.to_owned(), i.to_string());
    }
    let cpu = Quantity::from_millis([100, 200, 250, 400][i / 7 % 4]);
    let memory = Quantity::from_units([128 << 20, 256 << 20, 512 << 20, 1 << 30][i / 3 % 4]);
    let mut container = Container { name: "main".to_owned(), image: app(i), ..Container::default() };
    container.resources.requests = [("cpu".to_owned(), cpu), ("memory".to_owned(), memory)].into();
    pod.spec.containers = vec![container].into();

    let node = |node_affinity| Affinity { node_affinity: Some(node_affinity), ..Affinity::default() };
    let near = |pod_affinity| Affinity { pod_affinity: Some(pod_affinity), ..Affinity::default() };
    let far =
        |pod_anti_affinity| Affinity { pod_anti_affinity: Some(pod_anti_affinity), ..Affinity::default() };
    // The first template of the same namespace: the first round is in order, so it has a pod by then.
    let other = i % N_NAMESPACES;
    let term = |i, topology_key: &str| PodAffinityTerm {
        label_selector: if label_ranges { range(i) } else { selector(i) },
        topology_key: topology_key.to_owned(),
        ..PodAffinityTerm::default()
    };
    let spec = &mut pod.spec;
    match kind {
        Kind::Plain => {}
        Kind::Tolerating => {
            let toleration = Toleration {
                key: "dedicated".to_owned(),
                operator: "Exists".to_owned(),
                ..Default::default()
            };
            spec.tolerations = vec![toleration].into();
        }
        Kind::NodeAffinity => spec.affinity = Some(node(required_node(DISK, &["ssd"])).into()),
        Kind::PreferredNodeAffinity => {
            spec.affinity = Some(node(preferred_node(INSTANCE_TYPE, &["large", "huge"])).into());
        }
        Kind::ZoneAffinityToItself => spec.affinity = Some(near(required(term(i, ZONE))).into()),
        Kind::ZoneAffinityToOther => spec.affinity = Some(near(required(term(other, ZONE))).into()),
        Kind::HostAntiAffinity => spec.affinity = Some(far(required(term(i, HOSTNAME))).into()),
        Kind::PreferredZoneAffinity => spec.affinity = Some(near(preferred(term(other, ZONE))).into()),
        Kind::PreferredHostAntiAffinity => spec.affinity = Some(far(preferred(term(i, HOSTNAME))).into()),
        Kind::ZoneSpread => spec.topology_spread_constraints = vec![spread(i, "DoNotSchedule")].into(),
        Kind::PreferredZoneSpread => {
            spec.topology_spread_constraints = vec![spread(i, "ScheduleAnyway")].into()
        }
    }
    // Admission needs a name; a test checks that all templates are accepted.
    pod.metadata.name = app(i);
    admit(&mut pod, &AdmissionOptions::default());
    PodTemplate { kind, pod }
}

fn app(i: usize) -> String {
    format!("app-{i:02}")
}

fn selector(i: usize) -> Option<LabelSelector> {
    Some(LabelSelector { match_labels: [("app".to_owned(), app(i))].into(), ..LabelSelector::default() })
}

/// The pods of a template by their number.
fn range(i: usize) -> Option<LabelSelector> {
    let requirement = |operator: &str, bound: i64| SelectorRequirement {
        key: NUMBER.to_owned(),
        operator: operator.to_owned(),
        values: vec![bound.to_string()],
    };
    let match_expressions = vec![requirement("Gt", i as i64 - 1), requirement("Lt", i as i64 + 1)];
    Some(LabelSelector { match_expressions, ..LabelSelector::default() })
}

fn required(term: PodAffinityTerm) -> PodAffinity {
    PodAffinity { required_during_scheduling_ignored_during_execution: vec![term], ..PodAffinity::default() }
}

fn preferred(pod_affinity_term: PodAffinityTerm) -> PodAffinity {
    PodAffinity {
        preferred_during_scheduling_ignored_during_execution: vec![WeightedPodAffinityTerm {
            weight: 50,
            pod_affinity_term,
        }],
        ..PodAffinity::default()
    }
}

fn node_term(key: &str, values: &[&str]) -> NodeSelectorTerm {
    let values = values.iter().map(|v| (*v).to_owned()).collect();
    let requirement = SelectorRequirement { key: key.to_owned(), operator: "In".to_owned(), values };
    NodeSelectorTerm { match_expressions: vec![requirement], ..NodeSelectorTerm::default() }
}

fn required_node(key: &str, values: &[&str]) -> NodeAffinity {
    NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: vec![node_term(key, values)],
            ..NodeSelector::default()
        }),
        ..NodeAffinity::default()
    }
}

fn preferred_node(key: &str, values: &[&str]) -> NodeAffinity {
    let preference = Some(node_term(key, values));
    NodeAffinity {
        preferred_during_scheduling_ignored_during_execution: vec![PreferredSchedulingTerm {
            weight: 10,
            preference,
            match_expressions: vec![],
        }],
        ..NodeAffinity::default()
    }
}

fn spread(i: usize, when_unsatisfiable: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1 + (i % 2 * 4) as i32,
        topology_key: ZONE.to_owned(),
        when_unsatisfiable: when_unsatisfiable.to_owned(),
        label_selector: selector(i),
        ..TopologySpreadConstraint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_valid_and_every_kind_there() {
        let templates = templates(false);
        for template in templates.iter().chain(&super::templates(true)) {
            let mut pod = template.pod.clone();
            let admission = admit(&mut pod, &AdmissionOptions::default());
            assert!(admission.is_accepted(), "{}: {:?}", template.kind, admission.errors);
            assert_eq!(pod, template.pod);
        }
        for (kind, count) in Kind::ALL {
            assert_eq!(templates.iter().filter(|t| t.kind == kind).count(), count, "{kind}");
        }
        assert!(templates[..N_NAMESPACES].iter().all(|t| t.kind.is_plain()));
    }
}
