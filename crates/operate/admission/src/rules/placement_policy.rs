//! Placement policies: whether they are valid, and the rules that they add to new pods.

use berth_api::object::Pod;
use berth_input::policy::{PlacementPolicy, PolicySet, changes};
use serde_json::{Value, json};

use crate::answer::{Answer, Denial, ReviewError};
use crate::findings::Findings;
use crate::policy::Action;
use crate::request::AdmissionRequest;
use crate::rule::Rule;

/// Refuses an invalid policy, with the path of each field.
pub(crate) fn is_valid_policy(request: &AdmissionRequest) -> Answer {
    let kind = match request.resource.resource.as_str() {
        "placementpolicies" => "PlacementPolicy",
        "clusterplacementpolicies" => "ClusterPlacementPolicy",
        _ => return Answer::allowed(),
    };
    let is_changed = request.object["spec"] != request.old_object["spec"];
    if !request.sub_resource.is_empty() || request.object.is_null() || !is_changed {
        return Answer::allowed();
    }
    match PlacementPolicy::read(&request.object) {
        Ok(_) => Answer::allowed(),
        Err(errors) => {
            let message = errors.to_string().replace('\n', ", ");
            Answer::denied(Denial::invalid(Rule::PlacementPolicy, kind, request.shown_name(), message))
        }
    }
}

/// Adds the rules of the policies that select a new pod. Returns the operations of a JSON patch.
pub(crate) fn apply_placement_policies(
    request: &AdmissionRequest,
    pod: &mut Pod,
    policies: &PolicySet,
    found: &mut Findings,
) -> Result<Vec<Value>, ReviewError> {
    let namespace = &pod.metadata.namespace;
    if !policies.knows(namespace) {
        return Err(ReviewError::Unseen(format!("namespace {namespace:?}")));
    }
    let before = pod.clone();
    let applied = match policies.apply(pod) {
        Ok(applied) => applied,
        Err(error) => {
            let message = format!(
                "comparing the rules of the placement policies for namespace {:?} takes {error}: use fewer policies, or \
                 fewer rules in them",
                pod.metadata.namespace
            );
            found.broken(Action::Reject, Denial::forbidden(Rule::PlacementPolicy, request, message));
            return Ok(Vec::new());
        }
    };
    applied.warnings.into_iter().for_each(|warning| found.warn(warning));
    let operation = |change: berth_input::policy::PodChange| json!({"op": "add", "path": format!("/{}/{}", change.section, change.field), "value": change.value});
    Ok(changes(&before, pod).into_iter().map(operation).collect())
}
