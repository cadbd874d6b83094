//! Scopes: which objects a quota bounds.

use berth_schema::resource::{PERSISTENT_VOLUME_CLAIMS, PODS, Resource};
use serde_json::Value;

use crate::strategy::{items, text};

/// Whether the scopes of a quota's spec select an object.
pub fn matches(spec: &Value, resource: &Resource, object: &Value) -> bool {
    let scopes = items(spec, "scopes").iter().filter_map(Value::as_str);
    let expressions = items(&spec["scopeSelector"], "matchExpressions").iter();
    let expressions = expressions.map(|e| (text(e, "/scopeName"), text(e, "/operator"), items(e, "values")));
    let mut all = scopes.map(|scope| (scope, "Exists", &[][..])).chain(expressions);
    all.all(|(scope, operator, values)| is_in(scope, operator, values, resource, object))
}

fn is_in(scope: &str, operator: &str, values: &[Value], resource: &Resource, object: &Value) -> bool {
    let spec = &object["spec"];
    let class = |pointer: &str| {
        let name = text(spec, pointer);
        let is_named = values.iter().any(|value| value == name);
        match operator {
            "Exists" => !name.is_empty(),
            "DoesNotExist" => name.is_empty(),
            "In" => !name.is_empty() && is_named,
            _ => name.is_empty() || !is_named,
        }
    };
    if *resource == PERSISTENT_VOLUME_CLAIMS {
        return scope == "VolumeAttributesClass" && class("/volumeAttributesClassName");
    }
    if *resource != PODS {
        return false;
    }
    let terminating = spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    let best_effort = object["status"]["qosClass"] == "BestEffort";
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => class("/priorityClassName"),
        "CrossNamespacePodAffinity" => crosses_namespaces(spec),
        _ => false,
    }
}

/// Whether a pod has a rule about pods of other namespaces.
fn crosses_namespaces(spec: &Value) -> bool {
    let affinity = &spec["affinity"];
    let rules = [&affinity["podAffinity"], &affinity["podAntiAffinity"]];
    let names_others =
        |term: &Value| !items(term, "namespaces").is_empty() || !term["namespaceSelector"].is_null();
    rules.iter().any(|rules| {
        let required = [
            "requiredDuringSchedulingIgnoredDuringExecution",
            "requiredDuringSchedulingRequiredDuringExecution",
        ];
        let preferred = items(rules, "preferredDuringSchedulingIgnoredDuringExecution");
        required.iter().flat_map(|list| items(rules, list)).any(names_others)
            || preferred.iter().any(|term| names_others(&term["podAffinityTerm"]))
    })
}

/// What decides about scopes and may change.
pub fn facts<'v>(resource: &Resource, object: &'v Value) -> [&'v Value; 2] {
    let field = if *resource == PODS { "activeDeadlineSeconds" } else { "volumeAttributesClassName" };
    [&object["spec"][field], &object["status"]["qosClass"]]
}
