//! ReplicationControllers.

use super::shared::{self, ALWAYS, CURRENT, DESIRED, N_READY};
use crate::kinds::prelude::*;

pub struct ReplicationController;

impl Strategy for ReplicationController {
    fn default(&self, value: &mut Value) {
        shared::default_labels_from_template(value);
        let labels = value["spec"]["template"]["metadata"]["labels"].clone();
        if is_empty(&value["spec"]["selector"]) && !is_empty(&labels) {
            value["spec"]["selector"] = labels;
        }
        shared::default_spec(value, |spec| default(spec, "replicas", 1));
    }

    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        value["status"] = json!({"replicas": 0});
    }

    fn prepare_update(&self, _context: &Context<'_>, new: &mut Value, _old: &Value) {
        self.default(new);
    }

    fn validate_status(&self, new: &Value, old: &Value, causes: &mut Causes) {
        shared::validate_counts(new, old, "replicationcontroller", causes);
    }

    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let spec = &value["spec"];
        shared::validate_numbers(spec, causes);
        let labels = &spec["template"]["metadata"]["labels"];
        let empty = Map::new();
        let selector = spec["selector"].as_object().unwrap_or(&empty);
        if selector.is_empty() {
            causes.required("spec.selector", "");
        }
        if selector.iter().any(|(key, value)| labels[key] != *value) {
            shared::mismatched(labels, causes);
        }
        shared::validate_template(context, spec, ALWAYS, causes);
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    DESIRED,
    CURRENT,
    N_READY,
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR.with(|row| row.labels("/spec/selector")),
];
