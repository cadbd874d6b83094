//! Pods without the label keys that all pods must carry.

use berth_input::policy::missing_labels_message;

use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        for (required, severity) in &input.required_labels {
            let missing = required.missing(&subject.written.metadata);
            if missing.is_empty() {
                continue;
            }
            let path = subject.path("metadata.labels");
            let fix = format!("add {} to {path}", missing.join(", "));
            findings
                .add(&subject.object, path, missing_labels_message(&missing))
                .severity(*severity)
                .fix(fix);
        }
    }
}
