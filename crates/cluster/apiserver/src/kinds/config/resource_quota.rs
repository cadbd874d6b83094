//! Resource quotas.

use berth_api::syntax::quantity::Quantity;
use berth_schema::resource::RESOURCE_QUOTAS;
use serde_json::Value;

use crate::strategy::fields::{Causes, items, text};
use crate::strategy::typed::Typed;
use crate::strategy::{Context, Strategy};
use crate::table::columns::{AGE, Column, NAME, Printer};

/// All scopes of quotas.
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
            if !SCOPES.contains(&scope.as_str().unwrap_or_default()) {
                causes.not_supported(&format!("spec.scopes[{i}]"), scope, SCOPES);
            }
        }
        for (i, expression) in items(&spec["scopeSelector"], "matchExpressions").iter().enumerate() {
            let path = format!("spec.scopeSelector.matchExpressions[{i}]");
            let (scope, operator) = (text(expression, "/scopeName"), text(expression, "/operator"));
            if !SCOPES.contains(&scope) {
                causes.not_supported(&format!("{path}.scopeName"), &expression["scopeName"], SCOPES);
            }
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
                _ if !operators.contains(&operator) => {
                    causes.not_supported(&format!("{path}.operator"), &expression["operator"], &operators);
                }
                _ => {}
            }
            if !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && operator != "Exists" {
                let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                    ResourceQuotaScopeCrossNamespacePodAffinity";
                causes.invalid(&format!("{path}.operator"), &expression["operator"], why);
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        if items(&new["spec"], "scopes") != items(&old["spec"], "scopes") {
            causes.immutable("spec.scopes", &new["spec"]["scopes"]);
        }
    }
}

pub static COLUMNS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Request", "Used and allowed requests and counts."),
        Column::text("Limit", "Used and allowed limits."),
        AGE,
    ],
    |row| {
        let hard = row.at("/status/hard").and_then(Value::as_object).into_iter().flatten();
        let mut amounts: Vec<(&String, String)> = hard
            .map(|(name, hard)| {
                let used = row.at("/status/used").and_then(|used| used[name].as_str()).unwrap_or("0");
                (name, format!("{name}: {used}/{}", hard.as_str().unwrap_or_default()))
            })
            .collect();
        amounts.sort_unstable();
        let of = |limits: bool| -> Value {
            let chosen = amounts.iter().filter(|(name, _)| name.starts_with("limits") == limits);
            chosen.map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(", ").into()
        };
        vec![row.name(), of(false), of(true), row.age()]
    },
);
