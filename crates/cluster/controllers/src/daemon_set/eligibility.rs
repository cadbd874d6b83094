//! The pods of a DaemonSet: their nodes, tolerations and pins.

use berth_api::feature_gates::FeatureGates;
use berth_api::object::Pod as PodRules;
use berth_api::read::from_value;
use berth_control::expand::{Eligibility, daemon_tolerations};
use serde_json::{Map, Value, json};

use crate::pod_control::object_at;

/// The node requirements of a template. No node is eligible for an invalid one.
pub(super) fn eligibility(template: &Value, gates: FeatureGates) -> Option<Eligibility> {
    let mut pod = template.as_object().cloned().unwrap_or_default();
    add_standard_tolerations(&mut pod);
    let pod: PodRules = from_value(&json!({"spec": pod.get("spec")})).ok()?;
    Some(Eligibility::of(&pod, gates))
}

/// Adds the tolerations of all daemon pods; they replace those with a time limit.
pub(super) fn add_standard_tolerations(pod: &mut Map<String, Value>) {
    let spec = object_at(pod, "spec");
    let host_network = spec.get("hostNetwork").and_then(Value::as_bool) == Some(true);
    let mut tolerations = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    for (key, effect) in daemon_tolerations(host_network) {
        let is_same = |t: &Value| t["key"] == key && t["effect"] == effect && t["operator"] == "Exists";
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        match tolerations.iter_mut().find(|t| is_same(t)) {
            Some(same) => *same = toleration,
            None => tolerations.push(toleration),
        }
    }
    spec.insert("tolerations".to_owned(), tolerations.into());
}

/// Pins a pod to a node by name; this replaces all other required node terms.
pub(super) fn pin_to_node(pod: &mut Map<String, Value>, node: &str) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let affinity = object_at(object_at(object_at(pod, "spec"), "affinity"), "nodeAffinity");
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    affinity.insert(required.to_owned(), json!({"nodeSelectorTerms": [{"matchFields": [field]}]}));
}

#[cfg(test)]
mod tests {
    use berth_control::expand::Belongs;

    use super::*;
    use crate::view::Node;

    #[test]
    fn daemon_pods_run_on_eligible_nodes() {
        let node = |labels: Value, taints: Value| -> Node {
            let node = json!({"metadata": {"name": "n", "labels": labels}, "spec": {"taints": taints}});
            serde_json::from_value(node).unwrap()
        };
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        let none = || json!([]);
        for (spec, labels, taints, should_run, should_continue) in [
            (json!({}), json!({}), none(), true, true),
            (json!({"nodeName": "m"}), json!({}), none(), false, false),
            (json!({"nodeSelector": {"disk": "ssd"}}), json!({"disk": "ssd"}), none(), true, true),
            (json!({"nodeSelector": {"disk": "ssd"}}), json!({}), none(), false, false),
            (json!({}), json!({}), taint("x", "NoSchedule"), false, true),
            (json!({}), json!({}), taint("x", "NoExecute"), false, false),
            (json!({}), json!({}), taint("x", "PreferNoSchedule"), true, true),
            (
                json!({"tolerations": [{"operator": "Exists"}]}),
                json!({}),
                taint("x", "NoExecute"),
                true,
                true,
            ),
            (json!({}), json!({}), taint("node.kubernetes.io/unreachable", "NoExecute"), true, true),
            (json!({}), json!({}), taint("node.kubernetes.io/unschedulable", "NoSchedule"), true, true),
            (
                json!({}),
                json!({}),
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                false,
                true,
            ),
            (
                json!({"hostNetwork": true}),
                json!({}),
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                true,
                true,
            ),
            (
                json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}}),
                json!({}),
                none(),
                false,
                false,
            ),
        ] {
            let eligibility = eligibility(&json!({"spec": spec}), FeatureGates::default()).unwrap();
            let expected = Belongs { should_run, should_continue };
            let node = node(labels, taints.clone());
            let node_taints = node.spec.taints.iter().map(|taint| &taint.taint);
            assert_eq!(eligibility.check(&node.metadata, node_taints), expected, "{spec} {taints}");
        }
    }

    #[test]
    fn pins_and_tolerations_replace_existing_ones() {
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": []}]});
        let mut pod = json!({"spec": {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}, "podAffinity": {}},
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300}],
        }});
        let pod = pod.as_object_mut().unwrap();
        pin_to_node(pod, "n");
        add_standard_tolerations(pod);
        let pod = Value::Object(pod.clone());
        let typed: crate::view::Pod = serde_json::from_value(pod.clone()).unwrap();
        assert_eq!(typed.target_node(), Some("n"));
        assert!(pod["spec"]["affinity"]["podAffinity"].is_object());
        assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 6);
        assert_eq!(pod["spec"]["tolerations"][0].get("tolerationSeconds"), None);
    }
}
