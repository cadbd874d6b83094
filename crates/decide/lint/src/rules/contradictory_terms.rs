//! Node selectors and node affinity that no node can match.

use std::collections::HashMap;

use berth_rules::{NodeTerm, Requirement};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::nodes::{alternatives, conjunction, is_satisfiable, term_requirements};
use crate::severity::Severity;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let rules = &subject.pod.rules.required_node_affinity;
        let is_valid = |term: &NodeTerm| !matches!(term, NodeTerm::Invalid(_));
        if rules.iter().any(|rule| rule.terms.is_empty() || !rule.terms.iter().all(is_valid)) {
            // The API server rejects it.
            continue;
        }
        let Some(all) = alternatives(&subject.pod.rules, &input.work) else { continue };
        if !all.iter().any(|requirements| is_satisfiable(requirements)) {
            let path = rules.first().map_or("spec.nodeSelector", |rule| &rule.path);
            let reason = all.first().and_then(|requirements| contradiction(requirements));
            let message = match reason {
                Some(reason) => format!("no node can ever match: {reason}"),
                None => "no node can ever match: an empty term matches no node".to_owned(),
            };
            findings.add(&subject.object, subject.path(path), message);
            continue;
        }
        let selector = subject.pod.rules.node_selector.iter();
        let selector: Vec<_> = selector.map(|(k, v)| Requirement::In(k.clone(), vec![v.clone()])).collect();
        for (i, rule) in rules.iter().enumerate() {
            if !input.work.spend(rule.terms.len() * (selector.len() + rules.len())) {
                return;
            }
            let others: Vec<_> = rules[..i].iter().chain(&rules[i + 1..]).cloned().collect();
            for (j, term) in rule.terms.iter().enumerate() {
                let Some(requirements) = term_requirements(term) else { continue };
                let with_selector = selector.iter().cloned().chain(requirements).collect();
                let Some(all) = conjunction(vec![with_selector], &others, &input.work) else { continue };
                if !all.iter().any(|requirements| is_satisfiable(requirements)) {
                    let reason = all.first().and_then(|all| contradiction(all)).unwrap_or_default();
                    let message =
                        format!("no node can ever match this term: {reason}; the other terms remain");
                    let path = subject.path(format!("{}.nodeSelectorTerms[{j}]", rule.path));
                    findings.add(&subject.object, path, message).severity(Severity::Warning);
                }
            }
        }
    }
}

/// The requirements on the first key that no value satisfies.
fn contradiction(requirements: &[Requirement]) -> Option<String> {
    let mut by_key: HashMap<&str, Vec<Requirement>> = HashMap::new();
    for requirement in requirements {
        by_key.entry(requirement.key()).or_default().push(requirement.clone());
    }
    let mut of_keys = requirements.iter().filter_map(|requirement| by_key.remove(requirement.key()));
    let contradicting = of_keys.find(|of_key| !is_satisfiable(of_key))?;
    let shown: Vec<_> = contradicting.iter().map(|requirement| format!("`{requirement}`")).collect();
    Some(format!("{} contradict each other", shown.join(" and ")))
}
