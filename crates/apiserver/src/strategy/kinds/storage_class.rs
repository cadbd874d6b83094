//! StorageClasses.

use serde_json::Value;

use crate::strategy::fields::{Causes, default_text, text};
use crate::strategy::{Context, Strategy};

pub(super) struct StorageClass;

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
    }

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            if new[field] != old[field] {
                causes.forbidden(field, &format!("updates to {field} are forbidden."));
            }
        }
    }
}
