//! Label selectors of pod terms and spread constraints that select nothing, everything, or other pods than intended, and node
//! selectors that match no node.

use std::collections::BTreeSet;

use berth_api::feature_gates::VersionChange;
use berth_api::object::{Pod, PodAffinityTerm};
use berth_api::read::Kind;
use berth_rules::{Requirement, Selector, SpreadConstraint, WhenUnsatisfiable};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::nodes::{alternatives, is_satisfiable};
use crate::severity::Severity;
use crate::subject::Subject;
use crate::terms::{Term, shown};

/// Number of workloads named in a message.
const MAX_NAMED: usize = 5;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        for (path, term) in subject.written_terms() {
            written_term(subject, &path, &term, findings);
        }
        for (i, constraint) in subject.written.spec.topology_spread_constraints.iter().enumerate() {
            let path = format!("spec.topologySpreadConstraints[{i}]");
            absent_keys(subject, &format!("{path}.matchLabelKeys"), &constraint.match_label_keys, findings);
            if constraint.label_selector.is_none() {
                let effect = without_pods(&constraint.when_unsatisfiable, &constraint.topology_key);
                let message = format!("a constraint without labelSelector counts no pod: {effect}");
                findings.add_one("null", &subject.object, subject.path(path), message);
            }
        }
        for term in subject.terms() {
            if term.term.selector.is_everything() {
                let (term_shown, namespaces) = (term.shown(), &term.term.namespaces);
                let message =
                    format!("the {term_shown} is with all pods of {namespaces}, whatever their labels");
                let path = subject.path(format!("{}.labelSelector", term.path()));
                findings.add_one("empty", &subject.object, path, message);
            } else if term.term.selector != Selector::Nothing {
                matches_nothing(input, subject, term, findings);
            }
        }
        constraints(input, subject, findings);
        node_rules(input, subject, findings);
    }
}

fn written_term(subject: &Subject<'_>, path: &str, term: &PodAffinityTerm, findings: &mut Findings) {
    absent_keys(subject, &format!("{path}.matchLabelKeys"), &term.match_label_keys, findings);
    absent_keys(subject, &format!("{path}.mismatchLabelKeys"), &term.mismatch_label_keys, findings);
    if term.label_selector.is_none() {
        let (result, severity) = match path.contains(".podAffinity.required") {
            true => ("it can never be satisfied", Severity::Error),
            false => ("it has no effect", Severity::Warning),
        };
        let message = format!("a term without labelSelector selects no pod: {result}");
        findings.add_one("null", &subject.object, subject.path(path), message).severity(severity);
    }
}

/// Label keys that are to be merged into a selector, and that the pods do not have.
fn absent_keys(subject: &Subject<'_>, path: &str, keys: &[String], findings: &mut Findings) {
    let is_absent = |(_, key): &(usize, &String)| !subject.written.metadata.labels.contains_key(*key);
    for (i, key) in keys.iter().enumerate().filter(is_absent) {
        let message = format!("the pods have no label {key}: the key is ignored");
        let path = subject.path(format!("{path}[{i}]"));
        findings.add_one("match-label-key-absent", &subject.object, path, message);
    }
}

fn constraints(input: &LintInput<'_>, subject: &Subject<'_>, findings: &mut Findings) {
    let counts_all = input.settings.config.feature_gates.has(VersionChange::EmptySpreadSelector);
    for constraint in &subject.pod.rules.spread_constraints {
        let path = subject.path(format!("{}.labelSelector", constraint.path));
        if constraint.selector.is_everything() && counts_all {
            let message = format!(
                "a constraint with the empty selector counts all pods of {} (before Kubernetes 1.38, it counts none)",
                subject.namespace()
            );
            findings.add_one("empty", &subject.object, path, message);
        } else if constraint.selector.is_everything() {
            let effect = match constraint.when_unsatisfiable {
                WhenUnsatisfiable::DoNotSchedule => without_pods("DoNotSchedule", &constraint.topology_key),
                WhenUnsatisfiable::ScheduleAnyway => without_pods("ScheduleAnyway", &constraint.topology_key),
            };
            let message = format!(
                "a constraint with the empty selector counts no pod: {effect} (from Kubernetes 1.38 on, it counts all pods of {})",
                subject.namespace()
            );
            findings.add_one("empty", &subject.object, path, message);
        } else if constraint.selector != Selector::Nothing
            && !subject.is_in(&subject.spread_set(constraint), &input.namespaces)
        {
            let labels: Vec<_> = subject.own_labels().map(|(key, value)| format!("{key}={value}")).collect();
            let message = format!(
                "the constraint counts pods with {}, and the pods that have it do not match: they are not spread",
                shown(&constraint.selector)
            );
            findings
                .add_one("misses-own-pods", &subject.object, path, message)
                .fix(format!("select labels of the pods: {}", labels.join(", ")));
        } else if constraint.selector != Selector::Nothing {
            counts_others(input, subject, constraint, path, findings);
        }
    }
}

/// What a constraint that counts no pod does.
fn without_pods(when_unsatisfiable: &str, key: &str) -> String {
    match when_unsatisfiable {
        "ScheduleAnyway" => format!("it only prefers nodes with the label {key}"),
        _ => format!("it only requires the label {key} of nodes, and spreads nothing"),
    }
}

/// A constraint that also counts pods of other workloads.
fn counts_others(
    input: &LintInput<'_>,
    subject: &Subject<'_>,
    constraint: &SpreadConstraint,
    path: String,
    findings: &mut Findings,
) {
    let set = subject.spread_set(constraint);
    let groups: Vec<_> = input.population.in_set(&set).collect();
    let subjects = groups.iter().filter_map(|group| input.subjects.get(group.subject?));
    let others: Vec<_> = subjects.filter(|other| other.object.order != subject.object.order).collect();
    let mut names: BTreeSet<String> = others.iter().map(|other| other.shown()).collect();
    if groups.iter().any(|group| group.subject.is_none()) && input.work.spend(input.inventory.pods.len()) {
        let counts = |pod: &&Pod| {
            !pod.is_terminal()
                && set.contains(&pod.metadata.namespace, &pod.metadata.labels, &input.namespaces)
        };
        let pods = input.inventory.pods.iter().map(|entry| &entry.object).filter(counts);
        let owner =
            |pod: &Pod| input.owners.owner(pod).unwrap_or_else(|| format!("Pod {}", pod.metadata.name));
        names.extend(pods.map(owner).filter(|name| *name != subject.shown()));
    }
    let names: Vec<_> = names.into_iter().collect();
    let shown = match names.as_slice() {
        [] => return,
        [one] => one.clone(),
        all => format!(
            "{} and {}",
            all[..all.len().min(MAX_NAMED) - 1].join(", "),
            match all.len() {
                n if n > MAX_NAMED => format!("{} more", n + 1 - MAX_NAMED),
                n => all[n - 1].clone(),
            }
        ),
    };
    let n_compared = others.iter().map(|other| 1 + other.pod.rules.spread_constraints.len()).sum();
    if !input.work.spend(n_compared) {
        return;
    }
    // Pods that have the same constraint are spread with these.
    let has_same = |other: &&Subject<'_>| {
        other
            .pod
            .rules
            .spread_constraints
            .iter()
            .any(|own| own.topology_key == constraint.topology_key && own.selector == constraint.selector)
    };
    let is_soft = constraint.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway;
    let is_common = groups.iter().all(|group| group.subject.is_some()) && others.iter().all(has_same);
    let own: Vec<_> = subject
        .own_labels()
        .filter(|(key, value)| {
            others.iter().all(|other| other.pod.object.metadata.label(key) != Some(value.as_str()))
        })
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let message = format!(
        "the constraint also counts pods of {shown}: where they run decides where pods of {} fit",
        subject.shown()
    );
    let finding = findings.add_one("counts-others", &subject.object, path, message);
    if is_soft || is_common {
        finding.severity(Severity::Info);
    }
    if !own.is_empty() {
        finding.fix(format!("also select labels that only these pods have: {}", own.join(", ")));
    }
}

/// A term that selects some pods, none of which is in the input.
fn matches_nothing(input: &LintInput<'_>, subject: &Subject<'_>, term: Term<'_>, findings: &mut Findings) {
    let (set, selector) = (term.set(), &term.term.selector);
    if subject.is_in(&set, &input.namespaces) || input.population.in_set(&set).next().is_some() {
        return;
    }
    // Affinity has another rule for it.
    let own_key = subject.own_match_label_key(&term.path());
    if own_key.is_some() && term.required && !term.anti {
        return;
    }
    let message = if let Some(key) = own_key {
        format!("matchLabelKeys has {key}: no pod of another workload has its value")
    } else if !selector.is_satisfiable() {
        format!("no pod can match {}: the requirements contradict each other", shown(selector))
    } else if input.shows_all_pods(&set.namespaces) {
        format!("no pod of {} has {}", set.namespaces, shown(selector))
    } else {
        return;
    };
    let path = subject.path(format!("{}.labelSelector", term.path()));
    let finding = findings.add_one("matches-nothing", &subject.object, path, message);
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
    let rules = &subject.pod.rules;
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
    let finding = findings.add_one("matches-nothing", &subject.object, subject.path(path), message);
    if subject.kind == Kind::DaemonSet {
        // It may be for nodes that come later, and no pod is pending.
        finding.severity(Severity::Info);
    }
}
