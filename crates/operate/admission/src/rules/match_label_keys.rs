//! The merge of `matchLabelKeys` and `mismatchLabelKeys`, for API servers that lack it.
//!
//! `berth-api` does the merge itself. The webhook adds two steps. It does not add requirements that a selector already
//! has, and it removes merged keys from their list. Without this, an API server that merges too would
//! add the requirement a second time, treat the first as the user's own and refuse the pod. A pod
//! without its merged keys has the same meaning for every scheduler.

use std::collections::HashSet;

use berth_api::object::{
    LabelSelector, Pod, PodAffinity, PodAffinityTerm, SelectorRequirement, TopologySpreadConstraint,
};
use berth_rules::merge_label_keys;
use serde_json::{Value, json};

/// The operations of the JSON patch that merges the keys of a pod; none if there is nothing to merge.
pub(crate) fn merge_match_label_keys(pod: &Pod) -> Vec<Value> {
    let mut merged = pod.clone();
    merge_label_keys(&mut merged);
    let mut patch = Patch { labels: &pod.metadata.labels, operations: Vec::new() };
    if let (Some(before), Some(after)) = (&pod.spec.affinity, &merged.spec.affinity) {
        let kinds = [
            ("podAffinity", &before.pod_affinity, &after.pod_affinity),
            ("podAntiAffinity", &before.pod_anti_affinity, &after.pod_anti_affinity),
        ];
        for (name, before, after) in kinds {
            if let (Some(before), Some(after)) = (before, after) {
                patch.rules(&format!("/spec/affinity/{name}"), before, after);
            }
        }
    }
    let before = &pod.spec.topology_spread_constraints;
    let after = &merged.spec.topology_spread_constraints;
    for (i, (before, after)) in before.iter().zip(after).enumerate() {
        patch.constraint(&format!("/spec/topologySpreadConstraints/{i}"), before, after);
    }
    patch.operations
}

struct Patch<'a> {
    labels: &'a berth_api::object::StringMap,
    operations: Vec<Value>,
}

impl Patch<'_> {
    fn rules(&mut self, path: &str, before: &PodAffinity, after: &PodAffinity) {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let executing = "requiredDuringSchedulingRequiredDuringExecution";
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        let ignored =
            |rules: &'_ PodAffinity| rules.required_during_scheduling_ignored_during_execution.clone();
        for (i, (before, after)) in ignored(before).iter().zip(&ignored(after)).enumerate() {
            self.term(&format!("{path}/{required}/{i}"), before, after);
        }
        let enforced =
            |rules: &'_ PodAffinity| rules.required_during_scheduling_required_during_execution.clone();
        for (i, (before, after)) in enforced(before).iter().zip(&enforced(after)).enumerate() {
            self.term(&format!("{path}/{executing}/{i}"), before, after);
        }
        let before = &before.preferred_during_scheduling_ignored_during_execution;
        let after = &after.preferred_during_scheduling_ignored_during_execution;
        for (i, (before, after)) in before.iter().zip(after).enumerate() {
            let path = format!("{path}/{preferred}/{i}/podAffinityTerm");
            self.term(&path, &before.pod_affinity_term, &after.pod_affinity_term);
        }
    }

    fn term(&mut self, path: &str, before: &PodAffinityTerm, after: &PodAffinityTerm) {
        let (Some(selector), Some(merged)) = (&before.label_selector, &after.label_selector) else { return };
        self.selector(path, selector, merged);
        self.keys(path, "matchLabelKeys", &before.match_label_keys);
        self.keys(path, "mismatchLabelKeys", &before.mismatch_label_keys);
    }

    fn constraint(
        &mut self,
        path: &str,
        before: &TopologySpreadConstraint,
        after: &TopologySpreadConstraint,
    ) {
        let (Some(selector), Some(merged)) = (&before.label_selector, &after.label_selector) else { return };
        self.selector(path, selector, merged);
        self.keys(path, "matchLabelKeys", &before.match_label_keys);
    }

    /// Adds the merged requirements that are not present yet.
    fn selector(&mut self, path: &str, before: &LabelSelector, after: &LabelSelector) {
        let there = &before.match_expressions;
        let mut seen: HashSet<&SelectorRequirement> = there.iter().collect();
        let merged = after.match_expressions.iter().skip(there.len());
        let added: Vec<_> = merged.filter(|requirement| seen.insert(requirement)).collect();
        let path = format!("{path}/labelSelector/matchExpressions");
        if there.is_empty() {
            if !added.is_empty() {
                self.operations.push(json!({"op": "add", "path": path, "value": added}));
            }
            return;
        }
        for requirement in added {
            self.operations.push(json!({"op": "add", "path": format!("{path}/-"), "value": requirement}));
        }
    }

    /// Removes the keys that the pod has labels for; the others have no effect and stay.
    fn keys(&mut self, path: &str, field: &str, keys: &[String]) {
        let rest: Vec<&String> = keys.iter().filter(|key| !self.labels.contains_key(*key)).collect();
        let path = format!("{path}/{field}");
        if rest.len() == keys.len() {
            return;
        }
        self.operations.push(match rest.as_slice() {
            [] => json!({"op": "remove", "path": path}),
            rest => json!({"op": "replace", "path": path, "value": rest}),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    fn patched(pod: &Value) -> Value {
        let patch = Value::from(merge_match_label_keys(&Pod::deserialize(pod).unwrap()));
        let mut patched = pod.clone();
        let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
        json_patch::patch(&mut patched, &patch).unwrap();
        patched
    }

    fn pod(term: Value, constraint: Value) -> Value {
        json!({
            "metadata": {"name": "web", "labels": {"app": "web", "hash": "1"}},
            "spec": {
                "containers": [],
                "affinity": {"podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
                }},
                "topologySpreadConstraints": [constraint],
            }
        })
    }

    #[test]
    fn keys_are_merged_once() {
        let before = pod(
            json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}},
                "matchLabelKeys": ["hash", "absent"], "mismatchLabelKeys": ["app"]}),
            json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                "matchLabelKeys": ["hash"]}),
        );
        let hash = json!({"key": "hash", "operator": "In", "values": ["1"]});
        let after = pod(
            json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [
                hash, {"key": "app", "operator": "NotIn", "values": ["web"]}]}, "matchLabelKeys": ["absent"]}),
            json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}, hash]}}),
        );
        assert_eq!(patched(&before), after);
        assert_eq!(merge_match_label_keys(&Pod::deserialize(&after).unwrap()), Vec::<Value>::new());
    }

    #[test]
    fn requirements_merged_by_the_server_are_not_added_again() {
        let hash = json!({"key": "hash", "operator": "In", "values": ["1"]});
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchExpressions": [hash]},
            "matchLabelKeys": ["hash"]});
        let after = patched(&pod(term.clone(), json!({})));
        let merged = &after["spec"]["affinity"]["podAntiAffinity"];
        let merged = &merged["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"];
        assert_eq!(merged["labelSelector"], term["labelSelector"]);
    }

    #[test]
    fn null_selectors_and_empty_lists_are_not_changed() {
        let term = json!({"topologyKey": "zone", "matchLabelKeys": ["hash"]});
        let constraint = json!({"labelSelector": {}, "matchLabelKeys": null});
        assert!(merge_match_label_keys(&Pod::deserialize(pod(term, constraint)).unwrap()).is_empty());
        assert!(merge_match_label_keys(&Pod::default()).is_empty());
    }
}
