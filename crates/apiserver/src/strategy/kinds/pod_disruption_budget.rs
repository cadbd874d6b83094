//! PodDisruptionBudgets.

use serde_json::{Value, json};

use crate::strategy::fields::Causes;
use crate::strategy::{Context, Strategy};

pub(super) struct PodDisruptionBudget;

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
            causes.not_negative(&format!("spec.{field}"), &spec[field]);
        }
        let policy = &spec["unhealthyPodEvictionPolicy"];
        if !policy.is_null()
            && !["AlwaysAllow", "IfHealthyBudget"].contains(&policy.as_str().unwrap_or_default())
        {
            let supported = ["AlwaysAllow", "IfHealthyBudget"];
            causes.not_supported("spec.unhealthyPodEvictionPolicy", policy, &supported);
        }
    }
}
