//! Warnings about the differences between the two dialects.

use berth_rules::dialect_notes;

use super::attributes::PodAttributes;
use crate::findings::Findings;

/// Warns about every part of the pod's affinity with another meaning in the other dialect.
pub(super) fn warn_about_differences(attributes: &PodAttributes<'_>, found: &mut Findings) {
    if !attributes.policy.dialect_warnings {
        return;
    }
    for note in dialect_notes(&attributes.pod.object, attributes.policy.rule_options.extensions) {
        found.warn(format!("{}: {}", note.path, note.text));
    }
}
