//! Parsing the rules of a pod.

use super::{
    Dialect, HostPort, NodeFeatures, NodeSelectorRule, PodRequests, PodRules, PreferredNodeTerm, RuleOptions,
    Tolerations, annotation_affinity, pod_term, relaxed_rules, spread,
};
use berth_api::feature_gates::VersionChange;
use berth_api::object::{Affinity, NodeAffinity, Pod};
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_api::syntax::labels::OS;

impl PodRules {
    /// Parses an admitted pod: defaulted, with matchLabelKeys merged.
    ///
    /// The proposals' fields in `spec.affinity` and the annotation [`AFFINITY_ANNOTATION`] are read only with
    /// extensions.
    pub fn parse(pod: &Pod, RuleOptions { extensions, feature_gates }: RuleOptions) -> PodRules {
        let spec = &pod.spec;
        let mut rules = PodRules {
            node_selector: spec.node_selector.clone().into_iter().collect(),
            spread_constraints: spread::parse(pod),
            tolerations: Tolerations::parse(&spec.tolerations, feature_gates),
            requests: match feature_gates.has(VersionChange::RequestsOfResizes) {
                true => PodRequests::of(pod),
                false => PodRequests::by_container(pod),
            },
            required_features: NodeFeatures::required_by(spec),
            host_ports: host_ports(pod),
            os_label: pod.metadata.labels.get(OS).cloned(),
            os: spec.os.as_ref().map(|os| os.name.clone()),
            images: images(pod),
            image_volumes: image_volumes(pod),
            ..PodRules::default()
        };
        if let Some(affinity) = &spec.affinity {
            rules.add_affinity(affinity, "spec.affinity", Dialect::V1, pod, extensions);
        }
        if extensions {
            let path = format!("metadata.annotations[{AFFINITY_ANNOTATION}]");
            match annotation_affinity(pod) {
                Ok(None) => {}
                Ok(Some(affinity)) => {
                    rules.add_affinity(&affinity, &path, Dialect::Proposal, pod, extensions)
                }
                Err(error) => rules.pod_term_error = Some(format!("{path}: {error}")),
            }
            rules.find_relaxable(pod);
            if !spec.node_name.is_empty() {
                rules.relax(relaxed_rules(&pod.metadata).iter().map(String::as_str));
            }
        }
        rules
    }

    fn add_affinity(
        &mut self,
        affinity: &Affinity,
        path: &str,
        dialect: Dialect,
        pod: &Pod,
        extensions: bool,
    ) {
        if let Some(node) = &affinity.node_affinity {
            self.add_node_affinity(node, &format!("{path}.nodeAffinity"), dialect, extensions);
        }
        let mut parse = |affinity: &Option<_>, anti, name| {
            let Some(affinity) = affinity else { return Default::default() };
            let parsed = pod_term::parse(affinity, anti, &format!("{path}.{name}"), dialect, pod, extensions);
            parsed.unwrap_or_else(|e| {
                self.pod_term_error.get_or_insert(e);
                Default::default()
            })
        };
        let (required, preferred) = parse(&affinity.pod_affinity, false, "podAffinity");
        let (anti_required, anti_preferred) = parse(&affinity.pod_anti_affinity, true, "podAntiAffinity");
        self.required_affinity.extend(required);
        self.preferred_affinity.extend(preferred);
        self.required_anti_affinity.extend(anti_required);
        self.preferred_anti_affinity.extend(anti_preferred);
    }

    fn add_node_affinity(&mut self, affinity: &NodeAffinity, path: &str, dialect: Dialect, extensions: bool) {
        if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
            let path = format!("{path}.requiredDuringSchedulingIgnoredDuringExecution");
            self.required_node_affinity.push(NodeSelectorRule::parse(selector, path, dialect, false));
        }
        let executing = affinity.required_during_scheduling_required_during_execution.as_ref();
        if let Some(selector) = executing.filter(|_| extensions) {
            let path = format!("{path}.requiredDuringSchedulingRequiredDuringExecution");
            self.required_node_affinity.push(NodeSelectorRule::parse(
                selector,
                path,
                Dialect::Proposal,
                true,
            ));
        }
        self.has_preferred_node_affinity |=
            !affinity.preferred_during_scheduling_ignored_during_execution.is_empty();
        match PreferredNodeTerm::parse_all(affinity, path, dialect) {
            Ok(terms) => self.preferred_node_affinity.extend(terms),
            Err(error) => _ = self.preferred_node_affinity_error.get_or_insert(error),
        }
    }
}

fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let sidecars = pod.spec.init_containers.iter().filter(|c| c.is_sidecar());
    let ports = pod.spec.containers.iter().chain(sidecars).flat_map(|c| &c.ports);
    let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
    let mut ports: Vec<_> = ports
        .filter(|p| p.host_port > 0)
        .map(|p| HostPort {
            port: p.host_port,
            protocol: or(&p.protocol, "TCP"),
            ip: or(&p.host_ip, HostPort::ANY_IP),
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn images(pod: &Pod) -> Vec<String> {
    let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    containers.map(|c| normalized_image_name(&c.image)).collect()
}

fn image_volumes(pod: &Pod) -> Vec<String> {
    let images = pod.spec.volumes.iter().filter_map(|volume| volume.image.as_ref());
    images.map(|image| normalized_image_name(&image.reference)).collect()
}

/// The image name as nodes report it: with `:latest` if it has no tag.
pub fn normalized_image_name(name: &str) -> String {
    // A colon before the last slash belongs to the registry's port, not to a tag.
    if name.rfind(':') <= name.rfind('/') { format!("{name}:latest") } else { name.to_owned() }
}
