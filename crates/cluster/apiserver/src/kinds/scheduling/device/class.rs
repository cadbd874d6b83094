//! DeviceClasses.

use berth_schema::resource::DEVICE_CLASSES;

use super::names::limited;
use super::request::{MAX_CONFIG, validate_config, validate_selectors};
use crate::kinds::prelude::*;

pub static CLASS: Typed =
    Typed { check: |class, causes| validate_spec(&class["spec"], causes), ..Typed::new(&DEVICE_CLASSES) };

fn validate_spec(spec: &Value, causes: &mut Causes) {
    validate_selectors(&spec["selectors"], "spec.selectors", causes);
    for (i, config) in limited(&spec["config"], "spec.config", MAX_CONFIG, causes).iter().enumerate() {
        validate_config(config, &format!("spec.config[{i}]"), causes);
    }
    let name = &spec["extendedResourceName"];
    if name.as_str().is_some_and(|name| !is_extended_resource(name)) {
        causes.invalid("spec.extendedResourceName", name, "must be a valid extended resource name");
    }
}

/// Whether a resource is neither native nor a quota, and has a valid name.
fn is_extended_resource(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    !is_native
        && !name.starts_with("requests.")
        && berth_api::syntax::label_key(&format!("requests.{name}")).is_empty()
}
