//! Validation of the fields of a node that placement reads.

use std::collections::HashSet;

use crate::admission::field::{Errors, FieldError, Path};
use berth_api::object::Node;
use berth_api::syntax;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Validates the taints and allocatable resources of a node.
pub fn validate_node(node: &Node) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = Path::Root("spec");
    let taints = spec.child("taints");
    let mut seen = HashSet::new();
    for (i, taint) in node.spec.taints.iter().enumerate() {
        let path = taints.index(i);
        errors.invalid_each(&path.child("key"), &taint.key, syntax::label_key(&taint.key));
        errors.invalid_each(&path.child("value"), &taint.value, syntax::label_value(&taint.value));
        match taint.effect.as_str() {
            "" => errors.required(&path.child("effect"), ""),
            effect if EFFECTS.contains(&effect) => {}
            effect => errors.not_supported(&path.child("effect"), effect, &EFFECTS),
        }
        if !seen.insert((&taint.key, &taint.effect)) {
            errors.duplicate(&path, &format!("{}:{}", taint.key, taint.effect));
        }
    }
    let status = Path::Root("status");
    let allocatable = status.child("allocatable");
    for (resource, quantity) in node.status.allocatable.iter().flatten() {
        if quantity.is_negative() {
            errors.invalid_quantity(
                &allocatable.key(resource),
                *quantity,
                "must be greater than or equal to 0",
            );
        }
    }
    errors.into_list()
}
