//! Pods that the admission policy refuses, or warns about.

use crate::finding::Findings;
use crate::input::{LintInput, Objection};
use crate::severity::Severity;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let Some(review) = input.review else { return };
    for subject in input.subjects() {
        for Objection { refused, message } in review(&subject.pod.object) {
            let is_path = |path: &str| path.starts_with("spec.") || path.starts_with("metadata.");
            let named = message.split_once(": ").filter(|(path, _)| is_path(path));
            let (path, message) = named.unwrap_or(("spec", &message));
            let finding = findings.add(&subject.object, subject.path(path), message);
            if !refused {
                finding.severity(Severity::Warning);
            }
        }
    }
}
