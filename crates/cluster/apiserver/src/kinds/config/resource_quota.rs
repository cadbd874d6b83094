//! Resource quotas.

use std::collections::BTreeSet;

use berth_schema::resource::RESOURCE_QUOTAS;

use super::resource_name::{COUNTED, is_of_quotas, validate_of_quota};
use crate::kinds::prelude::*;

const SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// Each of these causes shows all scopes: further ones are left out.
const MAX_SHOWN: usize = 64;

/// Validates scopes with the resources that they can be about. The name is that of a selector's field.
fn validate_scopes(
    spec: &Value,
    scopes: &[&str],
    path: &str,
    name: Option<(String, &Value)>,
    shown: &Value,
    causes: &mut Causes,
) {
    let hard: BTreeSet<&String> =
        spec["hard"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
    for scope in scopes {
        if causes.0.len() >= MAX_SHOWN {
            return;
        }
        if !SCOPES.contains(scope) {
            let (path, shown) = name.as_ref().map_or((path, shown), |(path, name)| (path.as_str(), *name));
            causes.invalid(path, shown, "unsupported scope");
        }
        for _ in hard.iter().filter(|name| is_of_quotas(name) && !covers(scope, name)) {
            causes.invalid(path, shown, "unsupported scope applied to resource");
        }
    }
}

/// Whether quotas of the resource can have the scope.
fn covers(scope: &str, resource: &str) -> bool {
    let resource =
        resource.strip_prefix("limits.").or_else(|| resource.strip_prefix("requests.")).unwrap_or(resource);
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "storage"),
        _ if SCOPES.contains(&scope) => matches!(resource, "pods" | "cpu" | "memory"),
        _ => true,
    }
}

fn validate_amounts(path: &str, amounts: &Value, causes: &mut Causes) {
    for (name, amount) in amounts.as_object().into_iter().flatten() {
        let field = format!("{path}[{name}]");
        validate_of_quota(&field, name, causes);
        let Some(quantity) = quantity(amount) else { continue };
        if quantity.is_negative() {
            causes.invalid(&field, amount, "must be greater than or equal to 0");
        }
        if (COUNTED.contains(&name.as_str()) || name.starts_with("count/")) && !quantity.is_whole() {
            causes.invalid(&field, &quantity.to_string().into(), "must be an integer");
        }
    }
}

pub struct ResourceQuota;

/// What is wrong with them is said below.
static TYPED: Typed = Typed {
    not_required: &[
        ("ScopedResourceSelectorRequirement", "operator"),
        ("ScopedResourceSelectorRequirement", "scopeName"),
    ],
    ..Typed::new(&RESOURCE_QUOTAS)
};

impl Strategy for ResourceQuota {
    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        TYPED.validate(context, value, causes);
        let spec = &value["spec"];
        validate_amounts("spec.hard", &spec["hard"], causes);
        let scopes: Vec<&str> = items(spec, "scopes").iter().filter_map(Value::as_str).collect();
        validate_scopes(spec, &scopes, "spec.scopes", None, &spec["scopes"], causes);
        let expressions = items(&spec["scopeSelector"], "matchExpressions");
        let path = "spec.scopeSelector.matchExpressions";
        for expression in expressions {
            let (scope, operator) = (text(expression, "/scopeName"), text(expression, "/operator"));
            let shown_name = scope.into();
            let name = (format!("{path}.scopeName"), &shown_name);
            validate_scopes(spec, &[scope], path, Some(name), &spec["scopeSelector"], causes);
            if SCOPES.contains(&scope)
                && !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
                && operator != "Exists"
            {
                let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                    ResourceQuotaScopeCrossNamespacePodAffinity";
                causes.invalid(&format!("{path}.operator"), &expression["operator"], why);
            }
            let n_values = items(expression, "values").len();
            let field = format!("{path}.values");
            match operator {
                "In" | "NotIn" if n_values == 0 => {
                    let why =
                        "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                    causes.required(&field, why);
                }
                "In" | "NotIn" => {}
                "Exists" | "DoesNotExist" if n_values > 0 => {
                    let why =
                        "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                    causes.invalid(&field, &expression["values"], why);
                }
                "Exists" | "DoesNotExist" => {}
                _ => {
                    let why = "not a valid selector operator";
                    causes.invalid(&format!("{path}.operator"), &operator.into(), why);
                }
            }
        }
        let selected: Vec<&str> =
            expressions.iter().map(|expression| text(expression, "/scopeName")).collect();
        for scopes in [&scopes, &selected] {
            for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
                if pair.iter().all(|scope| scopes.contains(scope)) {
                    causes.invalid("spec.scopes", &spec["scopes"], "conflicting scopes");
                }
            }
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        for list in ["hard", "used"] {
            validate_amounts(&format!("status.{list}"), &new["status"][list], causes);
        }
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        if items(&new["spec"], "scopes") != items(&old["spec"], "scopes") {
            causes.immutable("spec.scopes", &new["spec"]["scopes"]);
        }
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Request", "Used and allowed requests and counts.", |row| amounts(row, false)),
    Column::text("Limit", "Used and allowed limits.", |row| amounts(row, true)),
    AGE,
];

/// What is used and allowed, of limits or of the rest.
fn amounts(row: &Row<'_>, limits: bool) -> Value {
    let hard = row.at("/status/hard").and_then(Value::as_object).into_iter().flatten();
    let mut amounts: Vec<_> = hard.filter(|(name, _)| name.starts_with("limits") == limits).collect();
    amounts.sort_unstable_by_key(|(name, _)| *name);
    let shown = amounts.into_iter().map(|(name, hard)| {
        let used = row.at("/status/used").and_then(|used| used[name].as_str()).unwrap_or("0");
        format!("{name}: {used}/{}", hard.as_str().unwrap_or_default())
    });
    shown.collect::<Vec<_>>().join(", ").into()
}
