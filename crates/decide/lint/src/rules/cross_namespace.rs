//! Required anti-affinity against pods of other namespaces.

use berth_rules::{PodTerm, TopologyScope};

use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let terms = subject.pod.rules.required_anti_affinity.iter();
        for term in terms.filter(|term| term.selects_other_namespaces(subject.namespace())) {
            let message = format!(
                "each pod keeps pods of {} out of its {}, and their pods keep it out",
                term.namespaces,
                domain(input, term)
            );
            findings.add(&subject.object, subject.path(&term.path), message);
        }
    }
}

/// `domain of KEY (up to 3 nodes)`.
pub(super) fn domain(input: &LintInput<'_>, term: &PodTerm) -> String {
    let TopologyScope::Key(key) = &term.topology else { return "domain of every topology".to_owned() };
    let largest = input.nodes.domains(key).values().map(Vec::len).max();
    let size = match largest {
        Some(n) if n > 1 => format!(" (up to {n} nodes)"),
        _ => String::new(),
    };
    format!("domain of {key}{size}")
}
