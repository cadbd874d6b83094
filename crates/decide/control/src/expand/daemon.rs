//! The nodes of a DaemonSet's pods, by the checks of the DaemonSet controller, a subset of the scheduler's.

use super::draft::PodDraft;
use berth_api::feature_gates::FeatureGates;
use berth_api::object::{Node, ObjectMeta, Pod, Shared, StringMap, Taint, UNSCHEDULABLE_TAINT};
use berth_rules::{Dialect, NodeSelectorRule, TaintEffect, Tolerations};

/// The tolerations of every daemon pod: taint keys and effects. The last one is only for pods on the node's network.
///
/// Source: `AddOrUpdateDaemonPodTolerations` of the DaemonSet controller.
const TOLERATIONS: [(&str, &str); 7] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    (UNSCHEDULABLE_TAINT, "NoSchedule"),
    ("node.kubernetes.io/network-unavailable", "NoSchedule"),
];

/// The tolerations that the DaemonSet controller adds to a pod: taint keys and effects.
pub fn daemon_tolerations(host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    TOLERATIONS.into_iter().take(if host_network { 7 } else { 6 })
}

pub(super) fn add_standard_tolerations(draft: &mut PodDraft) {
    for (taint, effect) in daemon_tolerations(draft.pod.spec.host_network) {
        draft.tolerate(taint, effect);
    }
}

/// Whether a node should run a pod, and whether an existing pod may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belongs {
    pub should_run: bool,
    pub should_continue: bool,
}

/// The node requirements of a DaemonSet, parsed once for all nodes.
pub struct Eligibility {
    node_name: String,
    node_selector: Shared<StringMap>,
    required: Option<NodeSelectorRule>,
    tolerations: Tolerations,
}

impl Eligibility {
    /// The requirements of a pod of the template, with [`daemon_tolerations`] and not pinned to a node.
    pub fn of(pod: &Pod, gates: FeatureGates) -> Self {
        let affinity = pod.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        Eligibility {
            node_name: pod.spec.node_name.clone(),
            node_selector: pod.spec.node_selector.clone(),
            required: required.map(|r| NodeSelectorRule::parse(r, String::new(), Dialect::V1, false)),
            tolerations: Tolerations::parse(&pod.spec.tolerations, gates),
        }
    }

    /// Whether the pods may run on a node.
    pub fn check<'t>(
        &self,
        ObjectMeta { name, labels, .. }: &ObjectMeta,
        taints: impl Iterator<Item = &'t Taint>,
    ) -> Belongs {
        let fits = (self.node_name.is_empty() || self.node_name == *name)
            && self.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.required.as_ref().is_none_or(|required| required.matches(name, labels));
        let mut belongs = Belongs { should_run: fits, should_continue: fits };
        for taint in taints.filter(|taint| !self.tolerations.tolerate(taint)) {
            let effect = TaintEffect::parse(&taint.effect);
            belongs.should_run &= !effect.forbids_scheduling();
            belongs.should_continue &= effect != TaintEffect::NoExecute;
        }
        belongs
    }
}

/// Takes the node that a daemon pod is bound or pinned to out of it. Returns whether its controller creates and keeps such a pod for this
/// node, as far as the pod says.
pub fn belongs(pod: &mut Pod, node: &Node) -> Belongs {
    pod.spec.node_name.clear();
    if let Some(affinity) = &mut pod.spec.affinity
        && let Some(affinity) = &mut affinity.node_affinity
    {
        affinity.required_during_scheduling_ignored_during_execution = None;
    }
    let eligibility = Eligibility::of(pod, FeatureGates::default());
    eligibility.check(&node.metadata, node.spec.taints.iter())
}

/// The node that a daemon pod is bound or pinned to.
pub fn target_node(pod: &Pod) -> Option<&str> {
    if !pod.spec.node_name.is_empty() {
        return Some(&pod.spec.node_name);
    }
    let affinity = pod.spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let mut fields = required.node_selector_terms.iter().flat_map(|term| &term.match_fields);
    let pin = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
    if let [node] = pin.values.as_slice() { Some(node) } else { None }
}

/// The pinned pod of a DaemonSet is for this node instead.
pub fn pin(pod: &mut Pod, node: &str) {
    let affinity = pod.spec.affinity.as_mut().and_then(|affinity| affinity.node_affinity.as_mut());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_mut());
    let terms = required.into_iter().flat_map(|required| &mut required.node_selector_terms);
    for field in terms.flat_map(|term| &mut term.match_fields).filter(|field| field.key == "metadata.name") {
        field.values = vec![node.to_owned()];
    }
}
