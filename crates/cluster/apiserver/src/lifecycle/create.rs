//! The rules for new objects.

use berth_rules::admission::Operation;
use berth_schema::resource::{NAMESPACES, Resource};
use serde_json::{Value, json};

use super::{limit_range, node_restriction};
use crate::kinds;
use crate::request::{ApiResult, CauseType, Status};
use crate::store::{Claim, key};
use crate::strategy::fields::Causes;
use crate::strategy::gated_fields::drop_gated;
use crate::strategy::{Context, metadata};

/// Sets system fields and the defaults of the kind in a new object; once more after a webhook has changed it, which sets none of
/// the fields that a client may not set, such as the status.
pub(super) fn prepare(context: &Context<'_>, resource: &Resource, value: &mut Value) -> ApiResult {
    let strategy = kinds::strategy(resource);
    let system_fields = (
        kinds::kind(resource).is_some_and(|kind| kind.is_created_with_status),
        kinds::has_generation(resource),
    );
    metadata::prepare_create(resource, system_fields, value)?;
    drop_gated(context.feature_gates, resource, value, None);
    strategy.default(value);
    limit_range::set_defaults(context, resource, value);
    strategy.prepare_create(context, value);
    complete(resource, value);
    Ok(())
}

/// Adds the fields that kube-apiserver writes even if they are empty.
pub(super) fn complete(resource: &Resource, value: &mut Value) {
    if let Some(ty) = resource.ty() {
        berth_schema::complete(&ty, value);
    }
}

/// Sets the defaults of the kind in an object.
pub fn default_object(resource: &Resource, value: &mut Value) {
    kinds::strategy(resource).default(value);
}

/// Completes an object that a user wrote and that is imported, as if it were created. What the user wrote of its status stays, and the
/// beginning of its deletion. If it is not valid, it only gets defaults.
pub fn complete_written(context: &Context<'_>, resource: &Resource, value: &mut Value) {
    let mut created = value.clone();
    let context = &Context { taints_new_nodes: false, ..*context };
    if prepare(context, resource, &mut created).is_err() {
        return;
    }
    let mut admitted = created.clone();
    let strategy = kinds::strategy(resource);
    if strategy.admit_create(context, resource, &mut admitted, &mut Vec::new()).is_ok() {
        created = admitted;
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        if let Some(written) = value["metadata"].get(field) {
            created["metadata"][field] = written.clone();
        }
    }
    if let Some(written) = value["status"].as_object() {
        let status = &mut created["status"];
        if !status.is_object() {
            *status = json!({});
        }
        written.iter().for_each(|(field, written)| status[field] = written.clone());
    }
    *value = created;
}

/// Refuses a new object, or completes what admission decides about it.
pub(super) fn admit(
    context: &Context<'_>,
    resource: &Resource,
    value: &mut Value,
    warnings: &mut Vec<String>,
) -> ApiResult {
    check_namespace(context, resource, value)?;
    node_restriction::admit(context, resource, Operation::Create, value, &Value::Null)?;
    kinds::strategy(resource).admit_create(context, resource, value, warnings)?;
    warnings.extend(template_warnings(resource, value));
    limit_range::check(context, resource, value)
}

/// The warnings about the pods of an object's template.
pub(super) fn template_warnings(resource: &Resource, value: &Value) -> Vec<String> {
    if resource.custom.is_some() { Vec::new() } else { kinds::template_warnings(resource.kind, value) }
}

/// Checks that the object's namespace exists and is not terminating.
fn check_namespace(context: &Context<'_>, resource: &Resource, value: &Value) -> ApiResult {
    if !resource.namespaced {
        return Ok(());
    }
    let (namespace, name) = key(value);
    let namespaces = &NAMESPACES;
    let Some(found) = context.lookup.get(namespaces, "", namespace) else {
        return Err(Status::not_found(namespaces, namespace));
    };
    if found.facts.field(0) == Some("Terminating") {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let (field, message) = ("metadata.namespace", format!("namespace {namespace} is being terminated"));
        let status = Status::forbidden(resource, name, &why);
        return Err(status.with_cause(CauseType::NamespaceTerminating, field, message));
    }
    Ok(())
}

/// The objects that exist with every object of a resource and a name, such as the service account of a namespace.
pub fn dependents(resource: &Resource, name: &str) -> Vec<Value> {
    kinds::strategy(resource).dependents(name)
}

/// Refuses a value of an object that another object has. Values that the object does not ask for are allocated, and can be
/// allocated again.
pub fn refuse_claimed(resource: &Resource, value: &Value, claim: &Claim) -> ApiResult {
    let mut causes = Causes::default();
    kinds::strategy(resource).validate_claim(value, claim, &mut causes);
    causes.refuse(resource, value)
}
