//! Node admission: the checks that a node makes when a pod is bound to it, by any scheduler.
//!
//! First the kubelet's checks, in its order and words (`pkg/kubelet/lifecycle/predicate.go`): operating system, resources, node
//! affinity and selector, node name, host ports, `NoExecute` taints. Then the proposals' rules between pods that are required
//! during execution and have the node as topology (`kubernetes.io/hostname`, and for anti-affinity "all topologies",
//! which includes it). A node cannot see other topologies.

use std::borrow::Cow;

use berth_api::syntax::labels::{HOSTNAME, OS};
use berth_rules::{PodTerm, TaintEffect, TopologyScope};

use crate::plugins::{is_extended_resource, rejects, requires, tolerate};
use crate::state::State;
use crate::state::counting::matcher::MatcherId;
use crate::state::node::NodeRecord;
use crate::state::node::shortage::{Shortage, shortages};
use crate::state::pod::PodRecord;
use crate::state::pod::prepared::PreparedPod;
use crate::state::rule_set::{RequiredTerm, RuleSet};

/// Why a node does not admit a pod, in kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRejection {
    /// `status.reason` of the failed pod: `OutOfcpu` (and the same for other resources), `NodeAffinity`, `NodeName`,
    /// `NodePorts`, `TaintToleration`, `PodOSNotSupported`, `PodOSSelectorNodeLabelDoesNotMatch`, for the proposals' rules `PodAffinity` and `PodAntiAffinity`, and
    /// `InvalidNodeInfo` for an unknown node.
    pub reason: String,
    /// `status.message` of the pod.
    pub message: String,
}

/// Whether a node admits a pod: [`Cluster::node_admission`](crate::Cluster::node_admission).
pub(crate) fn node_admission(
    state: &State,
    prepared: &PreparedPod,
    node_name: &str,
) -> Result<(), NodeRejection> {
    let signature = state.decided_signature(prepared);
    let Some(id) = state.find_node(node_name) else {
        return Err(NodeRejection {
            reason: "InvalidNodeInfo".to_owned(),
            message: "Kubelet cannot get node info.".to_owned(),
        });
    };
    let node = state.nodes.get(id);
    let is_itself = |p: &PodRecord| (p.namespace, &p.name) == (prepared.namespace, &prepared.name);
    let others = || node.pods.iter().map(|pod| state.pods.get(*pod)).filter(|p| !is_itself(p));
    let rule_set = state.rule_sets.get(prepared.rule_set);

    let itself = node.pods.iter().map(|pod| state.pods.get(*pod)).find(|p| is_itself(p));
    let mut without = None;
    if let Some(itself) = itself {
        let mut record = node.without_pods();
        let rule_set = state.rule_sets.get(itself.rule_set);
        let rules = rule_set.rules();
        record.account(&rule_set.requests, &rules.requests, &rules.host_ports, -1);
        if let Some(taken) = state.taken_by(itself.devices.as_deref()) {
            record.account_devices(&taken, -1);
        }
        without = Some(record);
    }
    let n_pods = node.pods.len() as i64 - i64::from(itself.is_some());
    let node = without.as_ref().unwrap_or(node);
    state.has_operating_system(rule_set, node)?;
    state.has_resources(prepared, rule_set, node, n_pods)?;
    state.checks_node(prepared, rule_set, node, node_name)?;

    for (term, matcher) in on_node(&rule_set.required_anti_affinity, &rule_set.rules().required_anti_affinity)
    {
        let matched = |p: &&PodRecord| state.signatures.get(p.signature).matches(matcher);
        if let Some(other) = others().filter(matched).nth(term.limit as usize) {
            return Err(state.anti_affinity(term, other));
        }
    }
    let matching_terms = &state.signatures.get(signature).matched_by_existing;
    for other in others() {
        let theirs = state.rule_sets.get(other.rule_set);
        let mut terms = on_node(&theirs.required_anti_affinity, &theirs.rules().required_anti_affinity);
        let is_violated = |(term, matcher): &(&PodTerm, MatcherId)| {
            let matched = |p: &&PodRecord| {
                !std::ptr::eq(*p, other) && state.signatures.get(p.signature).matches(*matcher)
            };
            let limit = term.limit as usize;
            matching_terms.binary_search(matcher).is_ok()
                && (limit == 0 || others().filter(matched).nth(limit - 1).is_some())
        };
        if let Some((term, _)) = terms.find(is_violated) {
            return Err(state.anti_affinity(term, other));
        }
    }
    for (term, matcher) in on_node(&rule_set.required_affinity, &rule_set.rules().required_affinity) {
        if term.topology == TopologyScope::All {
            continue;
        }
        let matched = |p: &PodRecord| state.signatures.get(p.signature).matches(matcher);
        let any_match = || state.pods.iter().any(|(_, p)| p.node.is_some() && !is_itself(p) && matched(p));
        let first_of_group = || state.signatures.get(signature).matches(matcher) && !any_match();
        if !others().any(matched) && !first_of_group() {
            let reason = "node(s) didn't match pod affinity rules";
            let detail = format!("{}: {}", term.path, requires(term));
            return Err(failed("PodAffinity", &format!("{reason} ({detail})")));
        }
    }
    Ok(())
}

impl State {
    /// A kubelet labels its node; without the label, it is Linux, as the simulated nodes are.
    fn has_operating_system(&self, rule_set: &RuleSet, node: &NodeRecord) -> Result<(), NodeRejection> {
        let label = self.symbols.get(OS).and_then(|key| node.labels.get(key));
        let of_node = label.map_or("linux", |os| self.symbols.text(os));
        let differs = |os: &Option<String>| os.as_ref().is_some_and(|os| os != of_node);
        let (reason, what) = match rule_set.rules() {
            rules if differs(&rules.os_label) => (
                "PodOSSelectorNodeLabelDoesNotMatch",
                "the `kubernetes.io/os` label doesn't match node label",
            ),
            rules if differs(&rules.os) => ("PodOSNotSupported", "the OS field doesn't match node OS"),
            _ => return Ok(()),
        };
        let message = format!("Failed to admit pod as {what}");
        Err(NodeRejection { reason: reason.to_owned(), message })
    }

    /// The kubelet ignores extended resources that the node does not have: other components allocate them.
    fn has_resources(
        &self,
        prepared: &PreparedPod,
        rule_set: &RuleSet,
        node: &NodeRecord,
        n_pods: i64,
    ) -> Result<(), NodeRejection> {
        let mut requests = Cow::Borrowed(&rule_set.requests);
        if let Some(taken) = self.taken_by(prepared.devices.as_deref()) {
            requests.to_mut().add(&taken, 1);
        }
        let missing = |name| {
            is_extended_resource(self.symbols.text(name)) && node.allocatable.resources.scalar(name).is_none()
        };
        let scalar = requests.scalar.iter().filter(|(name, amount)| *amount != 0 && !missing(*name));
        let scalar: Vec<_> = scalar.copied().collect();
        let Some(shortage) = shortages(&requests, &scalar, n_pods, node).into_iter().next() else {
            return Ok(());
        };
        let resource = shortage.resource_name(&self.symbols);
        let Shortage { requested, used, allocatable, .. } = shortage;
        Err(NodeRejection {
            reason: format!("OutOf{resource}"),
            message: format!(
                "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {allocatable}"
            ),
        })
    }

    /// The kubelet's checks of the node alone.
    fn checks_node(
        &self,
        pod: &PreparedPod,
        rule_set: &RuleSet,
        node: &NodeRecord,
        node_name: &str,
    ) -> Result<(), NodeRejection> {
        let rules = rule_set.rules();
        if !rule_set.satisfies_required_node_affinity(self, node) {
            return Err(failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"));
        }
        if pod.node_name.as_deref().is_some_and(|name| name != node_name) {
            return Err(failed("NodeName", "node(s) didn't match the requested node name"));
        }
        if rules.host_ports.iter().any(|port| port.conflicts_with_any(&node.ports)) {
            return Err(failed("NodePorts", "node(s) didn't have free ports for the requested pod ports"));
        }
        let mut executing = node.taints.iter().filter(|t| t.effect == TaintEffect::NoExecute);
        if executing.any(|taint| !tolerate(self, &rules.tolerations, taint)) {
            return Err(failed("TaintToleration", "node(s) had untolerated taint(s)"));
        }
        Ok(())
    }

    fn anti_affinity(&self, term: &PodTerm, other: &PodRecord) -> NodeRejection {
        let reason = "node(s) didn't match pod anti-affinity rules";
        let pod = format!("{}/{}", self.symbols.text(other.namespace), other.name);
        let detail = format!("{}: {}; {pod} runs on the node", term.path, rejects(term));
        failed("PodAntiAffinity", &format!("{reason} ({detail})"))
    }
}

fn failed(predicate: &str, why: &str) -> NodeRejection {
    NodeRejection { reason: predicate.to_owned(), message: format!("Predicate {predicate} failed: {why}") }
}

/// The terms required during execution that a node can evaluate, with their matchers.
fn on_node<'a>(
    compiled: &'a [RequiredTerm],
    terms: &'a [PodTerm],
) -> impl Iterator<Item = (&'a PodTerm, MatcherId)> {
    let terms = compiled.iter().map(|t| (&terms[t.index], t.matcher));
    terms.filter(|(term, _)| {
        let is_node = match &term.topology {
            TopologyScope::Key(key) => key == HOSTNAME,
            TopologyScope::All => true,
        };
        term.required_during_execution && is_node
    })
}
