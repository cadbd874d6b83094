//! How much pods and nodes carry of what Kubernetes does not limit: each decision reads it.

use berth_api::object::Pod;
use serde_json::Value;

use crate::answer::Denial;
use crate::findings::Findings;
use crate::policy::{Policy, RuleLimits};
use crate::request::{AdmissionRequest, RequestError};
use crate::rule::Rule;

/// A pod has no field with too many entries. A field that had as many before is not refused: such a pod can be changed.
pub(crate) fn has_few_entries(
    request: &AdmissionRequest,
    policy: &Policy,
    pod: &Pod,
    found: &mut Findings,
) -> Result<(), RequestError> {
    let RuleLimits { action, pod: limits, .. } = policy.rule_limits;
    let excess = match request.old_pod()? {
        Some(old) => limits.new_excess(pod, &old),
        None => limits.excess(pod),
    };
    let Some(excess) = excess else { return Ok(()) };
    let most = limits.max_entries;
    let message = format!(
        "{excess}, more than {most} (ruleLimits.maxRuleEntries of the AdmissionPolicy): a scheduler with this limit does \
         not schedule the pod; use fewer entries, or raise the limit of both"
    );
    found.broken(action, Denial::forbidden(Rule::RuleLimits, request, message));
    Ok(())
}

/// A node gets no more taints than the limit. One that has more already can be changed and loses some.
pub(crate) fn has_few_taints(request: &AdmissionRequest, policy: &Policy, found: &mut Findings) {
    let n_taints = |node: &Value| node.pointer("/spec/taints").and_then(Value::as_array).map_or(0, Vec::len);
    let RuleLimits { action, max_taints, .. } = policy.rule_limits;
    let n = n_taints(&request.object);
    if n > max_taints && n > n_taints(&request.old_object) {
        let message = format!(
            "spec.taints has {n} entries, more than {max_taints} (ruleLimits.maxTaints of the AdmissionPolicy): each \
             decision about a pod reads them; use fewer taints, or raise the limit"
        );
        found.broken(action, Denial::forbidden(Rule::RuleLimits, request, message));
    }
}
