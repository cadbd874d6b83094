//! Checks that the engine can read the annotation `scheduling.berth.dev/affinity`.

use berth_api::admission::{extension_warnings, validate_annotations};

use super::attributes::PodAttributes;
use crate::answer::Denial;
use crate::findings::Findings;
use crate::policy::Action;
use crate::rule::Rule;

/// Validates every field of the annotation, with the messages of kube-apiserver. Valid fields without an effect
/// cause warnings, as kube-apiserver does for its own fields.
pub(super) fn is_valid(attributes: &PodAttributes<'_>, found: &mut Findings) {
    if !attributes.policy.validate_annotation {
        return;
    }
    extension_warnings(attributes.pod).into_iter().for_each(|warning| found.warn(warning));
    let errors: Vec<_> = validate_annotations(attributes.pod).into_iter().map(|error| error.error).collect();
    let message = match errors.as_slice() {
        [] => return,
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let name = attributes.request.shown_name();
    found.broken(Action::Reject, Denial::invalid(Rule::Annotation, "Pod", name, message));
}
