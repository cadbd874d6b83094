//! Admission wired to a cluster: the policy file, the state it is decided by, and the embedded server's hook.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use berth_admission::{Admission, AdmissionRequest, Endpoint, Policy, State, Unanswered};
use berth_api::object::Pod;
use berth_api::read::{Manifest, ReadError, read_manifests};
use berth_engine::Settings;
use berth_minicluster::admission::{Operation, Phase};
use berth_watch::Event;
use berth_watch::feed::Feed;
use berth_watch::sources::{PodEvent, Source, Sources, Told};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::CliError;
use crate::input::find_inputs;

/// What is followed. Services and owners of pods settle scores only, and nothing here depends on those.
const SOURCES: [Source; 3] = [Source::Nodes, Source::Namespaces, Source::Pods];
/// Pods that are told to the state at a time, so that a long list keeps nobody waiting.
const PODS_AT_A_TIME: usize = 256;
/// A watch that is silent for longer is started again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// What has been told and not taken yet.
const BUFFER: usize = 1024;

/// Reads a policy file; without one, the default policy.
///
/// # Errors
/// It cannot be read, or is not valid.
pub fn policy(file: Option<&str>) -> Result<Policy, CliError> {
    let Some(file) = file else { return Ok(Policy::default()) };
    let mut found: Vec<Manifest> = Vec::new();
    for input in find_inputs(&[file.to_owned()])? {
        let take = &mut |manifest| {
            found.push(manifest);
            Ok::<(), ReadError>(())
        };
        let reader = input.open(|_| ())?;
        read_manifests(reader, &input.name(), take).map_err(berth_api::read::InputError::from)?;
    }
    match found.as_slice() {
        [one] => Policy::from_value(&one.value)
            .map_err(|errors| CliError::Config { place: one.source.clone(), errors }),
        [] => Err(CliError::NotFound(format!("{file}: no AdmissionPolicy in it"))),
        [_, second, ..] => Err(CliError::NotFound(format!(
            "{}: a second object; {file} must hold one AdmissionPolicy and nothing else",
            second.source
        ))),
    }
}

/// Decisions by a policy and the state of a cluster that is to be followed.
pub fn with_state(policy: Policy) -> Arc<Admission> {
    Admission::stateful(policy, Settings::default(), SOURCES.map(Source::name).to_vec())
}

/// Follows a cluster and tells what it says, until told to stop.
pub async fn follow(
    client: Client,
    admission: Arc<Admission>,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let (tell, mut told) = mpsc::channel(BUFFER);
    let sources = Sources::start(client, &SOURCES, IDLE_TIMEOUT, tell);
    let mut feed = Feed::new();
    while let Some(Some(told)) = stop.run_until_cancelled(told.recv()).await {
        let listed = told.completes();
        match told {
            Told::Nodes(event) => take_nodes(&admission, &mut feed, event),
            Told::Namespaces(event) => admission.tell(|state| _ = feed.namespaces(state.cluster(), event)),
            Told::Pods(number, event) if number == sources.pods_number() => {
                take_pods(&admission, &mut feed, event);
            }
            _ => {}
        }
        if let Some(source) = listed {
            admission.has_listed(source.name());
        }
    }
    Ok(())
}

fn take_nodes(admission: &Admission, feed: &mut Feed, event: Event<berth_api::object::Node>) {
    admission.tell(|state| {
        match &event {
            Event::Applied(node) => state.saw_node(node),
            Event::Deleted(node) => state.node_gone(&node.metadata.name),
            Event::Restarted(nodes) => state.saw_all_nodes(nodes),
        }
        feed.nodes(state.cluster(), event);
    });
}

fn take_pods(admission: &Admission, feed: &mut Feed, event: PodEvent) {
    match event {
        PodEvent::Applied(pod) => admission.tell(|state| saw(state, feed, &pod)),
        PodEvent::Deleted(pod) => {
            let metadata = &pod.metadata;
            admission.tell(|state| gone(state, feed, &metadata.namespace, &metadata.name, &metadata.uid));
        }
        PodEvent::Restarted(pods) => {
            // What is gone goes first: another pod may have its name by now.
            admission.tell(|state| {
                for (namespace, name, uid) in feed.pods_not_in(&pods) {
                    gone(state, feed, &namespace, &name, &uid);
                }
                state.keep_pods(&pods);
            });
            for some in pods.chunks(PODS_AT_A_TIME) {
                admission.tell(|state| some.iter().for_each(|pod| saw(state, feed, pod)));
            }
        }
    }
}

fn saw(state: &mut State, feed: &mut Feed, pod: &Pod) {
    feed.set_pod(state.cluster(), pod);
    state.saw_pod(pod);
}

fn gone(state: &mut State, feed: &mut Feed, namespace: &str, name: &str, uid: &str) {
    feed.remove_pod(state.cluster(), namespace, name, uid);
    state.pod_gone(namespace, name, uid);
}

/// Admission inside the embedded server. The server itself validates the annotation, merges `matchLabelKeys` and
/// restricts nodes; the rest is decided here.
pub struct InProcess(Arc<Admission>);

impl InProcess {
    /// Decides by a policy; the state, if the policy needs one, is to be followed with [`follow`].
    pub fn new(policy: Policy) -> InProcess {
        let policy = Policy { validate_annotation: false, ..policy };
        InProcess(if policy.needs_state() { with_state(policy) } else { Admission::stateless(policy) })
    }

    /// What decides.
    pub fn admission(&self) -> Arc<Admission> {
        self.0.clone()
    }
}

impl berth_minicluster::Admission for InProcess {
    fn concerns(&self, phase: Phase, operation: Operation, resource: &str, subresource: &str) -> bool {
        if phase != Phase::Validating || operation == Operation::Delete {
            return false;
        }
        let policy = self.0.policy();
        match (resource, subresource) {
            ("pods", "") => true,
            ("pods", "binding") => policy.binding_guard.is_some(),
            (
                "deployments"
                | "replicasets"
                | "statefulsets"
                | "daemonsets"
                | "jobs"
                | "cronjobs"
                | "replicationcontrollers",
                "",
            ) => policy.workload_warnings,
            _ => false,
        }
    }

    fn review(&self, _: Phase, request: Value) -> BoxFuture<'_, Value> {
        async move {
            let uid = request["uid"].as_str().unwrap_or_default().to_owned();
            let failed = |code: u16, reason: &str, message: String| {
                let status = json!({"code": code, "reason": reason, "message": message});
                json!({"uid": uid, "allowed": false, "status": status})
            };
            let request = match AdmissionRequest::from_value(request) {
                Ok(request) => request,
                Err(error) => return failed(500, "InternalError", error.to_string()),
            };
            let endpoint = match request.sub_resource.as_str() {
                "binding" => Endpoint::ValidateBindings,
                _ => Endpoint::ValidatePods,
            };
            match self.0.review(endpoint, &request).await {
                Ok(answer) => answer.plugin_response(&uid),
                Err(error @ Unanswered::BadRequest(_)) => failed(400, "BadRequest", error.to_string()),
                Err(error) => failed(503, "ServiceUnavailable", error.to_string()),
            }
        }
        .boxed()
    }
}
