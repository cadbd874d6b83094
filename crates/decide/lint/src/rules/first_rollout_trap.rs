//! matchLabelKeys in anti-affinity of a Deployment that runs without it: the rules of old pods still exclude new ones.

use std::collections::HashMap;

use berth_api::object::Pod;
use berth_rules::{PodRules, PodSet};
use berth_simulate::Workloads;

use crate::finding::Findings;
use crate::input::LintInput;
use crate::rollout::{Trial, limits, pod_of_revision};
use crate::severity::Severity;
use crate::subject::Subject;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let candidates = input.subjects().filter_map(|subject| Some((subject, term_with_keys(subject)?)));
    let mut candidates = candidates.peekable();
    if candidates.peek().is_none() {
        return;
    }
    let workloads = Workloads::new(input.inventory);
    let mut running: HashMap<(&str, String), Vec<Pod>> = HashMap::new();
    for pod in input.inventory.pods.iter().map(|entry| &entry.object) {
        if let Some(owner) =
            workloads.owner(pod).filter(|_| !pod.spec.node_name.is_empty() && !pod.is_terminal())
        {
            running.entry((&pod.metadata.namespace, owner)).or_default().push(pod.clone());
        }
    }
    for (subject, path) in candidates {
        let Some(old) = running.get(&(subject.namespace(), subject.shown())) else { continue };
        let new = pod_of_revision(subject, "new", input.admission());
        let rules_of = |pod: &Pod| PodRules::parse(pod, input.settings.rule_options());
        let rules_of_new = rules_of(&new);
        let excludes = |rules: &PodRules, other: &Pod| {
            let selects =
                |set: PodSet| set.contains(subject.namespace(), &other.metadata.labels, &input.namespaces);
            rules.required_anti_affinity.iter().map(PodSet::of).any(selects)
        };
        let n_terms = subject.terms().count();
        let is_trap = |old: &Pod| {
            let may_look = input.work.spend(1 + n_terms);
            may_look && excludes(&rules_of(old), &new) && !excludes(&rules_of_new, old)
        };
        if !old.iter().any(is_trap) {
            continue;
        }
        let path = subject.path(format!("{path}.matchLabelKeys"));
        let message = "the running pods have the rule without matchLabelKeys and still exclude the new pods during this \
                       rollout";
        if input.nodes.is_empty() {
            findings.add(&subject.object, path, message).severity(Severity::Info);
        } else if input.spend_placements(subject, old.len(), input.nodes.all().len())
            && let Trial::Blocked { outcome, .. } = input.try_replacement(old, &new)
        {
            let reason = outcome.message();
            findings.add(&subject.object, path, format!("{message}, which cannot start: {reason}"));
        }
    }
}

/// The path of required anti-affinity with matchLabelKeys, of a Deployment whose updates start with a new pod.
fn term_with_keys(subject: &Subject<'_>) -> Option<String> {
    let (_, 0) = limits(subject)? else { return None };
    let terms = subject.written_terms().into_iter();
    let mut anti = terms.filter(|(path, _)| path.contains("podAntiAffinity.required"));
    anti.find(|(_, term)| !term.match_label_keys.is_empty()).map(|(path, _)| path)
}
