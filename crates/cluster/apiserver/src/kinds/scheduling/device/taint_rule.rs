//! DeviceTaintRules: taints that an administrator gives devices.

use berth_api::syntax;
use berth_schema::resource::DEVICE_TAINT_RULES;

use super::names::validate_name;
use crate::kinds::prelude::*;

pub static TAINT_RULE: Typed = Typed {
    enums: &[("DeviceTaint", "effect", super::EFFECTS)],
    complete: |rule| {
        if let Some(taint) = rule.pointer_mut("/spec/taint").and_then(Value::as_object_mut) {
            default(taint, "timeAdded", now());
        }
    },
    check: |rule, causes| {
        let taint = &rule["spec"]["taint"];
        validate_name("spec.taint.key", &taint["key"], syntax::label_key, causes);
        validate_name("spec.taint.value", &taint["value"], syntax::label_value, causes);
        let selector = &rule["spec"]["deviceSelector"];
        validate_name("spec.deviceSelector.driver", &selector["driver"], syntax::dns_subdomain, causes);
        validate_name("spec.deviceSelector.device", &selector["device"], syntax::dns_label, causes);
    },
    ..Typed::new(&DEVICE_TAINT_RULES)
};
