//! Scopes: which objects a quota bounds.

use berth_api::object::{PodAffinityTerm, PodSpec, ResourceQuotaSpec};

/// What scopes ask of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scoped {
    Pod {
        /// Whether it has an active deadline.
        terminates: bool,
        is_best_effort: bool,
        crosses_namespaces: bool,
        /// Its priority class.
        class: String,
    },
    /// Of volumes, with the volume attributes class.
    Claim { class: String },
    /// No scope selects it.
    Other,
}

impl Scoped {
    pub fn of_pod(spec: &PodSpec) -> Scoped {
        Scoped::Pod {
            terminates: spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0),
            is_best_effort: is_best_effort(spec),
            crosses_namespaces: crosses_namespaces(spec),
            class: spec.priority_class_name.clone(),
        }
    }
}

/// Whether the scopes of a quota select an object.
pub(super) fn matches(spec: &ResourceQuotaSpec, object: &Scoped) -> bool {
    let scopes = spec.scopes.iter().map(|scope| (scope.as_str(), "Exists", &[][..]));
    let expressions = spec.scope_selector.match_expressions.iter();
    let expressions = expressions.map(|e| (e.scope_name.as_str(), e.operator.as_str(), &e.values[..]));
    scopes.chain(expressions).all(|(scope, operator, values)| is_in(scope, operator, values, object))
}

fn is_in(scope: &str, operator: &str, values: &[String], object: &Scoped) -> bool {
    let is_of_class = |name: &str| match operator {
        "Exists" => !name.is_empty(),
        "DoesNotExist" => name.is_empty(),
        "In" => !name.is_empty() && values.iter().any(|value| value == name),
        _ => !values.iter().any(|value| value == name),
    };
    match object {
        Scoped::Claim { class } => scope == "VolumeAttributesClass" && is_of_class(class),
        Scoped::Other => false,
        Scoped::Pod { terminates, is_best_effort, crosses_namespaces, class } => match scope {
            "Terminating" => *terminates,
            "NotTerminating" => !terminates,
            "BestEffort" => *is_best_effort,
            "NotBestEffort" => !is_best_effort,
            "PriorityClass" => is_of_class(class),
            "CrossNamespacePodAffinity" => *crosses_namespaces,
            _ => false,
        },
    }
}

/// Whether the quality-of-service class of a pod is `BestEffort`: it requests and limits no CPU and no memory.
fn is_best_effort(spec: &PodSpec) -> bool {
    let containers = spec.containers.iter().chain(spec.init_containers.iter());
    let mut all = containers.map(|container| &container.resources).chain(spec.resources.as_deref());
    all.all(|resources| {
        let amounts = [&resources.requests, &resources.limits];
        ["cpu", "memory"]
            .iter()
            .all(|name| amounts.iter().all(|list| list.get(*name).is_none_or(|quantity| quantity.is_zero())))
    })
}

/// Whether a pod has a rule about pods of other namespaces.
fn crosses_namespaces(spec: &PodSpec) -> bool {
    let Some(affinity) = spec.affinity.as_deref() else { return false };
    let names_others = |term: &PodAffinityTerm| {
        term.namespaces.as_ref().is_some_and(|names| !names.is_empty()) || term.namespace_selector.is_some()
    };
    [&affinity.pod_affinity, &affinity.pod_anti_affinity].into_iter().flatten().any(|rules| {
        let required = rules.required_during_scheduling_ignored_during_execution.iter();
        let enforced = rules.required_during_scheduling_required_during_execution.iter();
        required.chain(enforced).any(names_others)
            || rules
                .preferred_during_scheduling_ignored_during_execution
                .iter()
                .any(|term| names_others(&term.pod_affinity_term))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn scopes_select_pods_by_what_they_say() {
        let term = json!([{"topologyKey": "z", "labelSelector": {}, "namespaceSelector": {}}]);
        let across = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
        let named = |operator: &str, values: Value| json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}});
        let scope = |name: &str| json!({"scopes": [name]});
        let request = |name: &str| json!({"requests": {name: "1"}});
        for (quota, pod, expected) in [
            (json!({}), json!({}), true),
            (scope("BestEffort"), json!({}), true),
            (scope("BestEffort"), json!({"containers": [{"resources": request("cpu")}]}), false),
            (scope("BestEffort"), json!({"containers": [{"resources": request("example.com/gpu")}]}), true),
            (scope("BestEffort"), json!({"initContainers": [{"resources": request("memory")}]}), false),
            (scope("NotBestEffort"), json!({"resources": request("memory")}), true),
            (scope("Terminating"), json!({"activeDeadlineSeconds": 0}), true),
            (scope("NotTerminating"), json!({}), true),
            (scope("CrossNamespacePodAffinity"), json!({}), false),
            (scope("CrossNamespacePodAffinity"), json!({"affinity": across}), true),
            (json!({"scopes": ["BestEffort", "Terminating"]}), json!({}), false),
            (named("In", json!(["high"])), json!({"priorityClassName": "high"}), true),
            (named("In", json!(["high"])), json!({}), false),
            (named("NotIn", json!(["high"])), json!({}), true),
            (named("DoesNotExist", json!([])), json!({"priorityClassName": "high"}), false),
            (scope("VolumeAttributesClass"), json!({}), false),
        ] {
            let (spec, pod) = (serde_json::from_value(quota.clone()), serde_json::from_value(pod.clone()));
            let object = Scoped::of_pod(&pod.unwrap());
            assert_eq!(matches(&spec.unwrap(), &object), expected, "{quota} {object:?}");
        }
    }
}
