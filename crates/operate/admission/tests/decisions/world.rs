//! A cluster as text, and requests about its pods.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use berth_admission::{
    AdmissionRequest, Answer, Endpoint, Nothing, Policy, ReviewError, State, StateAccess, review,
};
use berth_api::object::Pod;
use berth_input::policy::PolicySet;
use serde_json::{Value, json};

/// The default policy with these fields changed.
pub fn policy(fields: &str) -> Policy {
    let mut file = json!({"apiVersion": "admission.berth.dev/v1alpha1", "kind": "AdmissionPolicy"});
    let fields: Value = serde_json::from_str(&format!("{{{fields}}}")).unwrap();
    for (name, value) in fields.as_object().unwrap() {
        file[name] = value.clone();
    }
    Policy::from_value(&file).unwrap()
}

/// The cluster under test.
pub struct World {
    pub policy: Policy,
    pub state: Mutex<State>,
    pub placement: Arc<PolicySet>,
    pub now: Instant,
}

impl StateAccess for World {
    fn ask<R>(&self, what: &'static str, question: impl FnOnce(&mut State) -> R) -> Result<R, ReviewError> {
        self.state.ask(what, question)
    }

    fn placement(&self) -> Result<Arc<PolicySet>, ReviewError> {
        Ok(self.placement.clone())
    }
}

impl World {
    /// Pods with `on` run on that node; the others are pending.
    pub fn new(policy: Policy, text: &str) -> World {
        let world = berth_testkit::text::world(text);
        let mut state = State::new(&policy);
        for namespace in &world.namespaces {
            state.cluster().set_namespace(namespace);
        }
        for node in &world.nodes {
            state.cluster().set_node(node);
            state.node_applied(node);
        }
        let labels = world.namespaces.iter().map(|namespace| &namespace.metadata);
        let labels = labels.map(|metadata| (metadata.name.clone(), metadata.labels.clone())).collect();
        let placement = Arc::new(PolicySet::new([], labels));
        let world_ = World { policy, state: Mutex::new(state), placement, now: Instant::now() };
        world.pods.iter().for_each(|pod| world_.saw(pod));
        world_
    }

    /// Adds a pod to the cluster state.
    pub fn saw(&self, pod: &Pod) {
        let mut state = self.state.lock().unwrap();
        if !pod.spec.node_name.is_empty() {
            state.cluster().set_pod(pod);
        }
        state.pod_applied(pod);
    }

    pub fn ask(&self, endpoint: Endpoint, request: &AdmissionRequest) -> Result<Answer, ReviewError> {
        review(endpoint, request, &self.policy, self, self.now)
    }

    /// The creation of a pod, written in the text form.
    pub fn create(&self, pod: &str) -> Answer {
        self.ask(Endpoint::ValidatePods, &creation(&one_pod(pod))).unwrap()
    }

    /// Binds a pod; returns the message of the refusal, if any.
    pub fn bind(&self, pod: &str, node: &str) -> Result<Option<String>, ReviewError> {
        Ok(self.ask(Endpoint::ValidateBindings, &binding(pod, node))?.denied.map(|denial| denial.text()))
    }
}

pub fn one_pod(text: &str) -> Pod {
    berth_testkit::text::world(text).pods.remove(0)
}

/// A request as kube-apiserver sends it.
pub fn request(fields: Value) -> AdmissionRequest {
    let mut request = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters"]},
        "object": null, "oldObject": null, "dryRun": false,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    });
    for (name, value) in fields.as_object().unwrap() {
        request[name] = value.clone();
    }
    AdmissionRequest::from_value(request).unwrap()
}

pub fn creation(pod: &Pod) -> AdmissionRequest {
    let metadata = &pod.metadata;
    request(json!({"name": metadata.name, "namespace": metadata.namespace, "object": pod}))
}

pub fn binding(pod: &str, node: &str) -> AdmissionRequest {
    let (namespace, name) = pod.split_once('/').unwrap();
    request(json!({
        "name": name, "namespace": namespace, "subResource": "binding",
        "object": {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}},
    }))
}

/// Decides the creation of a pod without cluster state: returns the denial, or else the warnings.
pub fn check(policy: &Policy, pod: &str, expected: &[&str]) {
    let answer = review(Endpoint::ValidatePods, &creation(&one_pod(pod)), policy, &Nothing, Instant::now());
    let answer = answer.unwrap();
    let said = match answer.denied {
        Some(denial) => vec![denial.text()],
        None => answer.warnings,
    };
    assert_eq!(said, expected, "{pod}");
}
