//! PodDisruptionBudgets.

use berth_api::object::LabelSelector;
use berth_api::read::from_value;
use berth_rules::Selector;

use super::shared::validate_int_or_percent;
use crate::kinds::prelude::*;

pub struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        value["status"] = json!({});
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let spec = &value["spec"];
        if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
            causes.invalid("spec", &json!({}), "minAvailable and maxUnavailable cannot be both set");
        }
        for field in ["minAvailable", "maxUnavailable"] {
            validate_int_or_percent(&format!("spec.{field}"), &spec[field], true, causes);
        }
        let selector: Option<LabelSelector> = from_value(&spec["selector"]).ok();
        if let Err(why) = Selector::parse(selector.as_ref()) {
            causes.invalid("spec.selector", &spec["selector"], &why);
        }
        let policy = &spec["unhealthyPodEvictionPolicy"];
        if !policy.is_null() {
            causes.one_of("spec.unhealthyPodEvictionPolicy", policy, &["AlwaysAllow", "IfHealthyBudget"]);
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            causes.not_negative(&format!("status.{field}"), &new["status"][field]);
        }
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
