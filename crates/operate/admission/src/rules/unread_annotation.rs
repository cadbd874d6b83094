//! Annotations with rules that the scheduler of the pod does not read.

use berth_api::syntax::annotations::{AFFINITY_ANNOTATION, RELAX_AFTER_ANNOTATION};
use berth_input::config::DEFAULT_SCHEDULER_NAME;

use super::attributes::PodAttributes;
use crate::findings::Findings;

/// Warns about an annotation about affinity on a pod of another scheduler: only the webhook and the enforcer read it.
pub(super) fn has_a_reader(attributes: &PodAttributes<'_>, found: &mut Findings) {
    let names = &attributes.policy.scheduler_names;
    let own = match attributes.pod.object.spec.scheduler_name.as_str() {
        "" => DEFAULT_SCHEDULER_NAME,
        name => name,
    };
    let is_read = names.is_empty() || names.iter().any(|name| name == own);
    let annotations = [AFFINITY_ANNOTATION, RELAX_AFTER_ANNOTATION].into_iter();
    for annotation in
        annotations.filter(|name| !is_read && attributes.pod.object.metadata.annotations.contains_key(*name))
    {
        let names = names.join(" or ");
        found.warn(format!(
            "metadata.annotations[{annotation}]: the scheduler {own:?} does not read it: set \
             spec.schedulerName to {names}"
        ));
    }
}
