//! Pods that the admission policy refuses.

use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let Some(review) = input.review else { return };
    for subject in input.subjects() {
        for reason in review(&subject.pod) {
            let is_path = |path: &str| path.starts_with("spec.") || path.starts_with("metadata.");
            let named = reason.split_once(": ").filter(|(path, _)| is_path(path));
            let (path, message) = named.unwrap_or(("spec", &reason));
            findings.add(&subject.object, subject.path(path), message);
        }
    }
}
