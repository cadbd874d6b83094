//! The rules for changes.

use berth_rules::admission::Operation;
use berth_schema::resource::{PERSISTENT_VOLUME_CLAIMS, RESOURCE_CLAIMS, Resource};
use serde_json::Value;

use super::create::{complete, template_warnings};
use super::{limit_range, node_restriction};
use crate::kinds;
use crate::request::ApiResult;
use crate::strategy::fields::Causes;
use crate::strategy::gated_fields::drop_gated;
use crate::strategy::{Context, metadata};

/// Restores immutable fields in a changed object, and completes it.
pub(super) fn prepare(context: &Context<'_>, resource: &Resource, new: &mut Value, old: &Value) -> ApiResult {
    let strategy = kinds::strategy(resource);
    // As the admission plugin LimitRanger: what a resize leaves out has the defaults of the namespace again.
    if context.subresource == "resize" {
        limit_range::set_defaults(context, resource, new);
    }
    metadata::keep_fixed(resource, context.subresource, new, old)?;
    drop_gated(context.feature_gates, resource, new, Some(old));
    strategy.prepare_update(context, new, old);
    complete(resource, new);
    if kinds::has_generation(resource) {
        metadata::count_generation(new, old);
    }
    Ok(())
}

pub(super) fn admit(
    context: &Context<'_>,
    resource: &Resource,
    new: &Value,
    old: &Value,
    warnings: &mut Vec<String>,
) -> ApiResult {
    node_restriction::admit(context, resource, Operation::Update, new, old)?;
    let strategy = kinds::strategy(resource);
    let mut causes = Causes::default();
    metadata::validate(resource, &|name| strategy.name_problems(name), new, &mut causes);
    metadata::validate_update(new, old, &mut causes);
    let subresource = context.subresource;
    let is_main = matches!(subresource, "" | "scale");
    let validate = |value: &Value| {
        let mut causes = Causes::default();
        match subresource {
            "status" | "approval" => strategy.validate_status(value, old, &mut causes),
            _ if is_main => strategy.validate(context, value, &mut causes),
            _ => strategy.validate_subresource(context, value, old, &mut causes),
        }
        causes
    };
    let mut found = validate(new);
    if !found.0.is_empty() {
        found.drop_earlier(&validate(old), new, old);
        found
            .0
            .retain(|cause| !strategy.validated_if_new().iter().any(|field| cause.field.starts_with(field)));
    }
    if is_main && strategy.validates_change_first() {
        strategy.validate_update(context, new, old, &mut causes);
    }
    // A new specification of a claim is refused in any case.
    if !(is_main && *resource == RESOURCE_CLAIMS && new["spec"] != old["spec"]) {
        causes.append(found);
    }
    if is_main && !strategy.validates_change_first() {
        strategy.validate_update(context, new, old, &mut causes);
    }
    strategy.validate_rules(new, Some(old), &mut causes, warnings);
    causes.refuse(resource, new)?;
    // As the admission plugin LimitRanger: an object that is being deleted may lose its finalizers.
    let is_ending = !old["metadata"]["deletionTimestamp"].is_null();
    if !is_ending
        && (subresource == "resize" || (subresource.is_empty() && *resource == PERSISTENT_VOLUME_CLAIMS))
    {
        limit_range::check(context, resource, new)?;
    }
    strategy.authorize_update(context, new, old)?;
    strategy.authorize(context, new)?;
    warnings.extend(strategy.update_warnings(context, new, old));
    if new["metadata"]["generation"] != old["metadata"]["generation"] {
        warnings.extend(template_warnings(resource, new));
    }
    Ok(())
}
