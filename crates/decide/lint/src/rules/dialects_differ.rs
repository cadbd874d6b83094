//! Field values that the two dialects read differently.

use berth_rules::dialect_notes;

use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        for note in dialect_notes(&subject.written, input.settings.extensions) {
            findings.add(&subject.object, subject.path(&note.path), note.text);
        }
    }
}
