//! Reading and validating a policy: strictly, with all findings and their paths.

use serde_json::Value;

use super::{PlacementPolicy, PlacementPolicySpec};
use crate::config::ConfigErrors;
use berth_api::object::{LabelSelector, ObjectMeta, Pod};
use berth_api::read::fields::Findings;
use berth_api::read::{explained, from_value, from_value_strictly, quote_integer_bounds};
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_rules::admission::{default_pod, validate_pod};
use berth_rules::{RuleOptions, Selector};

/// The fields of a policy that are also fields of a pod: the pod's own validation applies.
const POD_FIELDS: [&str; 3] = ["spec.affinity", "spec.topologySpreadConstraints", "spec.tolerations"];

/// Unknown fields that are reported: each costs a reading of the policy.
const MAX_ERRORS: usize = 20;

impl PlacementPolicy {
    /// Reads a policy of either kind.
    ///
    /// # Errors
    /// Unknown fields, wrong types and rules that a pod could not have, each with its path.
    pub fn read(value: &Value) -> Result<PlacementPolicy, ConfigErrors> {
        let findings = Findings::default();
        let mut spec = value.get("spec").cloned().unwrap_or_default();
        for field in ["affinity", "extendedAffinity"] {
            spec.get_mut(field).map(quote_integer_bounds);
        }
        let mut policy = PlacementPolicy::default();
        match from_value::<ObjectMeta>(&value["metadata"]) {
            Ok(metadata) => policy.metadata = metadata,
            Err(error) => findings.error(error.path_below("metadata"), error.message()),
        }
        for _ in 0..MAX_ERRORS {
            match from_value_strictly::<PlacementPolicySpec>(&spec) {
                Ok(read) => {
                    policy.spec = read;
                    policy.validate(value["kind"] == "PlacementPolicy", &findings);
                    break;
                }
                Err(error) => {
                    findings.error(error.path_below("spec"), explained(&error, &spec));
                    if !error.remove_unknown(&mut spec) {
                        break;
                    }
                }
            }
        }
        findings.finish()?;
        Ok(policy)
    }

    fn validate(&self, is_namespaced: bool, findings: &Findings) {
        let PlacementPolicySpec { namespace_selector, pod_selector, extended_affinity, .. } = &self.spec;
        if is_namespaced && namespace_selector.is_some() {
            let text = "Forbidden: a PlacementPolicy selects pods of its own namespace; use a ClusterPlacementPolicy";
            findings.error("spec.namespaceSelector", text);
        }
        let selector = |field: &str, selector: &Option<LabelSelector>| {
            if let Err(error) = Selector::parse(selector.as_ref()) {
                let (path, text) = error.split_once(": ").unwrap_or(("", &error));
                findings.error(format!("spec.{field}.{path}"), text);
            }
        };
        selector("namespaceSelector", namespace_selector);
        selector("podSelector", pod_selector);

        let mut pod = Pod::default();
        pod.metadata.name = "pod".to_owned();
        pod.spec.affinity.clone_from(&self.spec.affinity);
        pod.spec.topology_spread_constraints.clone_from(&self.spec.topology_spread_constraints);
        pod.spec.tolerations.clone_from(&self.spec.tolerations);
        if pod.spec == Pod::default().spec && extended_affinity.is_none() {
            let text = "Required value: at least one of affinity, extendedAffinity, topologySpreadConstraints, tolerations";
            findings.error("spec", text);
        }
        if let Some(affinity) = extended_affinity {
            let text = serde_json::to_string(affinity).unwrap_or_default();
            pod.metadata.annotations.insert(AFFINITY_ANNOTATION.to_owned(), text);
        }
        default_pod(&mut pod);
        let annotation = format!("metadata.annotations[{AFFINITY_ANNOTATION}]");
        for error in validate_pod(&pod, RuleOptions::default()) {
            let text = error.error.strip_prefix(&error.field).unwrap_or(&error.error);
            let text = text.strip_prefix(": ").unwrap_or(text);
            if let Some(rest) = error.field.strip_prefix(&annotation) {
                findings.error(format!("spec.extendedAffinity{rest}"), text);
            } else if POD_FIELDS.iter().any(|field| error.field.starts_with(field)) {
                findings.error(error.field.as_str(), text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(kind: &str, spec: Value) -> Vec<String> {
        let value = json!({"kind": kind, "metadata": {"name": "p"}, "spec": spec});
        match PlacementPolicy::read(&value) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn errors_name_the_field() {
        let toleration = json!([{"key": "gpu", "operator": "Exists"}]);
        let term = |term: Value| json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        let path = "podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
        let none = "spec: Required value: at least one of affinity, extendedAffinity, topologySpreadConstraints, tolerations";
        for (kind, spec, expected) in [
            ("PlacementPolicy", json!({"tolerations": toleration}), vec![]),
            (
                "ClusterPlacementPolicy",
                json!({"tolerations": toleration, "namespaceSelector": {}, "priority": 0}),
                vec![],
            ),
            ("PlacementPolicy", json!({"priority": 3}), vec![none.to_owned()]),
            (
                "PlacementPolicy",
                json!({"tolerations": toleration, "priority": "high"}),
                vec![
                    "spec.priority: invalid type: string \"high\", expected an integer of 32 bits".to_owned(),
                ],
            ),
            (
                "PlacementPolicy",
                json!({"tolerations": toleration, "overide": true}),
                vec!["spec.overide: unknown field; did you mean \"override\"?".to_owned()],
            ),
            (
                "PlacementPolicy",
                json!({"affinity": term(json!({"topologyKey": "a b", "labelSelectors": {"matchLabels": {"a": "b"}}}))}),
                vec![
                    format!(
                        "spec.affinity.{path}.labelSelectors: unknown field; did you mean \"labelSelector\"?"
                    ),
                    format!(
                        "spec.affinity.{path}.topologyKey: Invalid value: \"a b\": name part must consist of alphanumeric \
                         characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
                         'my.name',  or '123-abc', regex used for validation is \
                         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                    ),
                ],
            ),
            (
                "PlacementPolicy",
                json!({"affinty": {}, "extendedAffinity": {"podAntiAfinity": {}}}),
                vec![
                    "spec.affinty: unknown field; did you mean \"affinity\"?".to_owned(),
                    "spec.extendedAffinity.podAntiAfinity: unknown field; did you mean \"podAntiAffinity\"?"
                        .to_owned(),
                ],
            ),
            (
                "PlacementPolicy",
                json!({"extendedAffinity": term(json!({"topologyKey": "zone", "namespaces": ["A"]}))}),
                vec![],
            ),
        ] {
            let found = errors(kind, spec.clone());
            match expected.as_slice() {
                [] if found.len() == 1 => {
                    let start = format!("spec.extendedAffinity.{path}.namespace: Invalid value: \"A\"");
                    assert!(found.len() == 1 && found[0].starts_with(&start), "{found:?}");
                }
                expected => assert_eq!(found, expected, "{spec}"),
            }
        }
        let selector = json!({"tolerations": toleration, "namespaceSelector": {},
            "podSelector": {"matchExpressions": [{"key": "a", "operator": "Among"}]}});
        let found = errors("PlacementPolicy", selector);
        assert!(found[0].starts_with("spec.namespaceSelector: Forbidden: "), "{found:?}");
        assert!(
            found[1].starts_with("spec.podSelector.matchExpressions[0].operator: Invalid value"),
            "{found:?}"
        );
    }
}
