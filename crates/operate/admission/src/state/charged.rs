//! Living pods that a quota may charge.

use std::collections::{HashMap, HashSet};

use berth_api::object::Pod;
use berth_engine::{Cluster, OpportunityCost};
use berth_rules::PodRules;

/// A pod with what it costs, before a quota says by which measure it is charged.
#[derive(Clone, Debug)]
pub(crate) struct ChargedPod {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) node: String,
    pub(crate) cost: OpportunityCost,
}

/// By namespace and name.
#[derive(Default)]
pub(crate) struct ChargedPods {
    pods: HashMap<String, HashMap<String, Pod>>,
    /// Uids of those that have ended since [`ChargedPods::retain_ended`].
    ended: HashSet<String>,
}

/// Whether required anti-affinity may exclude pods of other namespaces.
pub(crate) fn may_be_charged(pod: &Pod, rules: &PodRules) -> bool {
    let own = &pod.metadata.namespace;
    rules.required_anti_affinity.iter().any(|term| term.selects_other_namespaces(own))
}

/// What a pod costs; `None` if it excludes no pods of others.
pub(crate) fn cost(cluster: &mut Cluster, pod: &Pod, uid: &str) -> Option<ChargedPod> {
    let node = pod.spec.node_name.clone();
    let prepared = cluster.prepare(pod);
    let cost = cluster.opportunity_cost(&prepared, Some(node.as_str()).filter(|node| !node.is_empty()))?;
    Some(ChargedPod { name: pod.metadata.name.clone(), uid: uid.to_owned(), node, cost })
}

impl ChargedPods {
    pub(crate) fn saw(&mut self, pod: &Pod, rules: Option<&PodRules>) {
        let metadata = &pod.metadata;
        let known = self.pods.get(&metadata.namespace).and_then(|pods| pods.get(&metadata.name));
        let is_charged = rules.is_some_and(|rules| may_be_charged(pod, rules));
        if known.is_some_and(|known| !is_charged || known.metadata.uid != metadata.uid) {
            self.gone(&metadata.namespace, &metadata.name);
        }
        if is_charged {
            let of_namespace = self.pods.entry(metadata.namespace.clone()).or_default();
            of_namespace.insert(metadata.name.clone(), pod.clone());
        }
    }

    pub(crate) fn gone(&mut self, namespace: &str, name: &str) {
        let Some(pods) = self.pods.get_mut(namespace) else { return };
        self.ended.extend(pods.remove(name).map(|pod| pod.metadata.uid));
        if pods.is_empty() {
            self.pods.remove(namespace);
        }
    }

    pub(crate) fn of(&self, namespace: &str) -> impl Iterator<Item = &Pod> {
        self.pods.get(namespace).into_iter().flat_map(HashMap::values)
    }

    pub(crate) fn has_ended(&self, uid: &str) -> bool {
        self.ended.contains(uid)
    }

    /// Forgets the pods that have ended and are in no ledger.
    pub(crate) fn retain_ended(&mut self, is_in_ledger: impl Fn(&str) -> bool) {
        self.ended.retain(|uid| is_in_ledger(uid));
    }
}
