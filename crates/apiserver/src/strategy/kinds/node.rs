//! Nodes.

use serde_json::Value;

use crate::strategy::fields::{Causes, items, text};
use crate::strategy::{Context, Strategy};

pub(super) struct Node;

impl Strategy for Node {
    /// A kubelet registers its node with the status.
    fn is_created_with_status(&self) -> bool {
        true
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let taints = items(&value["spec"], "taints");
        for (i, taint) in taints.iter().enumerate() {
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            if text(taint, "/key").is_empty() {
                causes.required(&format!("metadata.taints[{i}].key"), "");
            }
            if !effects.contains(&text(taint, "/effect")) {
                causes.not_supported(&format!("metadata.taints[{i}].effect"), &taint["effect"], &effects);
            }
            let same = |t: &&Value| t["key"] == taint["key"] && t["effect"] == taint["effect"];
            if taints[..i].iter().any(|t| same(&t)) {
                causes.duplicate(&format!("metadata.taints[{i}]"), taint);
            }
        }
    }
}
