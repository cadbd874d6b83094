//! Which labels a node's identity may set on its node.

use serde_json::{Map, Value};

/// Labels of Kubernetes' own that a kubelet may set (`k8s.io/kubelet/pkg/apis`).
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// Those of the labels that differ and that a kubelet may not touch, sorted; empty if it may touch all.
pub(super) fn forbidden_labels(new: &Value, old: &Value) -> String {
    let empty = Map::new();
    let (new, old) = (new.as_object().unwrap_or(&empty), old.as_object().unwrap_or(&empty));
    let differ = new.keys().chain(old.keys()).filter(|key| new.get(*key) != old.get(*key));
    let mut forbidden: Vec<&str> = differ.map(String::as_str).filter(|key| !kubelet_may_set(key)).collect();
    forbidden.sort_unstable();
    forbidden.dedup();
    forbidden.join(", ")
}

fn kubelet_may_set(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| {
        domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
    };
    if within("node-restriction.kubernetes.io") {
        return false;
    }
    if !within("kubernetes.io") && !within("k8s.io") {
        return true;
    }
    KUBELET_LABELS.contains(&key) || within("kubelet.kubernetes.io") || within("node.kubernetes.io")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_changes_count_and_they_are_told_in_order() {
        let restricted = "node-restriction.kubernetes.io/tier";
        for (new, old, forbidden) in [
            (json!({restricted: "a"}), json!({restricted: "a"}), ""),
            (json!({restricted: "a"}), Value::Null, restricted),
            (Value::Null, json!({restricted: "a"}), restricted),
            (
                json!({"x.k8s.io/y": "1", "kubernetes.io/role": "1"}),
                json!({}),
                "kubernetes.io/role, x.k8s.io/y",
            ),
            (json!({"color": "red", "example.com/color": "red", "notkubernetes.io/y": ""}), json!({}), ""),
            (json!({"kubernetes.io/hostname": "a", "topology.kubernetes.io/zone": "z"}), json!({}), ""),
            (json!({"kubelet.kubernetes.io/x": "", "sub.node.kubernetes.io/x": ""}), json!({}), ""),
            (json!({"node-role.kubernetes.io/worker": ""}), json!({}), "node-role.kubernetes.io/worker"),
            (
                json!({"a.node-restriction.kubernetes.io/x": ""}),
                json!({}),
                "a.node-restriction.kubernetes.io/x",
            ),
        ] {
            assert_eq!(forbidden_labels(&new, &old), forbidden, "{new} {old}");
        }
    }
}
