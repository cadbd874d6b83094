//! Spread constraints that do not count the pods that have them.

use berth_api::rules::Selector;

use crate::finding::Findings;
use crate::input::LintInput;
use crate::terms::shown;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        for constraint in &subject.rules.spread_constraints {
            let set = subject.spread_set(constraint);
            if constraint.selector == Selector::Nothing || subject.is_in(&set, &input.namespaces) {
                continue;
            }
            let labels: Vec<_> = subject.own_labels().map(|(key, value)| format!("{key}={value}")).collect();
            let message = format!(
                "the constraint counts pods with {}, and the pods that have it do not match: they are not spread",
                shown(&constraint.selector)
            );
            findings
                .add(&subject.object, subject.path(format!("{}.labelSelector", constraint.path)), message)
                .fix(format!("select labels of the pods: {}", labels.join(", ")));
        }
    }
}
