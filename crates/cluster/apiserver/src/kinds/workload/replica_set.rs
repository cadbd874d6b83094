//! ReplicaSets.

use serde_json::{Value, json};

use super::shared::{self, ALWAYS, CURRENT, DESIRED, N_READY, replicas};
use crate::strategy::fields::{Causes, default};
use crate::strategy::{Context, Strategy};
use crate::table::columns::{AGE, CONTAINERS, IMAGES, NAME, Printer, SELECTOR};

pub struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn default(&self, value: &mut Value) {
        shared::default_spec(value, |spec| default(spec, "replicas", 1));
    }

    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        value["status"] = json!({"replicas": 0});
    }

    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        shared::validate(context, value, ALWAYS, causes);
    }

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        shared::validate_update(new, old, causes);
    }
}

pub static COLUMNS: Printer =
    Printer::new(&[NAME, DESIRED, CURRENT, N_READY, AGE, CONTAINERS, IMAGES, SELECTOR], |row| {
        replicas(row, row.selector("/spec/selector"))
    });
