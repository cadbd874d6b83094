//! PodDisruptionBudgets.

use berth_api::object::LabelSelector;
use berth_api::rules::Selector;
use serde_json::{Value, json};

use super::shared::validate_int_or_percent;
use crate::strategy::fields::Causes;
use crate::strategy::{Context, Strategy};
use crate::table::columns::{AGE, Column, NAME, Printer};

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
        let selector: Option<LabelSelector> = serde_json::from_value(spec["selector"].clone()).ok();
        if let Err(why) = Selector::parse(selector.as_ref()) {
            causes.invalid("spec.selector", &spec["selector"], &why);
        }
        let policy = &spec["unhealthyPodEvictionPolicy"];
        if !policy.is_null()
            && !["AlwaysAllow", "IfHealthyBudget"].contains(&policy.as_str().unwrap_or_default())
        {
            let supported = ["AlwaysAllow", "IfHealthyBudget"];
            causes.not_supported("spec.unhealthyPodEvictionPolicy", policy, &supported);
        }
    }

    fn validate_status(&self, status: &Value, causes: &mut Causes) {
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            causes.not_negative(&format!("status.{field}"), &status[field]);
        }
    }
}

pub static COLUMNS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Min Available", "How many pods must stay."),
        Column::text("Max Unavailable", "How many pods may be away."),
        Column::integer("Allowed Disruptions", "How many pods may be evicted now."),
        AGE,
    ],
    |row| {
        let amount = |pointer: &str| match row.at(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(number) => number.to_string(),
            None => "N/A".to_owned(),
        };
        vec![
            row.name(),
            amount("/spec/minAvailable").into(),
            amount("/spec/maxUnavailable").into(),
            row.integer("/status/disruptionsAllowed").into(),
            row.age(),
        ]
    },
);
