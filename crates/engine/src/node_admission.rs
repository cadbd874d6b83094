//! Node admission: what a node checks itself when a pod arrives, whoever bound it there.
//!
//! First kubelet's own checks in kubelet's order and words (`pkg/kubelet/lifecycle/predicate.go`): resources, node
//! affinity and selector, node name, host ports, `NoExecute` taints. Then what the proposals ask of a node:
//! required-during-execution rules between pods whose topology is the node itself (`kubernetes.io/hostname`, and
//! for anti-affinity "all topologies", which includes it). Other topologies are beyond what a node can see.

use berth_api::object::Pod;
use berth_api::rules::{PodTerm, TaintEffect, TopologyScope};

use crate::plugins::{HOSTNAME, Shortage, describe_pod_term, is_extended_resource, shortages, tolerates};
use crate::state::class::{Class, RequiredTerm};
use crate::state::cluster::Cluster;
use crate::state::incoming::PreparedPod;
use crate::state::matcher::MatcherId;
use crate::state::node::NodeRecord;
use crate::state::pod::PodRecord;

/// Why a node does not admit a pod, in kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRejection {
    /// `status.reason` of the pod, which fails: `OutOfcpu` (and so on by resource), `NodeAffinity`, `NodeName`,
    /// `NodePorts`, `TaintToleration`, and for the proposals' rules `PodAffinity` and `PodAntiAffinity`;
    /// `InvalidNodeInfo` if the node is not known.
    pub reason: String,
    /// `status.message` of the pod.
    pub message: String,
}

impl Cluster {
    /// Whether a node admits a pod that is bound to it. The state is not changed; if the pod is in it already,
    /// it does not stand in its own way.
    ///
    /// What counts is what the cluster was fed: the node with its labels, taints and allocatable, the pods that
    /// the node has admitted and that have not ended, and the namespaces with their labels, if terms select by them.
    /// A node agent may keep a cluster for its own node alone or one for many nodes. It makes one difference:
    /// a pod with required-during-execution affinity to its own kind may start where nobody of its kind runs on
    /// any node that is known, as the first of its group.
    ///
    /// # Errors
    /// The first reason against it.
    pub fn node_admission(&mut self, pod: &Pod, node_name: &str) -> Result<(), NodeRejection> {
        let prepared = self.prepare(pod);
        let identity = self.identity_of(prepared.namespace, prepared.terminating, &prepared.labels);
        let Some(id) = self.symbols.get(node_name).and_then(|name| self.nodes.find(name)) else {
            return Err(NodeRejection {
                reason: "InvalidNodeInfo".to_owned(),
                message: "Kubelet cannot get node info.".to_owned(),
            });
        };
        let node = self.nodes.get(id);
        let is_itself = |p: &PodRecord| (p.namespace, &p.name) == (prepared.namespace, &prepared.name);
        let others = || node.pods.iter().map(|pod| self.pods.get(*pod)).filter(|p| !is_itself(p));
        let class = self.classes.get(prepared.class);

        let itself = node.pods.iter().map(|pod| self.pods.get(*pod)).find(|p| is_itself(p));
        let mut without = None;
        if let Some(itself) = itself {
            let mut record = node.without_pods();
            let class = self.classes.get(itself.class);
            let rules = class.rules();
            record.charge(&class.requests, &rules.requests, &rules.host_ports, -1);
            without = Some(record);
        }
        let n_pods = node.pods.len() as i64 - i64::from(itself.is_some());
        let node = without.as_ref().unwrap_or(node);
        self.has_resources(class, node, n_pods)?;
        self.suits(&prepared, class, node, node_name)?;

        for (term, matcher) in on_node(&class.required_anti_affinity, &class.rules().required_anti_affinity) {
            let matched =
                |p: &&PodRecord| self.identities.get(p.identity).matched.binary_search(&matcher).is_ok();
            if let Some(other) = others().find(matched) {
                return Err(self.anti_affinity(term, other));
            }
        }
        let shunned = &self.identities.get(identity).matched_by_existing;
        for other in others() {
            let theirs = self.classes.get(other.class);
            let mut terms = on_node(&theirs.required_anti_affinity, &theirs.rules().required_anti_affinity);
            if let Some((term, _)) = terms.find(|(_, matcher)| shunned.binary_search(matcher).is_ok()) {
                return Err(self.anti_affinity(term, other));
            }
        }
        for (term, matcher) in on_node(&class.executing_affinity, &class.rules().required_affinity) {
            if term.topology == TopologyScope::All {
                continue;
            }
            let matched =
                |p: &PodRecord| self.identities.get(p.identity).matched.binary_search(&matcher).is_ok();
            let anybody = || self.pods.iter().any(|(_, p)| p.node.is_some() && !is_itself(p) && matched(p));
            let first_of_group =
                || self.identities.get(identity).matched.binary_search(&matcher).is_ok() && !anybody();
            if !others().any(matched) && !first_of_group() {
                let reason = "node(s) didn't match pod affinity rules";
                let detail = format!("{}: needs {} on the node", term.path, describe_pod_term(term));
                return Err(failed("PodAffinity", &format!("{reason} ({detail})")));
            }
        }
        Ok(())
    }

    /// Kubelet leaves out extended resources that the node does not have at all: something else allots them.
    fn has_resources(&self, class: &Class, node: &NodeRecord, n_pods: i64) -> Result<(), NodeRejection> {
        let missing =
            |name| is_extended_resource(self.symbols.text(name)) && node.allocatable.scalar(name).is_none();
        let scalar = class.requests.scalar.iter().filter(|(name, amount)| *amount != 0 && !missing(*name));
        let scalar: Vec<_> = scalar.copied().collect();
        let Some(shortage) = shortages(&class.requests, &scalar, n_pods, node).into_iter().next() else {
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

    /// Kubelet's checks of the node alone.
    fn suits(
        &self,
        pod: &PreparedPod,
        class: &Class,
        node: &NodeRecord,
        node_name: &str,
    ) -> Result<(), NodeRejection> {
        let rules = class.rules();
        if !class.satisfies_required_node_affinity(self, node) {
            return Err(failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"));
        }
        if pod.node_name.is_some_and(|name| self.symbols.text(name) != node_name) {
            return Err(failed("NodeName", "node(s) didn't match the requested node name"));
        }
        if rules.host_ports.iter().any(|port| node.ports.iter().any(|used| used.conflicts_with(port))) {
            return Err(failed("NodePorts", "node(s) didn't have free ports for the requested pod ports"));
        }
        let mut executing = node.taints.iter().filter(|t| t.effect == TaintEffect::NoExecute);
        if executing.any(|taint| !tolerates(self, &rules.tolerations, taint)) {
            return Err(failed("TaintToleration", "node(s) had untolerated taint(s)"));
        }
        Ok(())
    }

    fn anti_affinity(&self, term: &PodTerm, other: &PodRecord) -> NodeRejection {
        let reason = "node(s) didn't match pod anti-affinity rules";
        let pod = format!("{}/{}", self.symbols.text(other.namespace), other.name);
        let detail = format!("{}: not with {}; {pod} runs here", term.path, describe_pod_term(term));
        failed("PodAntiAffinity", &format!("{reason} ({detail})"))
    }
}

fn failed(predicate: &str, why: &str) -> NodeRejection {
    NodeRejection { reason: predicate.to_owned(), message: format!("Predicate {predicate} failed: {why}") }
}

/// The required-during-execution terms that a node can judge, with their matchers.
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
