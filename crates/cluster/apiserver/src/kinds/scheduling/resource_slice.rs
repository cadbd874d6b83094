//! ResourceSlices.

use berth_schema::resource::RESOURCE_SLICES;
use serde_json::Value;

use crate::strategy::fields::Causes;
use crate::strategy::typed::Typed;
use crate::strategy::{Context, Strategy};

pub struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn default(&self, value: &mut Value) {
        Typed(&RESOURCE_SLICES).default(value);
    }

    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        Typed(&RESOURCE_SLICES).validate(context, value, causes);
    }

    /// A slice stays with its driver, its pool and its node: a node writes only its own.
    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        for pointer in ["/spec/driver", "/spec/pool/name", "/spec/nodeName"] {
            let (now, before) = (new.pointer(pointer), old.pointer(pointer));
            if now != before {
                causes.immutable(&pointer[1..].replace('/', "."), now.unwrap_or(&Value::Null));
            }
        }
    }
}
