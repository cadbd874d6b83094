//! DeviceTaintRules: taints that an administrator gives devices.

use berth_api::syntax;
use berth_schema::resource::DEVICE_TAINT_RULES;

use super::names::{limited, validate_driver, validate_name, validate_pool};
use crate::kinds::prelude::*;
use crate::strategy::conditions::validate_conditions;

const MAX_CONDITIONS: usize = 8;

pub static TAINT_RULE: Typed = Typed {
    complete: |rule| {
        if let Some(taint) = rule.pointer_mut("/spec/taint").and_then(Value::as_object_mut) {
            default(taint, "timeAdded", now());
        }
    },
    check: |rule, causes| {
        let selector = &rule["spec"]["deviceSelector"];
        for field in ["driver", "pool"].into_iter().filter(|field| selector[field] == "") {
            causes.required(&format!("spec.deviceSelector.{field}"), "");
        }
        if selector["device"] == "" {
            causes.problems("spec.deviceSelector.device", &"".into(), syntax::dns_label(""));
        }
        validate_driver("spec.deviceSelector.driver", &selector["driver"], causes);
        validate_pool("spec.deviceSelector.pool", &selector["pool"], causes);
        validate_name("spec.deviceSelector.device", &selector["device"], syntax::dns_label, causes);
        let taint = &rule["spec"]["taint"];
        let key = text(taint, "/key");
        causes.problems("spec.taint.key", &key.into(), syntax::label_key(key));
        validate_name("spec.taint.value", &taint["value"], syntax::label_value, causes);
        match text(taint, "/effect") {
            "" => causes.required("spec.taint.effect", ""),
            _ => causes.one_of("spec.taint.effect", &taint["effect"], super::EFFECTS),
        }
    },
    status: |status, causes| {
        limited(&status["conditions"], "status.conditions", MAX_CONDITIONS, causes);
        validate_conditions("status.conditions", &status["conditions"], causes);
    },
    not_required: &[("DeviceTaint", "effect"), ("DeviceTaint", "key")],
    ..Typed::new(&DEVICE_TAINT_RULES)
};

pub const TAINT_RULE_COLUMNS: &[Column] = &[
    NAME,
    Column::field("Key", "Key of the taint.", "/spec/taint/key"),
    Column::field("Value", "Value of the taint.", "/spec/taint/value"),
    Column::field("Effect", "What it does to pods.", "/spec/taint/effect"),
    Column::text("TimeAdded", "Time since the devices have it.", |row| {
        row.since("/spec/taint/timeAdded").into()
    }),
    AGE,
];
