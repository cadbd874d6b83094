//! Preferred anti-affinity against pods of other namespaces, which degrades their scheduling quality.

use berth_api::syntax::format::counted;

use super::cross_namespace::domain;
use berth_rules::PodSet;

use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let terms = subject.pod.rules.preferred_anti_affinity.iter().map(|preferred| &preferred.term);
        for term in terms.filter(|term| term.selects_other_namespaces(subject.namespace())) {
            let n_running = input.n_running(&PodSet::of(term));
            let match_it = if n_running == 1 { "matches" } else { "match" };
            let message = format!(
                "each pod lowers the scores of its {} for pods of {}, and their pods do so for it; {} {match_it} the term",
                domain(input, term),
                term.namespaces,
                counted(n_running, "running pod")
            );
            findings.add(&subject.object, subject.path(&term.path), message);
        }
    }
}
