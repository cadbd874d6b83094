//! The annotation `scheduling.berth.dev/affinity` is what the engine will be able to read.

use berth_api::admission::validate_affinity_annotation;

use super::AskedPod;
use crate::answer::Denial;
use crate::merged::Merged;
use crate::policy::Action;
use crate::review::Rule;

/// Every field of the annotation is valid; the findings are worded and joined as kube-apiserver does it.
pub(super) fn is_valid(asked: &AskedPod<'_>, found: &mut Merged) {
    if !asked.policy.validate_annotation {
        return;
    }
    let errors: Vec<_> =
        validate_affinity_annotation(asked.pod).into_iter().map(|error| error.error).collect();
    let message = match errors.as_slice() {
        [] => return,
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let name = asked.request.shown_name();
    found.broken(Action::Reject, Denial::invalid(Rule::Annotation, "Pod", name, message));
}
