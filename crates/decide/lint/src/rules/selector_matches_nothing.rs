//! Selectors that match no pod, and node selectors that match no node.

use berth_api::read::Kind;
use berth_api::rules::{Requirement, Selector};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::nodes::{alternatives, is_satisfiable};
use crate::severity::Severity;
use crate::subject::Subject;
use crate::terms::shown;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        for term in subject.terms() {
            let (set, selector) = (term.set(), &term.term.selector);
            let is_open = *selector == Selector::Nothing || selector.is_everything();
            if is_open
                || subject.is_in(&set, &input.namespaces)
                || input.population.in_set(&set).next().is_some()
            {
                continue;
            }
            // Affinity has another rule for it.
            let own_key = subject.own_match_label_key(&term.path());
            if own_key.is_some() && term.required && !term.anti {
                continue;
            }
            let message = if let Some(key) = own_key {
                format!("matchLabelKeys has {key}: no pod of another workload has its value")
            } else if !selector.is_satisfiable() {
                format!("no pod can match {}: the requirements contradict each other", shown(selector))
            } else if input.shows_all_pods(&set.namespaces) {
                format!("no pod of {} has {}", set.namespaces, shown(selector))
            } else {
                continue;
            };
            let path = subject.path(format!("{}.labelSelector", term.path()));
            let finding = findings.add(&subject.object, path, message);
            if let Some(key) = own_key {
                finding.fix(format!("remove {key} from matchLabelKeys"));
            } else if input.selects_elsewhere(&set) {
                finding
                    .severity(Severity::Info)
                    .fix("add the manifests of the selected pods, or correct the selector");
            } else if let Some(fix) = own_labels(subject, selector) {
                finding.fix(fix);
            }
        }
        node_rules(input, subject, findings);
    }
}

/// If the selector looks like the pod's own labels: the same values or keys.
fn own_labels(subject: &Subject<'_>, selector: &Selector) -> Option<String> {
    let is_like = |(key, value): &(&String, &String)| {
        selector.requirements().iter().any(|r| {
            r.key() == key.as_str() || matches!(r, Requirement::In(_, values) if values.contains(value))
        })
    };
    let like: Vec<_> =
        subject.own_labels().filter(is_like).map(|(key, value)| format!("{key}={value}")).collect();
    (!like.is_empty()).then(|| format!("correct the selector; the pod itself has {}", like.join(", ")))
}

fn node_rules(input: &LintInput<'_>, subject: &Subject<'_>, findings: &mut Findings) {
    let rules = &subject.rules;
    let has_rules = !rules.node_selector.is_empty() || !rules.required_node_affinity.is_empty();
    if !has_rules || input.nodes.is_empty() || !input.nodes.matching(rules).is_empty() {
        return;
    }
    // Otherwise no node can ever match, which is another rule.
    let could_match =
        alternatives(rules, &input.work).is_none_or(|all| all.iter().any(|all| is_satisfiable(all)));
    if !could_match {
        return;
    }
    let n_nodes = input.nodes.all().len();
    let missing = rules
        .node_selector
        .iter()
        .find(|(key, value)| !input.nodes.domains(key).contains_key(value.as_str()));
    let (path, message) = match missing {
        Some((key, value)) => {
            (format!("spec.nodeSelector[{key}]"), format!("none of the {n_nodes} nodes has {key}={value}"))
        }
        None => {
            let path = rules.required_node_affinity.first().map_or("spec.nodeSelector", |rule| &rule.path);
            (path.to_owned(), format!("none of the {n_nodes} nodes matches"))
        }
    };
    let finding = findings.add(&subject.object, subject.path(path), message);
    if subject.kind == Kind::DaemonSet {
        // It may be for nodes that come later, and no pod is pending.
        finding.severity(Severity::Info);
    }
}
