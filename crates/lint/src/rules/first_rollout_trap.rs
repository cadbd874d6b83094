//! matchLabelKeys in anti-affinity of a Deployment that runs without it: the rules of old pods still exclude new ones.

use berth_api::object::Pod;
use berth_api::rules::PodRules;
use berth_simulate::Workloads;

use crate::finding::Findings;
use crate::input::LintInput;
use crate::rollout::{Trial, limits, pod_of_revision};
use crate::rule::Severity;
use crate::terms::set;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let workloads = Workloads::new(input.inventory);
    let owner = workloads.owners();
    for subject in input.subjects.iter().filter(|subject| limits(subject).is_some_and(|(_, down)| down == 0))
    {
        let with_keys =
            |(_, term): &(String, berth_api::object::PodAffinityTerm)| !term.match_label_keys.is_empty();
        let Some((path, _)) = subject
            .written_terms()
            .into_iter()
            .find(|term| with_keys(term) && term.0.contains("podAntiAffinity.required"))
        else {
            continue;
        };
        let new = pod_of_revision(subject, "new", input.settings.extensions);
        let is_old = |pod: &Pod| {
            !pod.spec.node_name.is_empty()
                && pod.metadata.namespace == subject.namespace()
                && owner(pod).is_some_and(|owner| owner == subject.shown())
        };
        let old: Vec<_> =
            input.inventory.pods.iter().map(|entry| &entry.object).filter(|pod| is_old(pod)).collect();
        // Old pods exclude the new one, and the new one would not exclude them.
        let excludes = |a: &Pod, b: &Pod| {
            let rules = PodRules::parse(a, input.settings.extensions);
            let sets = rules.required_anti_affinity.iter().map(set);
            sets.into_iter().any(|s| s.contains(subject.namespace(), &b.metadata.labels, &input.namespaces))
        };
        if !old.iter().any(|old| excludes(old, &new) && !excludes(&new, old)) {
            continue;
        }
        let old: Vec<Pod> = old.into_iter().cloned().collect();
        let path = subject.path(format!("{path}.matchLabelKeys"));
        let message = "the running pods have the rule without matchLabelKeys and still exclude the new pods during this \
                       rollout";
        if input.nodes.is_empty() {
            findings.add(&subject.object, path, message).severity(Severity::Info);
        } else if let Trial::Blocked { message: reason, .. } = input.try_replacement(&old, &new) {
            findings.add(&subject.object, path, format!("{message}, which cannot start: {reason}"));
        }
    }
}
