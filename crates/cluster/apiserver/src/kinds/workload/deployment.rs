//! Deployments.

use serde_json::{Value, json};

use super::shared::{
    self, ALWAYS, AVAILABLE, READY, UP_TO_DATE, default_strategy, of_desired, validate_rolling_update,
    with_template,
};
use crate::strategy::fields::{Causes, default};
use crate::strategy::{Context, Strategy};
use crate::table::columns::{AGE, CONTAINERS, IMAGES, NAME, Printer, SELECTOR};

pub struct Deployment;

impl Strategy for Deployment {
    fn default(&self, value: &mut Value) {
        shared::default_spec(value, |spec| {
            default(spec, "replicas", 1);
            default(spec, "revisionHistoryLimit", 10);
            default(spec, "progressDeadlineSeconds", 600);
            default_strategy(spec, "strategy", json!({"maxUnavailable": "25%", "maxSurge": "25%"}));
        });
    }

    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        value["status"] = json!({});
    }

    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        if shared::validate(context, value, ALWAYS, causes) {
            validate_rolling_update(&value["spec"], "strategy", &["Recreate", "RollingUpdate"], causes);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        shared::validate_update(new, old, causes);
    }
}

pub static COLUMNS: Printer =
    Printer::new(&[NAME, READY, UP_TO_DATE, AVAILABLE, AGE, CONTAINERS, IMAGES, SELECTOR], |row| {
        let cells = vec![
            row.name(),
            of_desired(row, "/status/readyReplicas"),
            row.integer("/status/updatedReplicas").into(),
            row.integer("/status/availableReplicas").into(),
            row.age(),
        ];
        with_template(row, cells, Some(row.selector("/spec/selector")))
    });
