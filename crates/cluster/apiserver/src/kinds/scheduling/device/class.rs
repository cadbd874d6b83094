//! DeviceClasses.

use berth_api::syntax;
use berth_schema::resource::DEVICE_CLASSES;

use super::names::limited;
use super::request::{MAX_CONFIG, validate_config, validate_selectors};
use crate::kinds::prelude::*;

pub static CLASS: Typed = Typed {
    check: |class, causes| validate_spec(&class["spec"], causes),
    not_required: &[("CELDeviceSelector", "expression")],
    name_problems: syntax::declared_subdomain,
    ..Typed::new(&DEVICE_CLASSES)
};

fn validate_spec(spec: &Value, causes: &mut Causes) {
    validate_selectors(&spec["selectors"], "spec.selectors", causes);
    for (i, config) in limited(&spec["config"], "spec.config", MAX_CONFIG, causes).iter().enumerate() {
        validate_config(config, &format!("spec.config[{i}]"), causes);
    }
    let name = &spec["extendedResourceName"];
    if let Some(text) = name.as_str() {
        let path = "spec.extendedResourceName";
        if !text.contains('/') {
            causes.invalid(
                path,
                name,
                "a name must be a domain-prefixed path, such as 'example.com/my-prop'",
            );
        } else if text.contains("kubernetes.io/") {
            causes.invalid(path, name, r#"must not have "kubernetes.io/" domain"#);
        }
        if text.starts_with("requests.") {
            causes.invalid(path, name, r#"must not have "requests." prefix"#);
        }
        // As quotas name it.
        causes.problems(path, name, syntax::label_key(&format!("requests.{text}")));
    }
}
