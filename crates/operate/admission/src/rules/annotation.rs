//! Checks that the engine can read the annotations `scheduling.berth.dev/*` of a pod.

use berth_api::object::Pod;
use berth_api::syntax::annotations::ANNOTATION_PREFIX;
use berth_rules::admission::{extension_warnings, validate_annotations, validate_changed_annotations};

use crate::answer::Denial;
use crate::findings::Findings;
use crate::policy::{Action, Policy};
use crate::request::AdmissionRequest;
use crate::rule::Rule;

/// Validates every field of the annotations, with the messages of kube-apiserver. Valid fields without an effect cause
/// warnings, as kube-apiserver does for its own fields. An update of `old` may leave what it does not change.
pub(crate) fn has_valid_annotations(
    request: &AdmissionRequest,
    policy: &Policy,
    pod: &Pod,
    old: Option<&Pod>,
    found: &mut Findings,
) {
    fn annotations(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
        pod.metadata.annotations.iter().filter(|(key, _)| key.starts_with(ANNOTATION_PREFIX))
    }
    let is_unchanged =
        |old: &Pod| old.spec.affinity == pod.spec.affinity && annotations(old).eq(annotations(pod));
    if !policy.validate_annotation || old.is_some_and(is_unchanged) {
        return;
    }
    extension_warnings(pod).into_iter().for_each(|warning| found.warn(warning));
    let errors = match old {
        Some(old) => validate_changed_annotations(pod, old),
        None => validate_annotations(pod),
    };
    let errors: Vec<_> = errors.into_iter().map(|error| error.error).collect();
    let message = match errors.as_slice() {
        [] => return,
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    found.broken(Action::Reject, Denial::invalid(Rule::Annotation, "Pod", request.shown_name(), message));
}
