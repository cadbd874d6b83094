//! One request: which rules check it, and in which order.

use std::time::Instant;

use berth_api::object::Pod;
use berth_rules::AdmittedPod;
use berth_rules::admission::Operation;

use crate::answer::{Answer, ReviewError};
use crate::findings::Findings;
use crate::policy::Policy;
use crate::request::{AdmissionRequest, RequestError};
use crate::rule::Rule;
use crate::rules::{self, PodAttributes};
use crate::state::StateAccess;

berth_api::named! {
    /// The kind of a review: one path of the webhook.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Endpoint(path) {
        /// `/validate-pods`: pods, and the templates of workloads.
        ValidatePods = "/validate-pods",
        /// `/mutate-pods`: pods.
        MutatePods = "/mutate-pods",
        /// `/validate-bindings`: bindings of pods.
        ValidateBindings = "/validate-bindings",
        /// `/validate-nodes`: all requests of node identities.
        ValidateNodes = "/validate-nodes",
        /// `/validate-policies`: placement policies.
        ValidatePolicies = "/validate-policies",
    }
}

impl Endpoint {
    pub const ALL: [Endpoint; 5] = [
        Endpoint::ValidatePods,
        Endpoint::MutatePods,
        Endpoint::ValidateBindings,
        Endpoint::ValidateNodes,
        Endpoint::ValidatePolicies,
    ];
}

/// Decides one request. Requests that no rule of the endpoint applies to are allowed.
///
/// # Errors
/// The request is invalid, or a rule needs cluster state that is unknown.
pub fn review<K: StateAccess>(
    endpoint: Endpoint,
    request: &AdmissionRequest,
    policy: &Policy,
    access: &K,
    now: Instant,
) -> Result<Answer, ReviewError> {
    match endpoint {
        Endpoint::ValidatePods => validate_pods(request, policy, access, now),
        Endpoint::MutatePods => mutate_pods(request, policy, access),
        Endpoint::ValidatePolicies => Ok(rules::is_valid_policy(request)),
        Endpoint::ValidateNodes => validate_nodes(request, policy, access),
        Endpoint::ValidateBindings => match policy.binding_guard.as_ref().filter(|_| request.is_binding()) {
            Some(guard) => rules::keeps_required_rules(request, guard, access, now),
            None => Ok(Answer::allowed()),
        },
    }
}

fn is_written(request: &AdmissionRequest) -> bool {
    matches!(request.operation, Operation::Create | Operation::Update) && request.sub_resource.is_empty()
}

/// The pod of a request that creates it, binds it with annotations, or updates it or a subresource of it; none if the pod is
/// being deleted.
fn written_pod(request: &AdmissionRequest) -> Result<Option<Pod>, RequestError> {
    let is_updated =
        request.operation == Operation::Update && request.is_about("", "pods", &request.sub_resource);
    let is_created = request.operation == Operation::Create && request.is_about("", "pods", "");
    if !is_updated && !is_created && !request.is_binding() {
        return Ok(None);
    }
    let pod = request.pod()?;
    let is_meant =
        pod.metadata.deletion_timestamp.is_none() && (!request.is_binding() || rules::has_annotation(&pod));
    Ok(is_meant.then_some(pod))
}

/// The pod of a request that creates it, or changes its inter-pod rules.
pub(crate) fn pod_with_new_rules(request: &AdmissionRequest) -> Result<Option<Pod>, RequestError> {
    let Some(pod) = written_pod(request)? else { return Ok(None) };
    Ok(rules::changes_affinity(request, &pod)?.then_some(pod))
}

fn validate_nodes<K: StateAccess>(
    request: &AdmissionRequest,
    policy: &Policy,
    access: &K,
) -> Result<Answer, ReviewError> {
    let answer = rules::keeps_to_own_node(request, policy, access)?;
    if !answer.is_allowed() || !is_written(request) || !request.is_about("", "nodes", "") {
        return Ok(answer);
    }
    let mut found = Findings::default();
    rules::has_few_taints(request, policy, &mut found);
    Ok(found.into_answer())
}

fn validate_pods<K: StateAccess>(
    request: &AdmissionRequest,
    policy: &Policy,
    access: &K,
    now: Instant,
) -> Result<Answer, ReviewError> {
    let mut found = Findings::default();
    if is_written(request) && request.resource.resource != "pods" && !request.is_binding() {
        rules::check_template(request, policy, access, now, &mut found)?;
        return Ok(found.into_answer());
    }
    let Some(pod) = written_pod(request)? else { return Ok(Answer::allowed()) };
    let old = request.old_pod()?;
    rules::keeps_annotations(request, policy, &mut found);
    rules::has_few_entries(request, policy, &pod, &mut found)?;
    if !request.is_binding() {
        rules::carries_required_labels(request, policy, &pod, old.as_ref(), &mut found);
    }
    rules::has_valid_annotations(request, policy, &pod, old.as_ref(), &mut found);
    if !rules::changes_affinity(request, &pod)? {
        return Ok(found.into_answer());
    }
    let pod = AdmittedPod::new(pod, policy.rule_options);
    let attributes = PodAttributes { request, policy, pod: &pod, now };
    rules::check_pod(&attributes, access, &mut found)?;
    let budget = policy.budget(&pod.object.metadata.namespace).filter(|_| !found.is_denied());
    if let Some(budget) = budget {
        let limits = [
            (Rule::BlastRadius, &budget.blast_radius),
            (Rule::PreferredBlastRadius, &budget.preferred_blast_radius),
        ];
        for (rule, limit) in limits {
            if let Some(limit) = limit {
                let limit = (limit, budget.action);
                rules::stays_within_blast_radius(&attributes, rule, limit, access, &mut found)?;
            }
        }
        if let Some(limit) = &budget.exclusive_nodes {
            rules::stays_within_exclusive_nodes(&attributes, limit, budget.action, access, &mut found)?;
        }
    }
    Ok(found.into_answer())
}

fn mutate_pods<K: StateAccess>(
    request: &AdmissionRequest,
    policy: &Policy,
    access: &K,
) -> Result<Answer, ReviewError> {
    let is_created = request.operation == Operation::Create && request.is_about("", "pods", "");
    let placement = access.placement()?;
    if !is_created || !policy.changes_pods() && placement.policies().is_empty() {
        return Ok(Answer::allowed());
    }
    let mut pod = request.pod()?;
    let mut found = Findings::default();
    let mut patch = rules::apply_placement_policies(request, &mut pod, &placement, &mut found)?;
    patch.extend(rules::tolerate_as_daemon(&pod, policy));
    if policy.merge_match_label_keys {
        patch.extend(rules::merge_match_label_keys(&pod));
    }
    Ok(Answer { patch, ..found.into_answer() })
}
