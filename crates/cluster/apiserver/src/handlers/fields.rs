//! Field validation and field management of a request: whether it may have unknown fields, and who manages
//! those it sets.

use berth_schema::patch::PatchError;
use berth_schema::patch::apply::{ApplyError, apply};
use berth_schema::patch::managed::{Actor, manager_name, track_update};
use berth_schema::resource::{Custom, Resource};
use berth_schema::{DecodeError, Type, decode, prune, type_of};
use http::{StatusCode, header};
use serde_json::Value;

use crate::request::{ApiRequest, Cause, Status, Verb};
use crate::strategy::{self, metadata};

/// The request's `fieldValidation`. Unknown fields are dropped in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Validation {
    Ignore,
    Warn,
    Strict,
}

fn validation(request: &ApiRequest) -> Result<Validation, Box<Status>> {
    match request.query.get("fieldValidation") {
        "Ignore" => Ok(Validation::Ignore),
        "" | "Warn" => Ok(Validation::Warn),
        "Strict" => Ok(Validation::Strict),
        other => Err(invalid_option(
            request,
            "fieldValidation",
            "FieldValueNotSupported",
            format!("Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""),
        )),
    }
}

fn invalid_option(request: &ApiRequest, field: &str, reason: &str, message: String) -> Box<Status> {
    let kind = match request.info.verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        _ => "PatchOptions",
    };
    let cause = Cause { reason: reason.to_owned(), message, field: field.to_owned() };
    Status::invalid_kind("meta.k8s.io", kind, "", vec![cause])
}

/// Reads a request body or the result of a patch as an object of a kind. Unknown fields are
/// dropped; `fieldValidation` decides whether unknown and duplicate fields are errors or warnings. A kind
/// without a type is left as it is.
///
/// # Errors
/// A value has the wrong type, or `fieldValidation` refuses unknown fields.
pub fn read(
    request: &ApiRequest,
    (group, version, kind): (&str, &str, &str),
    value: &mut Value,
    duplicates: &[String],
    warnings: &mut Vec<String>,
) -> Result<(), Box<Status>> {
    let validation = validation(request)?;
    let custom = request.info.resource.custom.filter(|_| request.info.resource.kind == kind);
    let schema = custom.map(Custom::schema);
    let Some(ty) = schema.as_ref().map(|schema| &schema.ty).or_else(|| type_of(group, version, kind)) else {
        return Ok(());
    };
    let cannot = |why: &str| {
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    };
    let unknown = match custom {
        Some(_) => decode_metadata(ty, value).map(|()| prune(ty, value)),
        None => decode(ty, value),
    };
    let unknown = unknown.map_err(|error| cannot(&error.to_string()))?;
    let repeated = metadata::drop_repeated_owners(value);
    if unknown.is_empty() && duplicates.is_empty() && repeated.is_none() {
        return Ok(());
    }
    let twice = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
    let problems = twice.chain(unknown.iter().map(|path| format!("unknown field {path:?}")));
    match validation {
        Validation::Ignore => {}
        Validation::Warn => warnings.extend(problems),
        Validation::Strict => {
            let all: Vec<String> = problems.collect();
            if !all.is_empty() {
                return Err(cannot(&format!("strict decoding error: {}", all.join(", "))));
            }
        }
    }
    warnings.extend(repeated);
    Ok(())
}

/// Reads the metadata of a custom resource; validation compares the rest with its schema.
fn decode_metadata(ty: &Type, value: &mut Value) -> Result<(), DecodeError> {
    match (ty.child("metadata"), value.get_mut("metadata")) {
        (Some(ty), Some(metadata)) => decode(ty, metadata).map(drop),
        _ => Ok(()),
    }
}

fn manager(request: &ApiRequest) -> Result<String, Box<Status>> {
    let agent = request.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
    manager_name(request.query.get("fieldManager"), agent.unwrap_or_default())
        .map_err(|why| invalid_option(request, "fieldManager", "FieldValueInvalid", why))
}

/// Top-level fields that a request does not change.
fn ignored(resource: &Resource, subresource: &str) -> &'static [&'static str] {
    match subresource {
        "status" | "approval" => &["spec"],
        _ if resource.has_status() => &["status"],
        _ => &[],
    }
}

/// Changes an object as the manager of a request does now.
fn as_actor<T>(
    request: &ApiRequest,
    resource: &Resource,
    manager: &str,
    change: impl FnOnce(&Actor<'_>) -> T,
) -> T {
    let subresource = request.info.subresource_name();
    change(&Actor {
        manager,
        api_version: &resource.api_version(),
        subresource,
        now: &strategy::now(),
        ignored: ignored(resource, subresource),
    })
}

/// Updates the managed fields of an object before it is stored. `before` is the stored object, `None`
/// for a creation.
///
/// # Errors
/// The name of the manager is invalid.
pub fn track(
    request: &ApiRequest,
    resource: &Resource,
    before: Option<&Value>,
    after: &mut Value,
) -> Result<(), Box<Status>> {
    let manager = manager(request)?;
    if let Some(ty) = resource.ty() {
        as_actor(request, resource, &manager, |actor| track_update(&ty, before, after, actor));
    }
    Ok(())
}

/// The object after a server-side apply; `current` is the stored object, `None` if there is none.
///
/// # Errors
/// The request names no manager, the body cannot be applied, or it conflicts with other managers.
pub fn applied(
    request: &ApiRequest,
    resource: &Resource,
    current: Option<&Value>,
    sent: Value,
) -> Result<Value, Box<Status>> {
    if request.query.get("fieldManager").is_empty() {
        let required = "Required value: is required for apply patch".to_owned();
        return Err(invalid_option(request, "fieldManager", "FieldValueRequired", required));
    }
    let manager = manager(request)?;
    let force = request.query.flag("force").unwrap_or(false);
    let Some(ty) = resource.ty() else { return Err(Status::method_not_allowed()) };
    let applied = as_actor(request, resource, &manager, |actor| apply(&ty, current, sent, actor, force));
    applied.map_err(|error| match error {
        ApplyError::Patch(error) => patch_failed(&error),
        ApplyError::Conflicts(conflicts) => {
            let causes = conflicts.iter().map(|conflict| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: conflict.message(),
                field: conflict.field.clone(),
            });
            let causes = causes.collect();
            let message = ApplyError::Conflicts(conflicts).to_string();
            let mut status = Status::new(StatusCode::CONFLICT, "Conflict", message);
            status.details.causes = causes;
            status
        }
    })
}

/// Converts a patch error into the client's status.
pub fn patch_failed(error: &PatchError) -> Box<Status> {
    let (code, reason) = match error {
        PatchError::Malformed(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
        PatchError::Unprocessable(_) => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
        PatchError::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
    };
    let mut status = Status::new(code, reason, error.to_string());
    status.details.is_shown = code == StatusCode::UNPROCESSABLE_ENTITY;
    status
}
