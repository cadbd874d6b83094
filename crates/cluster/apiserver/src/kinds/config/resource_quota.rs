//! Resource quotas.

use berth_api::syntax::quantity::Quantity;
use berth_schema::resource::RESOURCE_QUOTAS;
use serde_json::Value;

use crate::quota::SCOPES;
use crate::strategy::fields::{Causes, items, text};
use crate::strategy::typed::Typed;
use crate::strategy::{Context, Strategy};

pub struct ResourceQuota;

const TYPED: Typed = Typed(&RESOURCE_QUOTAS);

impl Strategy for ResourceQuota {
    fn default(&self, value: &mut Value) {
        TYPED.default(value);
    }

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
