//! Selectors that select everything.

use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        for term in subject.terms().filter(|term| term.term.selector.is_everything()) {
            let message = format!(
                "the {} is with all pods of {}, whatever their labels",
                term.shown(),
                term.term.namespaces
            );
            findings.add(&subject.object, subject.path(format!("{}.labelSelector", term.path())), message);
        }
        for constraint in subject.rules.spread_constraints.iter().filter(|c| c.selector.is_everything()) {
            let message = format!("all pods of {} count, whatever their labels", subject.namespace());
            findings.add(
                &subject.object,
                subject.path(format!("{}.labelSelector", constraint.path)),
                message,
            );
        }
    }
}
