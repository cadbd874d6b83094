//! DaemonSets.

use serde_json::{Value, json};

use super::shared::{self, ALWAYS, default_strategy, validate_rolling_update};
use crate::strategy::fields::{Causes, default};
use crate::strategy::{Context, Strategy};

pub struct DaemonSet;

impl Strategy for DaemonSet {
    fn default(&self, value: &mut Value) {
        shared::default_spec(value, |spec| {
            default(spec, "revisionHistoryLimit", 10);
            default_strategy(spec, "updateStrategy", json!({"maxUnavailable": 1, "maxSurge": 0}));
        });
    }

    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        value["status"] = json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0,
            "numberReady": 0});
    }

    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        if shared::validate(context, value, ALWAYS, causes) {
            let types = ["OnDelete", "RollingUpdate"];
            validate_rolling_update(&value["spec"], "updateStrategy", &types, causes);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        shared::validate_update(new, old, causes);
    }
}
