//! Label keys that all pods must carry (article on NodeSelector and LabelSelector: "simple conventions (pods having label
//! keys in common), which could be enforced").

use berth_api::object::Pod;
use berth_input::policy::missing_labels_message;

use crate::answer::Denial;
use crate::findings::Findings;
use crate::policy::Policy;
use crate::request::AdmissionRequest;
use crate::rule::Rule;

/// Checks that a pod carries the labels. An update of `old` may not remove them; a pod from before the policy that lacks them
/// can be updated.
pub(crate) fn carries_required_labels(
    request: &AdmissionRequest,
    policy: &Policy,
    pod: &Pod,
    old: Option<&Pod>,
    found: &mut Findings,
) {
    let Some(required) = &policy.required_labels else { return };
    let before = old.map(|old| required.labels.missing(&old.metadata)).unwrap_or_default();
    let mut missing = required.labels.missing(&pod.metadata);
    missing.retain(|key| !before.contains(key));
    if !missing.is_empty() {
        let message = format!("metadata.labels: {}", missing_labels_message(&missing));
        found.broken(required.action, Denial::forbidden(Rule::RequiredLabels, request, message));
    }
}
