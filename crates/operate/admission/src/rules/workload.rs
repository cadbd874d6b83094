//! Pod templates of workloads: the webhook warns early about what it would refuse in the pods. It refuses workloads of
//! users who are not trusted, since controllers create the pods.

use std::time::Instant;

use berth_api::object::Pod;
use berth_api::read::{from_value, pod_template_pointer};
use berth_api::resource::{RESOURCES, Resource};
use berth_rules::AdmittedPod;
use serde_json::Value;

use super::annotation::has_valid_annotations;
use super::attributes::PodAttributes;
use super::pod::check_pod;
use super::required_labels::carries_required_labels;
use super::rule_limits::has_few_entries;
use crate::answer::{Answer, ReviewError};
use crate::findings::Findings;
use crate::policy::{Action, Policy};
use crate::request::AdmissionRequest;
use crate::rule::Rule;
use crate::state::StateAccess;

/// Runs the pod rules that need no nodes and pods on the pod template of a workload. Findings are warnings, as the pods are
/// refused, except those about the user.
pub(crate) fn check_template<K: StateAccess>(
    request: &AdmissionRequest,
    policy: &Policy,
    access: &K,
    now: Instant,
    found: &mut Findings,
) -> Result<(), ReviewError> {
    let Some((path, template)) = template(request) else { return Ok(()) };
    if !policy.workload_warnings && policy.trusted_users.is_none() {
        return Ok(());
    }
    // The API server reports an invalid pod template.
    let Ok(mut pod) = from_value::<Pod>(template) else { return Ok(()) };
    pod.metadata.namespace.clone_from(&request.namespace);
    // Controllers make workloads of others, as they make pods.
    let owners = request.object["metadata"].get("ownerReferences").map(from_value);
    pod.metadata.owner_references = owners.and_then(Result::ok).unwrap_or_default();
    let pod = AdmittedPod::new(pod, policy.rule_options);
    let mut of_pod = Findings::default();
    if has_few_entries(request, policy, &pod.object, &mut of_pod).is_err() {
        return Ok(());
    }
    has_valid_annotations(request, policy, &pod.object, None, &mut of_pod);
    check_pod(&PodAttributes { request, policy, pod: &pod, now }, access, &mut of_pod)?;
    let mut of_labels = Findings::default();
    carries_required_labels(request, policy, &pod.object, None, &mut of_labels);
    for Answer { denied, warnings, .. } in [of_pod.into_answer(), of_labels.into_answer()] {
        if let Some(mut denial) = denied.clone().filter(|denial| denial.rule == Rule::TrustedUsers) {
            denial.message = format!("{path}: {}", denial.message);
            found.broken(Action::Reject, denial);
        }
        if !policy.workload_warnings {
            continue;
        }
        if let Some(denial) = denied.filter(|denial| denial.rule != Rule::TrustedUsers) {
            found.warn(format!("{path}: its pods will be refused: {}", denial.message));
        }
        warnings.into_iter().for_each(|warning| found.warn(format!("{path}: {warning}")));
    }
    Ok(())
}

/// The path of the pod template that the request writes, and the template.
fn template(request: &AdmissionRequest) -> Option<(String, &Value)> {
    let written =
        |r: &&Resource| (r.group, r.plural) == (&*request.resource.group, &*request.resource.resource);
    let pointer = pod_template_pointer(RESOURCES.iter().find(written)?.kind)?;
    let template = request.object.pointer(pointer)?;
    // A change outside the template needs no second warning.
    let is_new = request.old_object.pointer(pointer) != Some(template);
    is_new.then(|| (pointer[1..].replace('/', "."), template))
}
