//! The pods of a generated cluster: forty templates, each like that of a Deployment.

use std::fmt;

use berth_api::object::{Namespace, ObjectMeta, Pod};
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_api::syntax::labels::HOSTNAME;
use berth_rules::admission::{AdmissionOptions, admit};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::nodes::{DISK, INSTANCE_TYPE, ZONE, object};

pub const N_TEMPLATES: usize = 40;
const N_NAMESPACES: usize = 4;
/// Pod label with the number of the template.
const NUMBER: &str = "number";

/// The rules of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    /// Requests, and a toleration of the `NoSchedule` taint.
    Tolerating,
    NodeAffinity,
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
    pub kind: Kind,
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
        let text = json!(*affinity).to_string();
        pod.metadata.annotations.insert(AFFINITY_ANNOTATION.to_owned(), text);
    }
    pod
}

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
    let by_app = |i| json!({"matchLabels": {"app": app(i)}});
    let by_number = |i: usize| {
        let bound = |operator, bound: i64| json!({"key": NUMBER, "operator": operator, "values": [bound.to_string()]});
        json!({"matchExpressions": [bound("Gt", i as i64 - 1), bound("Lt", i as i64 + 1)]})
    };
    let term = |i, topology_key| {
        let selector = if label_ranges { by_number(i) } else { by_app(i) };
        json!({"labelSelector": selector, "topologyKey": topology_key})
    };
    // The first template of the same namespace: the first round is in order, so it has a pod by then.
    let other = i % N_NAMESPACES;
    let affinity = |rules: &str, strength: &str, term: Value| json!({"affinity": {rules: {strength: term}}});
    let (required, preferred) =
        ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution");
    let among = |key, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]});
    let weighted = |term| json!([{"weight": 50, "podAffinityTerm": term}]);
    let spread = |when_unsatisfiable| {
        json!({"topologySpreadConstraints": [{"maxSkew": 1 + (i % 2 * 4), "topologyKey": ZONE,
            "whenUnsatisfiable": when_unsatisfiable, "labelSelector": by_app(i)}]})
    };
    let mut spec = match kind {
        Kind::Plain => json!({}),
        Kind::Tolerating => json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}),
        Kind::NodeAffinity => {
            affinity("nodeAffinity", required, json!({"nodeSelectorTerms": [among(DISK, &["ssd"])]}))
        }
        Kind::PreferredNodeAffinity => {
            let preference = among(INSTANCE_TYPE, &["large", "huge"]);
            affinity("nodeAffinity", preferred, json!([{"weight": 10, "preference": preference}]))
        }
        Kind::ZoneAffinityToItself => affinity("podAffinity", required, json!([term(i, ZONE)])),
        Kind::ZoneAffinityToOther => affinity("podAffinity", required, json!([term(other, ZONE)])),
        Kind::HostAntiAffinity => affinity("podAntiAffinity", required, json!([term(i, HOSTNAME)])),
        Kind::PreferredZoneAffinity => affinity("podAffinity", preferred, weighted(term(other, ZONE))),
        Kind::PreferredHostAntiAffinity => {
            affinity("podAntiAffinity", preferred, weighted(term(i, HOSTNAME)))
        }
        Kind::ZoneSpread => spread("DoNotSchedule"),
        Kind::PreferredZoneSpread => spread("ScheduleAnyway"),
    };
    let cpu = ["100m", "200m", "250m", "400m"][i / 7 % 4];
    let memory = ["128Mi", "256Mi", "512Mi", "1Gi"][i / 3 % 4];
    let requests = json!({"cpu": cpu, "memory": memory});
    spec["containers"] = json!([{"name": "main", "image": app(i), "resources": {"requests": requests}}]);
    let mut labels = json!({"app": app(i), "tier": format!("tier-{}", i % 3)});
    if label_ranges {
        labels[NUMBER] = i.to_string().into();
    }
    // Admission needs a name; a test checks that all templates are accepted.
    let metadata = json!({"namespace": namespace_name(i), "name": app(i), "labels": labels});
    let mut pod: Pod = object(json!({"metadata": metadata, "spec": spec}));
    admit(&mut pod, &AdmissionOptions::default());
    PodTemplate { kind, pod }
}

fn app(i: usize) -> String {
    format!("app-{i:02}")
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
