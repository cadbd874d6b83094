//! Label keys that all pods must carry.
//!
//! "Employing simple conventions (pods having label keys in common), which could be enforced" (article on NodeSelector and
//! LabelSelector). Admission and lint ask the same question of a pod.

use berth_api::object::ObjectMeta;

/// Label keys that all pods must carry, but those of some namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredLabels {
    /// The keys. Any value counts.
    pub keys: Vec<String>,
    /// Namespaces whose pods need not carry them.
    pub exempt_namespaces: Vec<String>,
}

impl RequiredLabels {
    /// These keys, for the pods of all namespaces but `kube-system`.
    pub fn new(keys: Vec<String>) -> RequiredLabels {
        RequiredLabels { keys, exempt_namespaces: vec!["kube-system".to_owned()] }
    }

    /// The keys that a pod does not carry, in the order of the list.
    pub fn missing(&self, pod: &ObjectMeta) -> Vec<&str> {
        if self.exempt_namespaces.contains(&pod.namespace) {
            return Vec::new();
        }
        let is_missing = |key: &&str| !pod.labels.contains_key(*key);
        self.keys.iter().map(String::as_str).filter(is_missing).collect()
    }
}

/// `the label team, which all pods must carry`; `the labels ...`.
pub fn missing_labels_message(missing: &[&str]) -> String {
    let labels = if missing.len() == 1 { "label" } else { "labels" };
    format!("the pods lack the {labels} {}, which all pods must carry", missing.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_carry_common_label_keys_with_any_value() {
        let required = RequiredLabels::new(["app", "team"].map(str::to_owned).to_vec());
        let pod = |namespace: &str, labels: &[(&str, &str)]| ObjectMeta {
            namespace: namespace.to_owned(),
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect::<berth_api::object::StringMap>()
                .into(),
            ..ObjectMeta::default()
        };
        assert_eq!(required.missing(&pod("shop", &[])), ["app", "team"]);
        assert_eq!(required.missing(&pod("shop", &[("app", "web"), ("tier", "team")])), ["team"]);
        assert_eq!(required.missing(&pod("shop", &[("app", "web"), ("team", "")])), [""; 0]);
        assert_eq!(required.missing(&pod("kube-system", &[])), [""; 0]);
    }
}
