//! Scopes: which objects a quota bounds.

use berth_schema::resource::{PERSISTENT_VOLUME_CLAIMS, PODS, Resource};
use serde_json::Value;

use crate::strategy::{items, text};

/// What scopes ask of an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scoped {
    terminates: bool,
    is_best_effort: bool,
    crosses_namespaces: bool,
    /// The priority class of a pod, the volume attributes class of a claim.
    class: String,
}

impl Scoped {
    /// What they ask of this one.
    pub fn of(resource: &Resource, object: &Value) -> Scoped {
        let spec = &object["spec"];
        if *resource == PERSISTENT_VOLUME_CLAIMS {
            let class = text(spec, "/volumeAttributesClassName").to_owned();
            return Scoped { class, ..Scoped::default() };
        }
        if *resource != PODS {
            return Scoped::default();
        }
        Scoped {
            terminates: spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0),
            is_best_effort: object["status"]["qosClass"] == "BestEffort",
            crosses_namespaces: crosses_namespaces(spec),
            class: text(spec, "/priorityClassName").to_owned(),
        }
    }
}

/// Whether the scopes of a quota's spec select an object.
pub fn matches(spec: &Value, resource: &Resource, object: &Scoped) -> bool {
    let scopes = items(spec, "scopes").iter().filter_map(Value::as_str);
    let expressions = items(&spec["scopeSelector"], "matchExpressions").iter();
    let expressions = expressions.map(|e| (text(e, "/scopeName"), text(e, "/operator"), items(e, "values")));
    let mut all = scopes.map(|scope| (scope, "Exists", &[][..])).chain(expressions);
    all.all(|(scope, operator, values)| is_in(scope, operator, values, resource, object))
}

fn is_in(scope: &str, operator: &str, values: &[Value], resource: &Resource, object: &Scoped) -> bool {
    let name = object.class.as_str();
    let is_named = || values.iter().any(|value| value == name);
    let class = || match operator {
        "Exists" => !name.is_empty(),
        "DoesNotExist" => name.is_empty(),
        "In" => !name.is_empty() && is_named(),
        _ => name.is_empty() || !is_named(),
    };
    if *resource == PERSISTENT_VOLUME_CLAIMS {
        return scope == "VolumeAttributesClass" && class();
    }
    if *resource != PODS {
        return false;
    }
    match scope {
        "Terminating" => object.terminates,
        "NotTerminating" => !object.terminates,
        "BestEffort" => object.is_best_effort,
        "NotBestEffort" => !object.is_best_effort,
        "PriorityClass" => class(),
        "CrossNamespacePodAffinity" => object.crosses_namespaces,
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
