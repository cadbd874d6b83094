//! DeviceTaintRules of `resource.k8s.io/v1` (Kubernetes 1.37), which the bindings of 1.36 have in `v1beta2` only.

use std::borrow::Cow;

use k8s_openapi::api::resource::v1beta2 as old;
use k8s_openapi::{ClusterResourceScope, Resource};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// A type that is not constructed: it has a name and a schema.
pub enum DeviceTaintRule {}

impl JsonSchema for DeviceTaintRule {
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.resource.v1.DeviceTaintRule".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        old::DeviceTaintRule::json_schema(generator)
    }
}

impl Resource for DeviceTaintRule {
    type Scope = ClusterResourceScope;
    const API_VERSION: &'static str = "resource.k8s.io/v1";
    const GROUP: &'static str = "resource.k8s.io";
    const KIND: &'static str = "DeviceTaintRule";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "devicetaintrules";
}
