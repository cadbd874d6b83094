//! Pod templates of workloads: the webhook warns early about what it would refuse in the pods. It refuses workloads of
//! users who are not trusted, since controllers create the pods.

use std::time::Instant;

use berth_api::object::Pod;
use berth_api::read::from_value;
use berth_api::rules::PodRules;
use serde_json::Value;

use super::attributes::PodAttributes;
use super::pod::check_pod;
use super::rule_limits::has_few_entries;
use crate::answer::Answer;
use crate::findings::Findings;
use crate::policy::{Action, Policy};
use crate::request::AdmissionRequest;
use crate::rule::Rule;

/// Runs the stateless pod rules on the pod template of a workload. Findings are warnings, as the pods are refused, except
/// those about the user.
pub(crate) fn check_template(
    request: &AdmissionRequest,
    policy: &Policy,
    now: Instant,
    found: &mut Findings,
) {
    let Some((path, template)) = template(request) else { return };
    if !policy.workload_warnings && policy.trusted_users.is_none() {
        return;
    }
    // The API server reports an invalid pod template.
    let Ok(mut pod) = from_value::<Pod>(template) else { return };
    pod.metadata.namespace.clone_from(&request.namespace);
    let rules = PodRules::parse(&pod, true);
    let mut of_pod = Findings::default();
    if has_few_entries(request, policy, &pod, &mut of_pod).is_err() {
        return;
    }
    check_pod(&PodAttributes { request, policy, pod: &pod, rules: &rules, now }, &mut of_pod);
    let Answer { denied, warnings, .. } = of_pod.into_answer();
    if let Some(mut denial) = denied.clone().filter(|denial| denial.rule == Rule::TrustedUsers) {
        denial.message = format!("{path}: {}", denial.message);
        found.broken(Action::Reject, denial);
    }
    if !policy.workload_warnings {
        return;
    }
    if let Some(denial) = denied.filter(|denial| denial.rule != Rule::TrustedUsers) {
        found.warn(format!("{path}: its pods will be refused: {}", denial.message));
    }
    warnings.into_iter().for_each(|warning| found.warn(format!("{path}: {warning}")));
}

fn template(request: &AdmissionRequest) -> Option<(&'static str, &Value)> {
    let resource = &request.resource;
    let (path, pointer) = match (resource.group.as_str(), resource.resource.as_str()) {
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "jobs")
        | ("", "replicationcontrollers") => ("spec.template", "/spec/template"),
        ("batch", "cronjobs") => ("spec.jobTemplate.spec.template", "/spec/jobTemplate/spec/template"),
        _ => return None,
    };
    let template = request.object.pointer(pointer)?;
    // A change outside the template needs no second warning.
    (request.old_object.pointer(pointer) != Some(template)).then_some((path, template))
}
