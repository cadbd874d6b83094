//! Node label keys that are out of use.

use std::collections::BTreeSet;

use berth_rules::admission::deprecated_node_label;

use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Subject;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let places = places(subject);
        let used: BTreeSet<&str> = places.iter().map(|(_, key)| key.as_str()).collect();
        for (path, key) in &places {
            let Some(reason) = deprecated_node_label(key) else { continue };
            let replacement = reason.split('"').nth(1);
            // Nodes of old and of new versions are meant.
            if replacement.is_some_and(|replacement| used.contains(replacement)) {
                continue;
            }
            let reason = reason.split("; use").next().filter(|reason| reason.starts_with("deprecated"));
            let message = format!("{key} is {}", reason.unwrap_or("deprecated"));
            let finding = findings.add(&subject.object, subject.path(path), message);
            if let Some(replacement) = replacement {
                finding.fix(format!("use {replacement}"));
            }
        }
    }
}

/// The node label keys that a pod uses, each with its path.
fn places(subject: &Subject<'_>) -> Vec<(String, String)> {
    let spec = &subject.written.spec;
    let selector = spec.node_selector.keys().map(|key| (format!("spec.nodeSelector[{key}]"), key.clone()));
    let mut places: Vec<_> = selector.collect();
    for (path, _, requirement) in subject.node_expressions() {
        places.push((format!("{path}.key"), requirement.key));
    }
    for (path, term) in subject.written_terms() {
        places.push((format!("{path}.topologyKey"), term.topology_key));
    }
    for (i, constraint) in spec.topology_spread_constraints.iter().enumerate() {
        let path = format!("spec.topologySpreadConstraints[{i}].topologyKey");
        places.push((path, constraint.topology_key.clone()));
    }
    places
}
