//! `Gt` and `Lt` with bounds or labels that are not integers.

use berth_rules::{NodeRequirement, NodeTerm, PodSet, Requirement, Selector};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::severity::Severity;
use crate::subject::Subject;

/// Steps of work to copy a requirement.
const COPY_STEPS: usize = 5;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let node_expressions = subject.node_expressions().into_iter().map(|(path, _, r)| (path, r));
        let pod_expressions = subject.written_terms().into_iter().flat_map(|(path, term)| {
            let expressions =
                term.label_selector.map(|selector| selector.match_expressions).unwrap_or_default();
            let with_path = move |(i, r)| (format!("{path}.labelSelector.matchExpressions[{i}]"), r);
            expressions.into_iter().enumerate().map(with_path)
        });
        for (path, requirement) in node_expressions.chain(pod_expressions) {
            let compares = matches!(requirement.operator.as_str(), "Gt" | "Lt");
            let not_integer = |value: &&String| value.parse::<i64>().is_err();
            if let Some(value) = requirement.values.iter().find(not_integer).filter(|_| compares) {
                let message = format!("{} compares integers, and {value:?} is none", requirement.operator);
                findings.add(&subject.object, subject.path(format!("{path}.values[0]")), message);
            }
        }
        labels_of_nodes(input, subject, findings);
        labels_of_pods(input, subject, findings);
    }
}

fn labels_of_nodes(input: &LintInput<'_>, subject: &Subject<'_>, findings: &mut Findings) {
    let mut terms = Vec::new();
    for rule in &subject.pod.rules.required_node_affinity {
        for (i, term) in rule.terms.iter().enumerate() {
            if let NodeTerm::All(requirements) = term {
                terms.push((format!("{}.nodeSelectorTerms[{i}]", rule.path), requirements));
            }
        }
    }
    let preferred = subject.pod.rules.preferred_node_affinity.iter();
    let preferred = preferred.map(|term| (format!("{}.preference", term.path), &term.requirements));
    for (path, requirements) in terms.into_iter().chain(preferred) {
        for requirement in requirements {
            let NodeRequirement::Label(requirement) = requirement else {
                continue;
            };
            if !matches!(requirement, Requirement::Gt(..) | Requirement::Lt(..)) {
                continue;
            }
            let domains = input.nodes.domains(requirement.key());
            if !input.work.spend(domains.len()) {
                return;
            }
            let count = |is_integer: bool| {
                let values = domains.iter().filter(|(value, _)| value.parse::<i64>().is_ok() == is_integer);
                values.map(|(_, nodes)| nodes.len()).sum::<usize>()
            };
            report(subject, findings, path.clone(), requirement, "node", [count(true), count(false)]);
        }
    }
}

fn labels_of_pods(input: &LintInput<'_>, subject: &Subject<'_>, findings: &mut Findings) {
    for term in subject.terms() {
        for requirement in term.term.selector.requirements() {
            if !matches!(requirement, Requirement::Gt(..) | Requirement::Lt(..)) {
                continue;
            }
            // The other requirements still hold.
            let requirements = term.term.selector.requirements();
            if !input.work.spend(COPY_STEPS * requirements.len()) {
                return;
            }
            let others = requirements.iter().filter(|other| *other != requirement);
            let set = PodSet {
                namespaces: term.term.namespaces.clone(),
                selector: Selector::All(others.cloned().collect()),
            };
            let mut counts = [0, 0];
            for value in input.population.in_set(&set).filter_map(|group| group.labels.get(requirement.key()))
            {
                counts[usize::from(value.parse::<i64>().is_err())] += 1;
            }
            let path = format!("{}.labelSelector", term.path());
            report(subject, findings, path, requirement, "kind of pods", counts);
        }
    }
}

/// `counts`: how many have an integer as the label, and how many another value.
fn report(
    subject: &Subject<'_>,
    findings: &mut Findings,
    path: String,
    requirement: &Requirement,
    noun: &str,
    [integers, others]: [usize; 2],
) {
    if others == 0 {
        return;
    }
    let key = requirement.key();
    let (message, severity) = match integers {
        0 => (
            format!("`{requirement}` never holds: no {noun} has an integer as its label {key}"),
            Severity::Error,
        ),
        _ => {
            let message =
                format!("`{requirement}` does not hold of {others} whose label {key} is not an integer");
            (message, Severity::Warning)
        }
    };
    findings.add(&subject.object, subject.path(path), message).severity(severity);
}
