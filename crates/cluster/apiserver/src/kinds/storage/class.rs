//! StorageClasses.

use serde_json::Value;

use crate::strategy::fields::{Causes, default_text, items, text};
use crate::strategy::{Context, Strategy};

const RECLAIM_POLICIES: [&str; 2] = ["Delete", "Retain"];
const BINDING_MODES: [&str; 2] = ["Immediate", "WaitForFirstConsumer"];

pub struct StorageClass;

impl Strategy for StorageClass {
    fn default(&self, value: &mut Value) {
        if let Some(fields) = value.as_object_mut() {
            default_text(fields, "reclaimPolicy", "Delete");
            default_text(fields, "volumeBindingMode", "Immediate");
        }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        if text(value, "/provisioner").is_empty() {
            causes.required("provisioner", "");
        }
        for (field, supported) in [("reclaimPolicy", RECLAIM_POLICIES), ("volumeBindingMode", BINDING_MODES)]
        {
            if !supported.contains(&text(value, &format!("/{field}"))) {
                causes.not_supported(field, &value[field], &supported);
            }
        }
        for (i, term) in items(value, "allowedTopologies").iter().enumerate() {
            for (j, requirement) in items(term, "matchLabelExpressions").iter().enumerate() {
                let field = format!("allowedTopologies[{i}].matchLabelExpressions[{j}]");
                if text(requirement, "/key").is_empty() {
                    causes.required(&format!("{field}.key"), "");
                }
                if items(requirement, "values").is_empty() {
                    causes.required(&format!("{field}.values"), "");
                }
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        for field in ["parameters", "provisioner", "reclaimPolicy"] {
            if new[field] != old[field] {
                causes.forbidden(field, &format!("updates to {field} are forbidden."));
            }
        }
        if new["volumeBindingMode"] != old["volumeBindingMode"] {
            causes.immutable("volumeBindingMode", &new["volumeBindingMode"]);
        }
    }
}
