//! DaemonSets.

use serde_json::{Value, json};

use super::shared::{
    self, ALWAYS, AVAILABLE, CURRENT, DESIRED, N_READY, UP_TO_DATE, default_strategy,
    validate_rolling_update, with_template,
};
use crate::strategy::fields::{Causes, default};
use crate::strategy::{Context, Strategy};
use crate::table::columns::{AGE, CONTAINERS, Column, IMAGES, NAME, Printer, SELECTOR};

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

pub static COLUMNS: Printer = Printer::new(
    &[
        NAME,
        DESIRED,
        CURRENT,
        N_READY,
        UP_TO_DATE,
        AVAILABLE,
        Column::text("Node Selector", "Labels of the nodes that get a pod."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |row| {
        let cells = vec![
            row.name(),
            row.integer("/status/desiredNumberScheduled").into(),
            row.integer("/status/currentNumberScheduled").into(),
            row.integer("/status/numberReady").into(),
            row.integer("/status/updatedNumberScheduled").into(),
            row.integer("/status/numberAvailable").into(),
            row.labels("/spec/template/spec/nodeSelector"),
            row.age(),
        ];
        with_template(row, cells, Some(row.selector("/spec/selector")))
    },
);
