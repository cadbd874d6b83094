//! Annotations about evictions whose values the enforcer ignores.

use berth_rules::invalid_eviction_annotations;

use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        for (annotation, problem) in invalid_eviction_annotations(&subject.pod.object.metadata) {
            let path = subject.path(format!("metadata.annotations[{annotation}]"));
            findings.add(&subject.object, path, problem);
        }
    }
}
