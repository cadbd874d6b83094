//! Events.

use serde_json::Value;

use crate::strategy::fields::{Causes, text};
use crate::strategy::{Context, Strategy};

pub struct Event;

impl Strategy for Event {
    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let namespace = text(value, "/involvedObject/namespace");
        if !namespace.is_empty() && namespace != text(value, "/metadata/namespace") {
            let involved = &value["involvedObject"]["namespace"];
            causes.invalid("involvedObject.namespace", involved, "does not match event.namespace");
        }
    }
}
