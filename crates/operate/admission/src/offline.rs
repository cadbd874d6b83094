//! Decisions about the pods of an input, before a user creates them: the nodes, namespaces and running pods of the input are
//! the cluster.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use berth_api::object::Pod;
use berth_input::inventory::Inventory;
use berth_input::policy::PolicySet;
use serde_json::json;

use crate::answer::{Answer, ReviewError};
use crate::policy::Policy;
use crate::request::AdmissionRequest;
use crate::review::{Endpoint, review};
use crate::state::{State, StateAccess};

/// Every API server creates it: a list of namespaces without it is not that of a cluster.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// A policy, and the cluster of an input.
pub struct OfflineAdmission {
    policy: Policy,
    /// Only if the policy has budgets.
    state: Option<Mutex<State>>,
    placement: Arc<PolicySet>,
}

impl OfflineAdmission {
    /// The input is the cluster. Budgets of blast radius need its nodes; without nodes they are not checked. Which namespaces
    /// exist is known if `kube-system` is among those of the input.
    pub fn new(policy: Policy, inventory: &Inventory) -> OfflineAdmission {
        // Other commands and rules warn about texts, and about annotations that no scheduler reads.
        let mut policy = Policy { dialect_warnings: false, scheduler_names: Vec::new(), ..policy };
        if inventory.nodes.is_empty() {
            policy.budgets.clear();
        }
        let labels = inventory.namespaces.iter().map(|entry| &entry.object.metadata);
        let labels: HashMap<_, _> =
            labels.map(|metadata| (metadata.name.clone(), metadata.labels.clone())).collect();
        let labels = if labels.contains_key(SYSTEM_NAMESPACE) { labels } else { HashMap::new() };
        let state = (!policy.budgets.is_empty()).then(|| Mutex::new(state(&policy, inventory)));
        OfflineAdmission { policy, state, placement: Arc::new(PolicySet::new([], labels)) }
    }

    /// What the policy says about the creation of a pod. Budgets of exclusive nodes are checked for the pod by itself.
    pub fn review(&self, pod: &Pod) -> Result<Answer, ReviewError> {
        let request = AdmissionRequest::from_value(json!({
            "uid": "", "operation": "CREATE", "name": pod.metadata.name, "namespace": pod.metadata.namespace,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": pod, "dryRun": true,
        }))?;
        review(Endpoint::ValidatePods, &request, &self.policy, self, Instant::now())
    }
}

impl StateAccess for OfflineAdmission {
    fn ask<R>(&self, what: &'static str, question: impl FnOnce(&mut State) -> R) -> Result<R, ReviewError> {
        self.state.as_ref().ok_or(ReviewError::NoState(what))?.ask(what, question)
    }

    fn placement(&self) -> Result<Arc<PolicySet>, ReviewError> {
        Ok(self.placement.clone())
    }
}

fn state(policy: &Policy, inventory: &Inventory) -> State {
    let mut state = State::new(policy);
    for namespace in &inventory.namespaces {
        state.cluster().set_namespace(&namespace.object);
    }
    for node in &inventory.nodes {
        state.cluster().set_node(&node.object);
        state.node_applied(&node.object);
    }
    // Running pods only match terms: those with exclusive nodes may be the very pods that are reviewed.
    let pods = inventory.pods.iter().map(|entry| &entry.object);
    for pod in pods.filter(|pod| !pod.spec.node_name.is_empty() && !pod.is_terminal()) {
        state.cluster().set_pod(pod);
    }
    state
}
