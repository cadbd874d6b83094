//! The warnings of the API server on the creation of a pod.

use std::collections::{BTreeSet, HashMap};

use super::field::Path;
use crate::{annotation_affinity, invalid_eviction_annotations};
use berth_api::object::group::GROUP_ANNOTATION;
use berth_api::object::{
    Affinity, ContainerPort, NodeAffinity, NodeSelectorTerm, Pod, PodAffinity, PodAffinityTerm, PodSpec,
    ResourceList, SelectorRequirement,
};
use berth_api::syntax;
use berth_api::syntax::annotations::{AFFINITY_ANNOTATION, RELAX_AFTER_ANNOTATION, TOLERATION_ANNOTATION};

const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";
const REQUIRED_IGNORED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const REQUIRED_REQUIRED: &str = "requiredDuringSchedulingRequiredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const BYTE_RESOURCES: [&str; 2] = ["memory", "ephemeral-storage"];
/// Warnings beyond this many are left out.
const MAX_WARNINGS: usize = 100;
const OFF: &str = "ignored because Berth's extensions are switched off";

/// kube-apiserver's warnings about a pod after defaulting and the label key merge.
pub fn creation_warnings(pod: &Pod) -> Vec<String> {
    let mut warnings = Vec::new();
    name_warning(&pod.metadata.name, &mut warnings);
    let spec_path = Path::Root("spec");
    let spec = &pod.spec;
    let affinity_path = spec_path.child("affinity");

    let selector_path = spec_path.child("nodeSelector");
    for key in spec.node_selector.keys() {
        if let Some(message) = deprecated_node_label(key) {
            warnings.push(format!("{}: {message}", selector_path.key(key)));
        }
    }
    if let Some(node_affinity) = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref()) {
        node_affinity_warnings(node_affinity, &affinity_path.child("nodeAffinity"), &mut warnings);
    }
    for (i, constraint) in spec.topology_spread_constraints.iter().enumerate() {
        let spread_path = spec_path.child("topologySpreadConstraints");
        let path = spread_path.index(i);
        let key = &constraint.topology_key;
        if let Some(message) = deprecated_node_label(key) {
            warnings.push(format!("{}: {key} is {message}", path.child("topologyKey")));
        }
        if constraint.label_selector.is_none() {
            warnings.push(format!("{}: {NULL_SELECTOR}", path.child("labelSelector")));
        }
    }
    const CRITICAL_POD: &str = "scheduler.alpha.kubernetes.io/critical-pod";
    if pod.metadata.annotations.contains_key(CRITICAL_POD) {
        warnings.push(format!(
            "metadata.annotations[{CRITICAL_POD}]: non-functional in v1.16+; use the \"priorityClassName\" field instead"
        ));
    }
    for (i, _) in spec.volumes.iter().enumerate().filter(|(_, volume)| volume.rbd.is_some()) {
        let volumes = spec_path.child("volumes");
        warnings.push(format!(
            "{}: deprecated in v1.28, non-functional in v1.31+",
            volumes.index(i).child("rbd")
        ));
    }
    for name in BYTE_RESOURCES {
        fractional_bytes(&spec.overhead, name, &spec_path.child("overhead"), &mut warnings);
    }
    container_warnings(spec, &mut warnings);
    if let Some(affinity) = &spec.affinity {
        null_selectors(affinity, &affinity_path, false, &mut warnings);
    }
    warnings.truncate(MAX_WARNINGS);
    warnings
}

/// Warnings about the proposals' fields: the same as for the corresponding v1 fields; and about annotations that the enforcer ignores.
pub fn extension_warnings(pod: &Pod) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(affinity) = &pod.spec.affinity {
        let spec_path = Path::Root("spec");
        let path = spec_path.child("affinity");
        if let Some(node_affinity) = &affinity.node_affinity {
            enforced_node_warnings(node_affinity, &path.child("nodeAffinity"), &mut warnings);
        }
        null_selectors(affinity, &path, true, &mut warnings);
    }
    if let Ok(Some(affinity)) = annotation_affinity(pod) {
        let annotations = Path::Root("metadata.annotations");
        let path = annotations.key(AFFINITY_ANNOTATION);
        if let Some(node_affinity) = &affinity.node_affinity {
            let node_path = path.child("nodeAffinity");
            enforced_node_warnings(node_affinity, &node_path, &mut warnings);
            node_affinity_warnings(node_affinity, &node_path, &mut warnings);
        }
        null_selectors(&affinity, &path, true, &mut warnings);
        null_selectors(&affinity, &path, false, &mut warnings);
    }
    for (annotation, problem) in invalid_eviction_annotations(&pod.metadata) {
        warnings.push(format!("metadata.annotations[{annotation}]: {problem}"));
    }
    warnings.truncate(MAX_WARNINGS);
    warnings
}

/// Removes the proposals' fields from the pod, as an API server without them does, each with a warning. The annotation
/// stays.
pub(super) fn drop_extensions(pod: &mut Pod) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut dropped = |field: &str| warnings.push(format!("spec.affinity.{field}: {OFF}"));
    if let Some(affinity) = &mut pod.spec.affinity {
        let affinity = &mut **affinity;
        if let Some(rules) = &mut affinity.node_affinity {
            if rules.required_during_scheduling_required_during_execution.take().is_some() {
                dropped(&format!("nodeAffinity.{REQUIRED_REQUIRED}"));
            }
            let required = &mut rules.required_during_scheduling_ignored_during_execution;
            if required.as_mut().and_then(|required| required.relax_after.take()).is_some() {
                dropped(&format!("nodeAffinity.{REQUIRED_IGNORED}.relaxAfter"));
            }
        }
        for (name, rules) in [
            ("podAffinity", &mut affinity.pod_affinity),
            ("podAntiAffinity", &mut affinity.pod_anti_affinity),
        ] {
            let Some(rules) = rules else { continue };
            if !std::mem::take(&mut rules.required_during_scheduling_required_during_execution).is_empty() {
                dropped(&format!("{name}.{REQUIRED_REQUIRED}"));
            }
            let required = rules.required_during_scheduling_ignored_during_execution.iter_mut().enumerate();
            let required = required.map(|(i, term)| (format!("{REQUIRED_IGNORED}[{i}]"), term));
            let preferred = rules.preferred_during_scheduling_ignored_during_execution.iter_mut().enumerate();
            let preferred = preferred
                .map(|(i, w)| (format!("{PREFERRED}[{i}].podAffinityTerm"), &mut w.pod_affinity_term));
            for (path, term) in required.chain(preferred) {
                if term.limit.take().is_some() {
                    dropped(&format!("{name}.{path}.limit"));
                }
                if term.relax_after.take().is_some() {
                    dropped(&format!("{name}.{path}.relaxAfter"));
                }
            }
        }
    }
    for annotation in [AFFINITY_ANNOTATION, TOLERATION_ANNOTATION, RELAX_AFTER_ANNOTATION, GROUP_ANNOTATION] {
        if pod.metadata.annotations.contains_key(annotation) {
            warnings.push(format!("metadata.annotations[{annotation}]: {OFF}"));
        }
    }
    warnings
}

fn name_warning(name: &str, warnings: &mut Vec<String>) {
    let problems = if name.is_empty() { vec![] } else { syntax::dns_label(name) };
    if !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label \
             is recommended: [{}]",
            problems.join(" ")
        ));
    }
}

/// Why a label of nodes is out of use, if it is, and what replaces it.
pub fn deprecated_node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

fn node_affinity_warnings(rules: &NodeAffinity, path: &Path<'_>, warnings: &mut Vec<String>) {
    if let Some(selector) = &rules.required_during_scheduling_ignored_during_execution {
        node_terms(&selector.node_selector_terms, &path.child(REQUIRED_IGNORED), warnings);
    }
    let preferred_path = path.child(PREFERRED);
    for (i, term) in rules.preferred_during_scheduling_ignored_during_execution.iter().enumerate() {
        let term_path = preferred_path.index(i);
        if let Some(preference) = &term.preference {
            let preference_path = term_path.child("preference");
            node_expressions(&preference.match_expressions, true, &preference_path, warnings);
        }
        node_expressions(&term.match_expressions, true, &term_path, warnings);
    }
}

fn enforced_node_warnings(rules: &NodeAffinity, path: &Path<'_>, warnings: &mut Vec<String>) {
    if let Some(selector) = &rules.required_during_scheduling_required_during_execution {
        node_terms(&selector.node_selector_terms, &path.child(REQUIRED_REQUIRED), warnings);
    }
}

fn node_terms(terms: &[NodeSelectorTerm], path: &Path<'_>, warnings: &mut Vec<String>) {
    let terms_path = path.child("nodeSelectorTerms");
    for (i, term) in terms.iter().enumerate() {
        node_expressions(&term.match_expressions, false, &terms_path.index(i), warnings);
    }
}

/// `check_values`: whether to warn about values, which is only needed where validation accepts invalid ones.
fn node_expressions(
    expressions: &[SelectorRequirement],
    check_values: bool,
    path: &Path<'_>,
    warnings: &mut Vec<String>,
) {
    let expressions_path = path.child("matchExpressions");
    for (i, requirement) in expressions.iter().enumerate() {
        let requirement_path = expressions_path.index(i);
        let key = &requirement.key;
        if let Some(message) = deprecated_node_label(key) {
            warnings.push(format!("{}: {key} is {message}", requirement_path.child("key")));
        }
        if check_values {
            let values_path = requirement_path.child("values");
            for (j, value) in requirement.values.iter().enumerate() {
                for message in syntax::label_value(value) {
                    warnings.push(format!("{}: {value} is invalid, {message}", values_path.index(j)));
                }
            }
        }
    }
}

fn null_selectors(affinity: &Affinity, path: &Path<'_>, enforced: bool, warnings: &mut Vec<String>) {
    let named = [("podAffinity", &affinity.pod_affinity), ("podAntiAffinity", &affinity.pod_anti_affinity)];
    for (name, rules) in named {
        let Some(rules) = rules else { continue };
        let rules_path = path.child(name);
        let PodAffinity {
            required_during_scheduling_required_during_execution: required_required,
            required_during_scheduling_ignored_during_execution: required_ignored,
            preferred_during_scheduling_ignored_during_execution: preferred,
        } = rules;
        let mut check = |term: &PodAffinityTerm, path: &Path<'_>| {
            if term.label_selector.is_none() {
                warnings.push(format!("{}: {NULL_SELECTOR}", path.child("labelSelector")));
            }
        };
        let (terms, terms_path) = if enforced {
            (required_required, rules_path.child(REQUIRED_REQUIRED))
        } else {
            (required_ignored, rules_path.child(REQUIRED_IGNORED))
        };
        for (i, term) in terms.iter().enumerate() {
            check(term, &terms_path.index(i));
        }
        if !enforced {
            let preferred_path = rules_path.child(PREFERRED);
            for (i, weighted) in preferred.iter().enumerate() {
                check(&weighted.pod_affinity_term, &preferred_path.index(i).child("podAffinityTerm"));
            }
        }
    }
}

/// Bytes have no fractions, but the API server accepts them for old objects.
fn fractional_bytes(list: &ResourceList, name: &str, path: &Path<'_>, warnings: &mut Vec<String>) {
    if let Some(quantity) = list.get(name).filter(|quantity| !quantity.is_whole()) {
        warnings.push(format!(
            "{}: fractional byte value \"{quantity}\" is invalid, must be an integer",
            path.key(name)
        ));
    }
}

fn container_warnings(spec: &PodSpec, warnings: &mut Vec<String>) {
    let spec_path = Path::Root("spec");
    let (init_path, path) = (spec_path.child("initContainers"), spec_path.child("containers"));
    let init_containers = spec.init_containers.iter().enumerate().map(|(i, c)| (init_path.index(i), c));
    let containers = spec.containers.iter().enumerate().map(|(i, c)| (path.index(i), c));
    let all: Vec<_> = init_containers.chain(containers).collect();

    for (path, container) in &all {
        let resources_path = path.child("resources");
        for name in BYTE_RESOURCES {
            fractional_bytes(&container.resources.limits, name, &resources_path.child("limits"), warnings);
            fractional_bytes(
                &container.resources.requests,
                name,
                &resources_path.child("requests"),
                warnings,
            );
        }
    }

    let mut seen = SeenPorts::default();
    for (path, container) in &all {
        let ports_path = path.child("ports");
        for (i, port) in container.ports.iter().enumerate() {
            if warnings.len() >= MAX_WARNINGS {
                return;
            }
            let port_path = ports_path.index(i).to_string();
            if !port.host_ip.is_empty() && port.host_port == 0 {
                warnings.push(format!(
                    "{port_path}: hostIP set without hostPort: {{Name:{} HostPort:{} ContainerPort:{} Protocol:{} \
                     HostIP:{}}}",
                    port.name, port.host_port, port.container_port, port.protocol, port.host_ip
                ));
            }
            let room = MAX_WARNINGS - warnings.len();
            for (other_path, other) in seen.related(port, room) {
                let relation = port_relation(port, other);
                warnings.push(format!("{port_path}: {relation} port definition with {other_path}"));
            }
            seen.add(port, port_path);
        }
    }
}

/// The port definitions so far, found by how they conflict: a comparison of all pairs would be quadratic.
#[derive(Default)]
struct SeenPorts<'p> {
    all: Vec<(String, &'p ContainerPort)>,
    places: HashMap<(i32, &'p str, Claim<'p>), Vec<usize>>,
}

/// What of the host several definitions of a container port and protocol share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Claim<'p> {
    Any,
    Port(i32),
    Address(i32, &'p str),
}

impl<'p> SeenPorts<'p> {
    fn add(&mut self, port: &'p ContainerPort, path: String) {
        for claim in [Claim::Any, Claim::Port(port.host_port), Claim::Address(port.host_port, &port.host_ip)]
        {
            let key = (port.container_port, port.protocol.as_str(), claim);
            self.places.entry(key).or_default().push(self.all.len());
        }
        self.all.push((path, port));
    }

    /// The first definitions, at most this many, that conflict with one of the same container port and protocol. Definitions
    /// with different host ports, or with different addresses of one host port, do not conflict.
    fn related(&self, port: &'p ContainerPort, at_most: usize) -> Vec<&(String, &'p ContainerPort)> {
        let claims = match (port.host_port, port.host_ip.as_str()) {
            (0, _) => vec![Claim::Any],
            (host_port, "") => vec![Claim::Port(0), Claim::Port(host_port)],
            (host_port, ip) => {
                vec![Claim::Port(0), Claim::Address(host_port, ip), Claim::Address(host_port, "")]
            }
        };
        let of = |claim| self.places.get(&(port.container_port, port.protocol.as_str(), claim));
        let places: BTreeSet<usize> = claims
            .into_iter()
            .filter_map(of)
            .flat_map(|places| places.iter().take(at_most))
            .copied()
            .collect();
        places.into_iter().take(at_most).map(|place| &self.all[place]).collect()
    }
}

/// How two definitions of one container port and protocol conflict, if they do.
fn port_relation(port: &ContainerPort, other: &ContainerPort) -> &'static str {
    if port.host_ip == other.host_ip && port.host_port == other.host_port {
        "duplicate"
    } else if port.host_port == 0 || other.host_port == 0 {
        "overlapping"
    } else {
        "dangerously ambiguous"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_invalid_annotation_about_evictions_causes_a_warning() {
        let pod = |text: &str| -> Pod {
            let annotations = json!({"scheduling.berth.dev/without-target": text});
            serde_json::from_value(json!({"metadata": {"name": "p", "annotations": annotations}})).unwrap()
        };
        let expected = "metadata.annotations[scheduling.berth.dev/without-target]: \"soon\" is not evict, hold, or a \
                        duration such as 90s, 5m or 1h30m; the default applies";
        assert_eq!(extension_warnings(&pod("soon")), [expected]);
        assert_eq!(extension_warnings(&pod("hold")), [""; 0]);
    }

    #[test]
    fn warnings_about_ports_are_those_of_all_pairs_and_bounded() {
        let ports: Vec<_> = (0..2 * 3 * 3)
            .map(|i| {
                let ip = ["", "10.0.0.1", "10.0.0.2"][i / 6];
                json!({"containerPort": 80 + i % 2, "hostPort": (i / 2) % 3, "hostIP": ip, "protocol": "TCP"})
            })
            .collect();
        let warned = |ports: &[serde_json::Value]| {
            let pod =
                json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "ports": ports}]}});
            let warnings = creation_warnings(&serde_json::from_value(pod).unwrap());
            warnings.into_iter().filter(|w| w.contains(" port definition with ")).collect::<Vec<_>>()
        };
        let mut expected = Vec::new();
        for (i, port) in ports.iter().enumerate() {
            for (j, other) in ports[..i].iter().enumerate() {
                let same = |field: &str| port[field] == other[field];
                let has = |port: &serde_json::Value| port["hostPort"] != 0;
                let relation = match (same("hostIP"), same("hostPort")) {
                    _ if !same("containerPort") => continue,
                    (true, true) => "duplicate",
                    _ if !has(port) || !has(other) => "overlapping",
                    (false, true) if port["hostIP"] == "" || other["hostIP"] == "" => "dangerously ambiguous",
                    _ => continue,
                };
                let place = |i| format!("spec.containers[0].ports[{i}]");
                expected.push(format!("{}: {relation} port definition with {}", place(i), place(j)));
            }
        }
        assert_eq!(warned(&ports), expected);
        assert_eq!(warned(&vec![ports[0].clone(); 8000]).len(), MAX_WARNINGS);
    }
}
