//! StatefulSets.

use serde_json::{Value, json};

use super::shared::{self, ALWAYS, READY, default_strategy, of_desired, with_template};
use crate::strategy::fields::{Causes, default, default_text};
use crate::strategy::{Context, Strategy};
use crate::table::columns::{AGE, CONTAINERS, IMAGES, NAME, Printer};

pub struct StatefulSet;

impl Strategy for StatefulSet {
    fn default(&self, value: &mut Value) {
        shared::default_spec(value, |spec| {
            default(spec, "replicas", 1);
            default(spec, "revisionHistoryLimit", 10);
            default_text(spec, "podManagementPolicy", "OrderedReady");
            default_strategy(spec, "updateStrategy", json!({"partition": 0}));
            default(
                spec,
                "persistentVolumeClaimRetentionPolicy",
                json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
            );
        });
    }

    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        value["status"] = json!({"replicas": 0});
    }

    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        if !shared::validate(context, value, ALWAYS, causes) {
            return;
        }
        let spec = &value["spec"];
        let policy = &spec["podManagementPolicy"];
        if !["OrderedReady", "Parallel"].contains(&policy.as_str().unwrap_or_default()) {
            causes.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'");
        }
        causes.not_negative(
            "spec.updateStrategy.rollingUpdate.partition",
            &spec["updateStrategy"]["rollingUpdate"]["partition"],
        );
        let path = "spec.updateStrategy.rollingUpdate.maxUnavailable";
        let unavailable = &spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
        shared::validate_int_or_percent(path, unavailable, true, causes);
    }

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        shared::validate_update(new, old, causes);
        let (new, old) = (&new["spec"], &old["spec"]);
        let rest = |spec: &Value| {
            let mut spec = spec.clone();
            if let Some(fields) = spec.as_object_mut() {
                for field in [
                    "replicas",
                    "ordinals",
                    "template",
                    "updateStrategy",
                    "revisionHistoryLimit",
                    "persistentVolumeClaimRetentionPolicy",
                    "minReadySeconds",
                    "selector",
                ] {
                    fields.remove(field);
                }
            }
            spec
        };
        if rest(new) != rest(old) {
            causes.forbidden(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            );
        }
    }
}

pub static COLUMNS: Printer = Printer::new(&[NAME, READY, AGE, CONTAINERS, IMAGES], |row| {
    let cells = vec![row.name(), of_desired(row, "/status/readyReplicas"), row.age()];
    with_template(row, cells, None)
});
