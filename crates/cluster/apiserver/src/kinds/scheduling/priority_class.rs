//! PriorityClasses.

use std::sync::Arc;

use berth_schema::resource::PRIORITY_CLASSES;

use crate::kinds::prelude::*;
use crate::store::Object;

/// Highest priority of a class that users define; higher ones are the system's.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

pub struct PriorityClass;

impl Strategy for PriorityClass {
    fn default(&self, value: &mut Value) {
        if let Some(fields) = value.as_object_mut() {
            default(fields, "preemptionPolicy", "PreemptLowerPriority");
            default(fields, "value", 0);
            // Go leaves it out.
            if fields.get("globalDefault") == Some(&Value::Bool(false)) {
                fields.shift_remove("globalDefault");
            }
        }
    }

    /// It counts no changes.
    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        value["metadata"]["generation"] = 1.into();
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let name = text(value, "/metadata/name");
        let priority = value["value"].as_i64().unwrap_or(0);
        let built_in = matches!(
            (name, priority),
            ("system-cluster-critical", 2_000_000_000) | ("system-node-critical", 2_000_001_000)
        );
        if name.starts_with("system-") && !built_in {
            causes.forbidden(
                "metadata.name",
                &format!("priority class names with 'system-' prefix are reserved for system use only. error: {name} is \
                 not a known system priority class"),
            );
        } else if priority > HIGHEST_USER_PRIORITY && !built_in {
            causes.forbidden(
                "value",
                &format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"),
            );
        }
        match &value["preemptionPolicy"] {
            policy if is_empty(policy) => causes.required("preemptionPolicy", ""),
            policy => causes.one_of("preemptionPolicy", policy, &["PreemptLowerPriority", "Never"]),
        }
    }

    fn validated_if_new(&self) -> &'static [&'static str] {
        &["preemptionPolicy", "value"]
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        if new["value"] != old["value"] {
            causes.forbidden("value", "may not be changed in an update.");
        }
        causes.unchanged("preemptionPolicy", &new["preemptionPolicy"], &old["preemptionPolicy"]);
    }

    /// At most one class is that of pods without one: the admission plugin Priority.
    fn authorize(&self, context: &Context<'_>, value: &Value) -> ApiResult {
        if value["globalDefault"] != true {
            return Ok(());
        }
        let classes = context.lookup.list(&PRIORITY_CLASSES, None);
        let is_default = |class: &&Arc<Object>| class.parsed()["globalDefault"] == true;
        let mut others = classes.iter().filter(|class| class.facts.name() != name(value));
        let Some(other) = others.find(is_default) else { return Ok(()) };
        let why = format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            other.facts.name()
        );
        Err(Status::forbidden(&PRIORITY_CLASSES, name(value), &why))
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::number("Value", "Priority of its pods.", "/value"),
    Column::flag("Global-Default", "Whether pods without a class have this one.", "/globalDefault"),
    AGE,
    Column::field("PreemptionPolicy", "Whether its pods may take the room of others.", "/preemptionPolicy"),
];
