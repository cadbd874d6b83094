//! Fields of a pod that the two dialects read differently.

use super::Dialect;
use super::pod_term::needs_extensions;
use crate::annotation_affinity;
use berth_api::object::{Affinity, NodeSelector, NodeSelectorTerm, Pod, PodAffinity, PodAffinityTerm};
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;

/// A field value that means one thing in the v1 API and another in the design proposals, or nothing without extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialectNote {
    pub path: String,
    /// Its meaning in this field, and its meaning in the other dialect.
    pub text: String,
}

/// All fields of a pod's affinity that the two dialects read differently. Without extensions only v1 fields are read.
pub fn dialect_notes(pod: &Pod, extensions: bool) -> Vec<DialectNote> {
    let mut notes = Notes { extensions, all: Vec::new() };
    if let Some(affinity) = &pod.spec.affinity {
        notes.affinity(affinity, "spec.affinity", Dialect::V1);
    }
    if let Some(affinity) = annotation_affinity(pod).ok().flatten().filter(|_| extensions) {
        notes.affinity(&affinity, &format!("metadata.annotations[{AFFINITY_ANNOTATION}]"), Dialect::Proposal);
    }
    notes.all
}

struct Notes {
    extensions: bool,
    all: Vec<DialectNote>,
}

impl Notes {
    fn add(&mut self, path: String, dialect: Dialect, v1: &str, proposal: &str) {
        let text = match dialect {
            Dialect::V1 => format!("{v1}; in the proposals' fields: {proposal}"),
            Dialect::Proposal => format!("{proposal}; in v1 fields: {v1}"),
        };
        self.all.push(DialectNote { path, text });
    }

    fn affinity(&mut self, affinity: &Affinity, path: &str, dialect: Dialect) {
        if let Some(node) = &affinity.node_affinity {
            let path = format!("{path}.nodeAffinity");
            if let Some(selector) = &node.required_during_scheduling_ignored_during_execution {
                self.node_selector(selector, format!("{path}.{IGNORED}"), dialect);
            }
            let executing = node.required_during_scheduling_required_during_execution.as_ref();
            if let Some(selector) = executing.filter(|_| self.extensions) {
                self.node_selector(selector, format!("{path}.{REQUIRED}"), Dialect::Proposal);
            }
        }
        for (rules, name) in
            [(&affinity.pod_affinity, "podAffinity"), (&affinity.pod_anti_affinity, "podAntiAffinity")]
        {
            if let Some(rules) = rules {
                self.pod_rules(rules, &format!("{path}.{name}"), dialect);
            }
        }
    }

    fn node_selector(&mut self, selector: &NodeSelector, path: String, dialect: Dialect) {
        if selector.node_selector_terms.is_empty() {
            self.add(
                format!("{path}.nodeSelectorTerms"),
                dialect,
                "no terms are an error",
                "no terms match no node",
            );
        }
        for (i, term) in selector.node_selector_terms.iter().enumerate() {
            if *term == NodeSelectorTerm::default() {
                let path = format!("{path}.nodeSelectorTerms[{i}]");
                self.add(path, dialect, "an empty term matches no node", "an empty term matches every node");
            }
        }
    }

    fn pod_rules(&mut self, rules: &PodAffinity, path: &str, dialect: Dialect) {
        for (i, term) in rules.required_during_scheduling_ignored_during_execution.iter().enumerate() {
            self.pod_term(term, &format!("{path}.{IGNORED}[{i}]"), dialect);
        }
        let executing = &rules.required_during_scheduling_required_during_execution;
        let extensions = self.extensions;
        for (i, term) in executing.iter().enumerate().filter(|_| extensions) {
            self.pod_term(term, &format!("{path}.{REQUIRED}[{i}]"), Dialect::Proposal);
        }
        for (i, weighted) in rules.preferred_during_scheduling_ignored_during_execution.iter().enumerate() {
            let path = format!("{path}.{PREFERRED}[{i}].podAffinityTerm");
            self.pod_term(&weighted.pod_affinity_term, &path, dialect);
        }
    }

    fn pod_term(&mut self, term: &PodAffinityTerm, path: &str, dialect: Dialect) {
        if !self.extensions && needs_extensions(term) {
            let text = "Gt and Lt on pod labels are an extension that is switched off: the term is refused, and ignored in stored pods"
                .to_owned();
            return self.all.push(DialectNote { path: format!("{path}.labelSelector"), text });
        }
        if term.namespaces.as_ref().is_some_and(Vec::is_empty) {
            let v1 = match term.namespace_selector {
                None => "an empty list is the pod's own namespace",
                Some(_) => "an empty list adds nothing to namespaceSelector",
            };
            self.add(format!("{path}.namespaces"), dialect, v1, "an empty list is all namespaces");
        }
        if term.topology_key.is_empty() {
            let path = format!("{path}.topologyKey");
            self.add(path, dialect, "an empty key is an error", "an empty key is all topologies");
        }
    }
}

const IGNORED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const REQUIRED: &str = "requiredDuringSchedulingRequiredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PodRules, RuleOptions};

    #[test]
    fn terms_that_need_extensions_are_ignored_without_them() {
        let term = |operator: &str| {
            serde_json::json!({"topologyKey": "zone", "labelSelector": {"matchExpressions": [
                {"key": "size", "operator": operator, "values": ["3"]}]}})
        };
        let terms = |operator| {
            serde_json::json!({
                "requiredDuringSchedulingIgnoredDuringExecution": [term(operator), term("In")],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term(operator)}],
            })
        };
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "spec": {"affinity": {"podAffinity": terms("Gt"), "podAntiAffinity": terms("Lt")}}}))
        .unwrap();
        for extensions in [true, false] {
            let rules = PodRules::parse(&pod, RuleOptions { extensions, ..RuleOptions::default() });
            let n = [
                rules.required_affinity.len(),
                rules.required_anti_affinity.len(),
                rules.preferred_affinity.len(),
                rules.preferred_anti_affinity.len(),
            ];
            let expected = if extensions { ([2, 2, 1, 1], 0) } else { ([1, 1, 0, 0], 4) };
            assert_eq!((n, dialect_notes(&pod, extensions).len()), expected);
            assert_eq!(rules.pod_term_error, None);
        }
    }

    #[test]
    fn every_difference_is_reported_once_and_in_its_own_dialect() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"annotations": {AFFINITY_ANNOTATION: "{\"podAffinity\": {\"requiredDuringSchedulingIgnoredDuringExecution\": [{\"topologyKey\": \"\"}]}}"}},
            "spec": {"affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}, {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]},
                    "requiredDuringSchedulingRequiredDuringExecution": {"nodeSelectorTerms": []}
                },
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaces": []}},
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
                ]}
            }}
        }))
        .unwrap();
        let shown = |extensions| {
            let notes = dialect_notes(&pod, extensions).into_iter();
            notes.map(|n| format!("{}: {}", n.path, n.text)).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(true),
            [
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]: an empty \
                 term matches no node; in the proposals' fields: an empty term matches every node",
                "spec.affinity.nodeAffinity.requiredDuringSchedulingRequiredDuringExecution.nodeSelectorTerms: no terms \
                 match no node; in v1 fields: no terms are an error",
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.namespaces: \
                 an empty list is the pod's own namespace; in the proposals' fields: an empty list is all namespaces",
                "metadata.annotations[scheduling.berth.dev/affinity].podAffinity.\
                 requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: an empty key is all topologies; in v1 \
                 fields: an empty key is an error",
            ]
        );
        assert_eq!(shown(false).len(), 2);
    }
}
