//! Terms without a label selector.

use crate::finding::Findings;
use crate::input::LintInput;
use crate::severity::Severity;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let terms = subject.written_terms().into_iter().filter(|(_, term)| term.label_selector.is_none());
        for (path, _) in terms {
            let is_required_affinity = path.contains(".podAffinity.required");
            let (message, severity) = match is_required_affinity {
                true => (
                    "a term without labelSelector selects no pod: it can never be satisfied",
                    Severity::Error,
                ),
                false => ("a term without labelSelector selects no pod: it has no effect", Severity::Warning),
            };
            findings.add(&subject.object, subject.path(path), message).severity(severity);
        }
        let constraints = subject.written.spec.topology_spread_constraints.iter().enumerate();
        for (i, _) in constraints.filter(|(_, constraint)| constraint.label_selector.is_none()) {
            let path = format!("spec.topologySpreadConstraints[{i}]");
            let message = "a constraint without labelSelector counts no pod: it has no effect";
            findings.add(&subject.object, subject.path(path), message);
        }
    }
}
