//! Which labels a node's identity may set on its node.

use serde_json::{Map, Value};

use berth_api::syntax::labels::kubelet_may_set;

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
