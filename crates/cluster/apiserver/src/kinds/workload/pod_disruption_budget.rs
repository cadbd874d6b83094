//! PodDisruptionBudgets.

use berth_api::syntax;

use super::shared::validate_int_or_percent;
use crate::kinds::prelude::*;
use crate::strategy::conditions::validate_conditions;

/// A requirement that `policy/v1beta1` added to selectors.
const OF_V1BETA1: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

pub struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn default(&self, value: &mut Value) {
        let selector = value.pointer_mut("/spec/selector").and_then(Value::as_object_mut);
        let Some(selector) = selector else { return };
        if let Some(expressions) = selector.get_mut("matchExpressions").and_then(Value::as_array_mut) {
            expressions.retain(|expression| expression["key"] != OF_V1BETA1);
            if expressions.is_empty() {
                selector.shift_remove("matchExpressions");
            }
        }
    }

    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        value["status"] = json!({});
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        syntax::path_segment(name)
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let spec = &value["spec"];
        if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
            let shown = json!({"MinAvailable": spec["minAvailable"], "Selector": spec["selector"],
                "MaxUnavailable": spec["maxUnavailable"], "UnhealthyPodEvictionPolicy": spec["unhealthyPodEvictionPolicy"]});
            causes.invalid("spec", &shown, "minAvailable and maxUnavailable cannot be both set");
        }
        for field in ["minAvailable", "maxUnavailable"] {
            validate_int_or_percent(&format!("spec.{field}"), &spec[field], true, causes);
        }
        validate_label_selector("spec.selector", &spec["selector"], causes);
        let policy = &spec["unhealthyPodEvictionPolicy"];
        if !policy.is_null() {
            causes.one_of("spec.unhealthyPodEvictionPolicy", policy, &["AlwaysAllow", "IfHealthyBudget"]);
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            causes.not_negative(&format!("status.{field}"), &new["status"][field]);
        }
        validate_conditions("status.conditions", &new["status"]["conditions"], causes);
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Min Available", "How many pods must stay.", |row| amount(row, "/spec/minAvailable")),
    Column::text("Max Unavailable", "How many pods may be away.", |row| amount(row, "/spec/maxUnavailable")),
    Column::number("Allowed Disruptions", "How many pods may be evicted now.", "/status/disruptionsAllowed"),
    AGE,
];

fn amount(row: &Row<'_>, pointer: &str) -> Value {
    match row.at(pointer) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(number) => number.to_string().into(),
        None => "N/A".into(),
    }
}
