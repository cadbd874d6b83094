//! Warnings about what the two dialects read differently.

use berth_api::rules::dialect_notes;

use super::AskedPod;
use crate::findings::Findings;

/// Everything in the pod's affinity that means something else in the other dialect.
pub(super) fn warn_about_differences(asked: &AskedPod<'_>, found: &mut Findings) {
    if !asked.policy.dialect_warnings {
        return;
    }
    for note in dialect_notes(asked.pod, true) {
        found.warn(format!("{}: {}", note.path, note.text));
    }
}
