//! Warnings about what the two dialects read differently, and about terms that do nothing.

use berth_api::admission::extension_warnings;
use berth_api::rules::dialect_notes;

use super::AskedPod;
use crate::merged::Merged;

/// Everything in the pod's affinity that means something else in the other dialect, or nothing at all.
pub(super) fn warn_about_differences(asked: &AskedPod<'_>, found: &mut Merged) {
    if !asked.policy.dialect_warnings {
        return;
    }
    for note in dialect_notes(asked.pod, true) {
        found.warn(format!("{}: {}", note.path, note.text));
    }
    extension_warnings(asked.pod).into_iter().for_each(|warning| found.warn(warning));
}
