//! Objects of custom resources: pruned, defaulted and validated by their structural schemas.

use crate::request::{ApiResult, Reason, Status};
use berth_schema::prune;
use berth_schema::resource::{CUSTOM_RESOURCE_DEFINITIONS, Custom, Resource};

use super::rules::Rules;
use super::structural::{default_by, validate_by};
use crate::kinds::prelude::*;

impl Strategy for Custom {
    fn default(&self, value: &mut Value) {
        let schema = self.schema();
        prune(&schema.ty, value);
        default_by(&schema.openapi, value);
    }

    fn prepare_update(&self, _context: &Context<'_>, new: &mut Value, _old: &Value) {
        self.default(new);
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        validate_by(&self.schema().openapi, value, causes);
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        let status = &new["status"];
        if status.is_null() {
            return;
        }
        let schema = json!({"properties": {"status": self.schema().openapi["properties"]["status"]}});
        validate_by(&schema, &json!({ "status": status }), causes);
    }

    fn validate_rules(
        &self,
        new: &Value,
        old: Option<&Value>,
        causes: &mut Causes,
        warnings: &mut Vec<String>,
    ) {
        let schema = self.schema();
        let rules = schema.compiled.get_or_init(|| Box::new(Rules::new(&schema.openapi)));
        if let Some(rules) = rules.downcast_ref::<Rules>() {
            rules.check(&schema.openapi, new, old, causes, warnings);
        }
    }

    fn admit_create(
        &self,
        context: &Context<'_>,
        resource: &Resource,
        value: &mut Value,
        warnings: &mut Vec<String>,
    ) -> ApiResult {
        let definition = context.lookup.get(&CUSTOM_RESOURCE_DEFINITIONS, "", &resource.group_resource());
        if definition.is_none_or(|definition| !definition.parsed()["metadata"]["deletionTimestamp"].is_null())
        {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::new(Reason::MethodNotAllowed, why.to_owned()));
        }
        self.validate_new(context, resource, value, warnings)
    }
}
