//! PersistentVolumes.

use serde_json::{Value, json};

use crate::strategy::fields::{Causes, default_text, is_empty, object};
use crate::strategy::{Context, Strategy};

pub(super) struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn default(&self, value: &mut Value) {
        if let Some(spec) = object(value, "spec") {
            default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
            default_text(spec, "volumeMode", "Filesystem");
        }
    }

    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        value["status"] = json!({"phase": "Pending"});
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        for field in ["capacity", "accessModes"] {
            if is_empty(&value["spec"][field]) {
                causes.required(&format!("spec.{field}"), "");
            }
        }
    }
}
