//! Selectors.

use berth_api::object::{
    LabelSelector, Namespace, Node, NodeSelector, Pod, PodAffinityTerm, SelectorRequirement, StringMap,
};

/// Whether labels are selected; an absent selector selects none.
pub fn selects(selector: Option<&LabelSelector>, labels: &StringMap) -> bool {
    selector.is_some_and(|s| {
        s.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && s.match_expressions.iter().all(|r| meets(r, labels.get(&r.key)))
    })
}

fn meets(requirement: &SelectorRequirement, value: Option<&String>) -> bool {
    let bound = || requirement.values.first().and_then(|v| v.parse::<i64>().ok());
    let number = || value.and_then(|v| v.parse::<i64>().ok());
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|v| requirement.values.contains(v)),
        "NotIn" => value.is_none_or(|v| !requirement.values.contains(v)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number().zip(bound()).is_some_and(|(number, bound)| number > bound),
        "Lt" => number().zip(bound()).is_some_and(|(number, bound)| number < bound),
        _ => false,
    }
}

/// Whether `nodeName`, `nodeSelector` and required node affinity allow a pod on a node.
pub fn accepts_node(pod: &Pod, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    let required = pod.spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required = required.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    (pod.spec.node_name.is_empty() || pod.spec.node_name == node.metadata.name)
        && pod.spec.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        && required.is_none_or(|selector| selects_node(selector, node))
}

/// Whether one of the terms selects a node.
pub fn selects_node(selector: &NodeSelector, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    let is_named = |r: &SelectorRequirement| r.key == "metadata.name" && meets(r, Some(&node.metadata.name));
    selector.node_selector_terms.iter().any(|term| {
        let is_empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
        !is_empty
            && term.match_expressions.iter().all(|r| meets(r, labels.get(&r.key)))
            && term.match_fields.iter().all(is_named)
    })
}

/// Whether a term of `pod` selects pods of template `other`.
pub fn means(term: &PodAffinityTerm, pod: &Pod, other: &Pod, namespaces: &[Namespace]) -> bool {
    let namespace = &other.metadata.namespace;
    let names = term.namespaces.as_deref().unwrap_or_default();
    let is_own =
        names.is_empty() && term.namespace_selector.is_none() && *namespace == pod.metadata.namespace;
    let is_selected = || {
        let labels = namespaces.iter().find(|n| n.metadata.name == *namespace).map(|n| &n.metadata.labels);
        selects(term.namespace_selector.as_ref(), labels.map_or(&StringMap::new(), |labels| labels))
    };
    selects(term.label_selector.as_ref(), &other.metadata.labels)
        && (is_own || names.contains(namespace) || is_selected())
}
