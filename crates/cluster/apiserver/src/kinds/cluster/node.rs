//! Nodes.

use berth_api::syntax;
use serde_json::Value;

use crate::strategy::fields::{Causes, items, quantity, repeated, text};
use crate::strategy::{Context, Strategy};

pub struct Node;

/// The resources that are counted in whole units; extended resources are, too.
const COUNTED: [&str; 1] = ["pods"];

impl Strategy for Node {
    /// A kubelet registers its node with the status.
    fn is_created_with_status(&self) -> bool {
        true
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        validate_taints(items(&value["spec"], "taints"), causes);
        self.validate_status(&value["status"], causes);
    }

    fn validate_status(&self, status: &Value, causes: &mut Causes) {
        for list in ["capacity", "allocatable"] {
            for (name, amount) in status[list].as_object().into_iter().flatten() {
                let Some(quantity) = quantity(amount) else { continue };
                let field = || format!("status.{list}.{name}");
                if quantity.is_negative() {
                    causes.invalid(&field(), amount, "must be greater than or equal to 0");
                }
                let is_counted = COUNTED.contains(&name.as_str())
                    || name.contains('/') && !name.contains("kubernetes.io/");
                if is_counted && !quantity.is_whole() {
                    causes.invalid(&field(), amount, "must be an integer");
                }
            }
        }
        let addresses = items(status, "addresses");
        for i in repeated(addresses) {
            causes.duplicate(&format!("status.addresses[{i}]"), &addresses[i]);
        }
    }
}

fn validate_taints(taints: &[Value], causes: &mut Causes) {
    for (i, taint) in taints.iter().enumerate() {
        let field = |name: &str| format!("metadata.taints[{i}].{name}");
        for problem in syntax::label_key(text(taint, "/key")) {
            causes.invalid(&field("key"), &taint["key"], &problem);
        }
        let problems = syntax::label_value(text(taint, "/value"));
        if !problems.is_empty() {
            causes.invalid(&field("value"), &taint["value"], &problems.join(";"));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        match text(taint, "/effect") {
            "" => causes.required(&field("effect"), ""),
            effect if effects.contains(&effect) => {}
            _ => causes.not_supported(&field("effect"), &taint["effect"], &effects),
        }
    }
    for i in repeated(taints.iter().map(|taint| (text(taint, "/key"), text(taint, "/effect")))) {
        let message = "taints must be unique by key and effect pair";
        causes.duplicate_because(&format!("metadata.taints[{i}]"), &taints[i], message);
    }
}
