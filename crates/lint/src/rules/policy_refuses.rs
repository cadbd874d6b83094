//! Pods that the admission policy refuses.

use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let Some(review) = input.review else { return };
    for subject in &input.subjects {
        for reason in review(&subject.pod) {
            let path =
                reason.split(": ").find(|part| part.starts_with("spec.") || part.starts_with("metadata."));
            let path = path.map_or("spec", |path| path.split(' ').next().unwrap_or(path)).to_owned();
            findings.add(&subject.object, subject.path(path), reason);
        }
    }
}
