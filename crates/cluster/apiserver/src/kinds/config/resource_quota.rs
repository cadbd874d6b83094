//! Resource quotas.

use berth_api::syntax::quantity::Quantity;
use berth_schema::resource::RESOURCE_QUOTAS;

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

pub struct ResourceQuota;

static TYPED: Typed = Typed::new(&RESOURCE_QUOTAS);

impl Strategy for ResourceQuota {
    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        TYPED.validate(context, value, causes);
        let spec = &value["spec"];
        for (name, amount) in spec["hard"].as_object().into_iter().flatten() {
            let field = format!("spec.hard[{name}]");
            match amount.as_str().map_or_else(|| Quantity::parse(&amount.to_string()), Quantity::parse) {
                Ok(quantity) if quantity.is_negative() => {
                    causes.invalid(&field, amount, "must be greater than or equal to 0");
                }
                Ok(_) => {}
                Err(error) => causes.invalid(&field, amount, &error.to_string()),
            }
        }
        for (i, scope) in items(spec, "scopes").iter().enumerate() {
            causes.one_of(&format!("spec.scopes[{i}]"), scope, SCOPES);
        }
        for (i, expression) in items(&spec["scopeSelector"], "matchExpressions").iter().enumerate() {
            let path = format!("spec.scopeSelector.matchExpressions[{i}]");
            let (scope, operator) = (text(expression, "/scopeName"), text(expression, "/operator"));
            causes.one_of(&format!("{path}.scopeName"), &expression["scopeName"], SCOPES);
            let n_values = items(expression, "values").len();
            let operators = ["DoesNotExist", "Exists", "In", "NotIn"];
            match operator {
                "In" | "NotIn" if n_values == 0 => {
                    causes.required(
                        &format!("{path}.values"),
                        "must be specified when `operator` is 'In' or 'NotIn'",
                    );
                }
                "Exists" | "DoesNotExist" if n_values > 0 => causes.invalid(
                    &format!("{path}.values"),
                    &expression["values"],
                    "must be no value when `operator` is 'Exists' or 'DoesNotExist'",
                ),
                _ => causes.one_of(&format!("{path}.operator"), &expression["operator"], &operators),
            }
            if !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && operator != "Exists" {
                let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                    ResourceQuotaScopeCrossNamespacePodAffinity";
                causes.invalid(&format!("{path}.operator"), &expression["operator"], why);
            }
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
