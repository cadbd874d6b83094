//! What a request makes of an object: the content of its body, and the object that the content makes of the stored one.

use berth_rules::admission::shortened;
use berth_schema::patch::apply::{ApplyError, apply};
use berth_schema::patch::managed::{Actor, track_update};
use berth_schema::patch::{self, go_text};
use berth_schema::resource::{CERTIFICATE_SIGNING_REQUESTS, Resource};
use berth_schema::type_of;
use serde_json::Value;

use super::convert;
use super::decode::{self, APPLY, FieldsError, check_fields, check_name, is_apply, media_type, patch_failed};
use super::options::{WriteOptions, delete_options};
use super::strict_json::{self, Parsed};
use crate::request::{ApiRequest, ApiResult, Cause, CauseType, DeleteOptions, Reason, Status, Verb};
use crate::strategy;

const CUSTOM_PATCH_TYPES: &[&str] = &["application/json-patch+json", "application/merge-patch+json", APPLY];

pub enum Content {
    /// The whole object or subresource.
    Sent(Value),
    Patch(PatchType, Parsed),
    /// The part that its manager wants, for a server-side apply.
    Applied(Value),
    Deletion(DeleteOptions),
}

#[derive(Clone, Copy)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
}

impl Content {
    /// Reads the body of a request, and the options of a deletion.
    pub fn read(
        request: &ApiRequest,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> ApiResult<Content> {
        match request.info.verb {
            Verb::Delete | Verb::DeleteCollection => delete_options(request).map(Content::Deletion),
            Verb::Patch if is_apply(request) => decode::applied_object(request).map(Content::Applied),
            Verb::Patch => {
                let patch_type = patch_type(request)?;
                let parsed = strict_json::parse(&request.body)
                    .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
                Ok(Content::Patch(patch_type, parsed))
            }
            _ => decode::object(request, options.validation, warnings).map(Content::Sent),
        }
    }
}

fn patch_type(request: &ApiRequest) -> ApiResult<PatchType> {
    let is_custom = request.info.resource.custom.is_some();
    match media_type(request) {
        "application/json-patch+json" => Ok(PatchType::Json),
        "application/merge-patch+json" => Ok(PatchType::Merge),
        "application/strategic-merge-patch+json" if !is_custom => Ok(PatchType::Strategic),
        _ if is_custom => Err(decode::unsupported_media_type(CUSTOM_PATCH_TYPES)),
        _ => Err(Status::of_router(Reason::UnsupportedMediaType, "415: Unsupported Media Type")),
    }
}

/// Applies a patch to an object or subresource, in the form in which the resource shows it.
pub fn patched(
    request: &ApiRequest,
    options: &WriteOptions,
    (patch_type, Parsed { value: patch, duplicates }): (PatchType, &Parsed),
    shown: &Value,
    warnings: &mut Vec<String>,
) -> ApiResult<Value> {
    let (group, version, kind) = request.info.sent_kind();
    let apply = || match (patch_type, type_of(group, version, kind)) {
        (PatchType::Json, _) => patch::json::apply(shown, patch),
        (PatchType::Strategic, Some(ty)) => patch::strategic::apply(ty, shown, patch),
        (PatchType::Merge | PatchType::Strategic, _) => patch::merge::apply(shown, patch),
    };
    let mut value = apply().map_err(|error| patch_failed(&error))?;
    check_fields(request, options.validation, &mut value, duplicates, warnings).map_err(|error| {
        // It names no object, and shows what could not be read.
        let (shown, why) = match (patch_type, error) {
            (PatchType::Strategic, FieldsError::Value(error)) => (go_text(patch), error.of_converter()),
            (PatchType::Strategic, error) => (go_text(patch), error.to_string()),
            (_, error) => (apply().unwrap_or_default().to_string(), error.to_string()),
        };
        let cause = Cause::invalid("patch", Value::from(shortened(shown)), &why);
        Status::invalid_kind("", "", "", vec![cause])
    })?;
    check_name(request, &value["metadata"])?;
    Ok(value)
}

/// Top-level fields that a request does not change.
fn ignored(resource: &Resource, subresource: &str) -> &'static [&'static str] {
    match subresource {
        "status" | "approval" => &["spec"],
        // What is requested stays.
        "" if *resource == CERTIFICATE_SIGNING_REQUESTS => &["spec", "status"],
        _ if resource.has_status() => &["status"],
        _ => &[],
    }
}

fn as_actor<T>(
    resource: &Resource,
    subresource: &str,
    manager: &str,
    change: impl FnOnce(&Actor<'_>) -> T,
) -> T {
    change(&Actor {
        manager,
        api_version: &resource.api_version(),
        subresource,
        now: &strategy::now(),
        ignored: ignored(resource, subresource),
    })
}

/// Updates the managed fields of an object before it is stored. `before` is the stored object, `None` for a creation.
pub fn track(
    resource: &Resource,
    subresource: &str,
    options: &WriteOptions,
    before: Option<&Value>,
    after: &mut Value,
) {
    if let Some(ty) = resource.ty() {
        as_actor(resource, subresource, &options.manager, |actor| track_update(&ty, before, after, actor));
    }
}

/// The object after a server-side apply; `current` is the stored object, `None` if there is none.
pub fn applied(
    resource: &Resource,
    subresource: &str,
    options: &WriteOptions,
    current: Option<&Value>,
    sent: Value,
) -> ApiResult<Value> {
    let WriteOptions { manager, force, .. } = options;
    let Some(ty) = resource.ty() else { return Err(Status::method_not_allowed()) };
    let applied = as_actor(resource, subresource, manager, |actor| apply(&ty, current, sent, actor, *force));
    applied.map_err(|error| match error {
        ApplyError::Patch(error) => patch_failed(&error),
        ApplyError::Conflicts(conflicts) => {
            let causes = conflicts.iter().map(|conflict| {
                Cause::new(CauseType::FieldManagerConflict, &conflict.field, conflict.message())
            });
            let causes = causes.collect();
            let mut status = Status::new(Reason::Conflict, ApplyError::Conflicts(conflicts).to_string());
            status.details.causes = causes;
            status
        }
    })
}

/// A patch in the stored form of its resource.
pub fn patched_object(
    request: &ApiRequest,
    options: &WriteOptions,
    patch: (PatchType, &Parsed),
    old: &Value,
    warnings: &mut Vec<String>,
) -> ApiResult<Value> {
    let resource = request.info.resource;
    let shown = convert::shown_value(resource, old.clone());
    patched(request, options, patch, &shown, warnings).map(|value| convert::stored_value(resource, value))
}
