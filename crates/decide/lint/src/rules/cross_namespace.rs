//! Required anti-affinity against pods of other namespaces.

use berth_api::rules::TopologyScope;

use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        for term in &subject.rules.required_anti_affinity {
            if !term.selects_other_namespaces(subject.namespace()) {
                continue;
            }
            let (domain, key) = match &term.topology {
                TopologyScope::Key(key) => (format!("domain of {key}"), Some(key)),
                TopologyScope::All => ("domain of every topology".to_owned(), None),
            };
            let largest = key.and_then(|key| input.nodes.domains(key).values().map(Vec::len).max());
            let size = match largest {
                Some(n) if n > 1 => format!(" (up to {n} nodes)"),
                _ => String::new(),
            };
            let message = format!(
                "each pod keeps pods of {} out of its {domain}{size}, and their pods keep it out",
                term.namespaces
            );
            findings.add(&subject.object, subject.path(&term.path), message);
        }
    }
}
