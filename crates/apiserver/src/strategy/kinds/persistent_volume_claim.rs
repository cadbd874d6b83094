//! PersistentVolumeClaims.

use serde_json::{Value, json};

use crate::strategy::fields::{Causes, default_text, is_empty, object};
use crate::strategy::{Context, Strategy};

pub(super) struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn default(&self, value: &mut Value) {
        if let Some(spec) = object(value, "spec") {
            default_text(spec, "volumeMode", "Filesystem");
        }
    }

    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        value["status"] = json!({"phase": "Pending"});
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        if is_empty(&value["spec"]["accessModes"]) {
            causes.required("spec.accessModes", "at least 1 access mode is required");
        }
        if is_empty(&value["spec"]["resources"]["requests"]["storage"]) {
            causes.required("spec.resources[storage]", "");
        }
    }
}
