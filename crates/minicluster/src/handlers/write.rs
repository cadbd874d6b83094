//! Creating and changing objects.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::Value;

use super::admission::{self, Act};
use super::{answer_object, convert, fields, write_failed};
use crate::patch;
use crate::resource::Resource;
use crate::resource::strategy::{self, Context};
use crate::schema::{protobuf, type_of};
use crate::server::status::Status;
use crate::server::{ApiRequest, Query, Reply, Shared, Verb};
use crate::store::{Change, EventType, Object, Write, WriteError, key};
use crate::webhook::Operation;

/// How often a generated name is tried again if it is taken.
const NAME_ATTEMPTS: usize = 8;
/// How often a change is tried again on a newer version of the object.
const CHANGE_ATTEMPTS: usize = 64;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a server-side apply; what is sent may be JSON too, which is YAML.
const APPLY: &str = "application/apply-patch+yaml";
const PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    APPLY,
];

/// Whether the request is only to be tried.
///
/// # Errors
/// The parameter has another value than `All`.
pub fn is_dry_run(query: &Query) -> Result<bool, Box<Status>> {
    let mut dry_run = false;
    for value in query.all("dryRun") {
        if value != "All" {
            return Err(Status::bad_request(format!(
                "dryRun: Unsupported value: {value:?}: supported values: \"All\""
            )));
        }
        dry_run = true;
    }
    Ok(dry_run)
}

/// Reads an object that was sent as JSON, YAML or protobuf.
///
/// # Errors
/// The media type is another, or the text is malformed or not an object.
pub fn parse_object(headers: &HeaderMap, body: &Bytes) -> Result<Value, Box<Status>> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let value = match media_type.as_str() {
        "" | "application/json" => serde_json::from_slice(body).map_err(|error| {
            Status::bad_request(format!("the object provided is not valid JSON: {error}"))
        })?,
        "application/yaml" => parse_yaml(body)?,
        PROTOBUF => protobuf::decode(body).map_err(|error| {
            Status::bad_request(format!("the object provided is not valid protobuf: {error}"))
        })?,
        _ => return Err(unsupported_media_type(&["application/json", "application/yaml", PROTOBUF])),
    };
    match value {
        Value::Object(_) => Ok(value),
        _ => Err(Status::bad_request("the object provided is unrecognized: a JSON object is expected")),
    }
}

fn parse_yaml(body: &Bytes) -> Result<Value, Box<Status>> {
    let malformed = |error: &dyn std::fmt::Display| {
        Status::bad_request(format!("the object provided is not valid YAML: {error}"))
    };
    let text = std::str::from_utf8(body).map_err(|error| malformed(&error))?;
    let mut manifests =
        berth_api::read::collect_manifests(text, "body").map_err(|error| malformed(&error))?;
    match (manifests.pop(), manifests.is_empty()) {
        (Some(manifest), true) => Ok(manifest.value),
        _ => Err(malformed(&"exactly one object is expected")),
    }
}

/// What was sent is of a type that is not understood.
pub fn unsupported_media_type(accepted: &[&str]) -> Box<Status> {
    Status::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        ),
    )
}

/// Checks that an object is of the kind the path leads to, and fills in what the path says.
///
/// # Errors
/// Kind, namespace or name contradict the path.
pub fn agree_with_path(
    request: &ApiRequest,
    group: &str,
    version: &str,
    kind: &str,
    value: &mut Value,
) -> Result<(), Box<Status>> {
    let info = &request.info;
    let wanted = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    for (field, wanted) in [("apiVersion", wanted.as_str()), ("kind", kind)] {
        match &value[field] {
            Value::Null => value[field] = Value::from(wanted),
            Value::String(text) if text == wanted || text.is_empty() => value[field] = Value::from(wanted),
            other => {
                return Err(Status::bad_request(format!(
                    "the {field} in the data ({}) does not match the expected {field} ({wanted})",
                    other.as_str().map_or_else(|| other.to_string(), str::to_owned)
                )));
            }
        }
    }
    let metadata = &mut value["metadata"];
    if metadata.is_null() {
        *metadata = Value::Object(serde_json::Map::new());
    }
    let Some(metadata) = metadata.as_object_mut() else {
        return Err(Status::bad_request("metadata: Invalid value: an object is expected"));
    };
    for field in ["name", "namespace", "generateName", "uid", "resourceVersion"] {
        match metadata.get(field) {
            None | Some(Value::String(_)) => {}
            Some(Value::Null) => {
                metadata.remove(field);
            }
            Some(_) => {
                return Err(Status::bad_request(format!(
                    "metadata.{field}: Invalid value: a string is expected"
                )));
            }
        }
    }
    let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !info.resource.namespaced {
        metadata.remove("namespace");
    } else if namespace.is_empty() {
        metadata.insert("namespace".to_owned(), Value::from(info.namespace.as_str()));
    } else if namespace != info.namespace {
        return Err(Status::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request ({namespace} != {})",
            info.namespace
        )));
    }
    if !info.name.is_empty() {
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() {
            metadata.insert("name".to_owned(), Value::from(info.name.as_str()));
        } else if name != info.name {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                info.name
            )));
        }
    }
    Ok(())
}

/// Answers the creation of an object.
///
/// # Errors
/// The object is not valid, not allowed or there already.
pub async fn create(shared: &Arc<Shared>, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let info = &request.info;
    let resource = super::stored(info)?;
    let dry_run = is_dry_run(&request.query)?;
    let mut value = parse_object(&request.headers, &request.body)?;
    agree_with_path(request, info.resource.group, info.resource.version, info.resource.kind, &mut value)?;
    let mut warnings = Vec::new();
    fields::read(request, request.info.sent_kind(), &mut value, &mut warnings)?;
    let value = convert::stored_value(info.resource, value);
    let object = create_object(shared, request, resource, value, dry_run, &mut warnings).await?;
    Ok(answer_object(request, StatusCode::CREATED, &object)?.with_warnings(warnings))
}

/// Creates an object that was read, with all that belongs to it.
async fn create_object(
    shared: &Arc<Shared>,
    request: &ApiRequest,
    resource: &'static Resource,
    value: Value,
    dry_run: bool,
    warnings: &mut Vec<String>,
) -> Result<Arc<Object>, Box<Status>> {
    let metadata = &value["metadata"];
    if metadata["resourceVersion"].as_str().is_some_and(|version| !version.is_empty()) {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let prefix = metadata["generateName"].as_str().unwrap_or_default().to_owned();
    let generated = metadata["name"].as_str().unwrap_or_default().is_empty() && !prefix.is_empty();
    let mut attempts = if generated { NAME_ATTEMPTS } else { 1 };
    let told = warnings.len();
    loop {
        attempts -= 1;
        let mut value = value.clone();
        if generated {
            value["metadata"]["name"] = Value::from(strategy::generate_name(&prefix));
        }
        let context = Context { shared, user: &request.user };
        strategy::prepare_create(&context, resource, &mut value)?;
        // What was applied comes with its managers.
        if !is_apply(request) {
            fields::track(request, resource, None, &mut value)?;
        }
        warnings.truncate(told);
        let act = Act::create(dry_run);
        if admission::mutate(shared, request, act, Some(&mut value), warnings).await? {
            strategy::default_object(resource, &mut value);
        }
        strategy::admit_create(&context, resource, &mut value, warnings)?;
        admission::validate(shared, request, act, Some(&value), warnings).await?;
        let name = key(&value).1.to_owned();
        if dry_run {
            let (namespace, name) = key(&value);
            if shared.store.get(resource, namespace, name).is_some() {
                return Err(Status::already_exists(request.info.resource, name));
            }
            return Ok(Arc::new(tried(resource, value, None)));
        }
        match shared.store.write(Write { resource, change: Change::Create, value }).await {
            Ok(object) => {
                strategy::created(&context, resource, &object).await;
                return Ok(object);
            }
            Err(WriteError::AlreadyExists) if attempts > 0 => {}
            Err(error) => return Err(write_failed(request.info.resource, &name, error)),
        }
    }
}

/// An object as a request that is only tried answers it: not stored, with the version it has or none.
pub fn tried(resource: &Resource, mut value: Value, current: Option<&Object>) -> Object {
    let revision = current.map_or(0, |object| object.revision);
    let object = Object::encode(resource, value.clone(), revision, EventType::Modified);
    if current.is_some() {
        return object;
    }
    // A created object that is not stored has no version at all.
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    Object::decode(resource, value.to_string().as_bytes(), 0, EventType::Modified).unwrap_or(object)
}

/// Answers an update or a patch, of an object or of a part with a path of its own.
///
/// # Errors
/// The change is not valid, not allowed, or based on a version that is no longer there.
pub async fn change(shared: &Arc<Shared>, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    if is_apply(request) {
        return apply(shared, request).await;
    }
    let info = &request.info;
    let dry_run = is_dry_run(&request.query)?;
    let mut warnings = Vec::new();
    let sent = match info.verb {
        Verb::Update => {
            let mut value = parse_object(&request.headers, &request.body)?;
            agree_with_path(
                request,
                info.resource.group,
                info.resource.version,
                info.resource.kind,
                &mut value,
            )?;
            fields::read(request, info.sent_kind(), &mut value, &mut warnings)?;
            Some(convert::stored_value(info.resource, value))
        }
        _ => None,
    };
    let object = change_object(shared, request, dry_run, &mut warnings, |current, warnings| match &sent {
        Some(value) => Ok(value.clone()),
        None => patched(request, current, warnings),
    })
    .await?;
    Ok(answer_object(request, StatusCode::OK, &object)?.with_warnings(warnings))
}

/// The media type of the body, without parameters.
fn media_type(request: &ApiRequest) -> &str {
    let value = request.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// Whether the request is a server-side apply.
fn is_apply(request: &ApiRequest) -> bool {
    request.info.verb == Verb::Patch && media_type(request) == APPLY
}

/// Answers a server-side apply: the object is changed, or created if it is not there.
///
/// # Errors
/// What was sent cannot be applied, others manage what it changes, or the result is not valid or allowed.
async fn apply(shared: &Arc<Shared>, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let info = &request.info;
    let resource = super::stored(info)?;
    let dry_run = is_dry_run(&request.query)?;
    let Value::Object(sent) = parse_yaml(&request.body)? else {
        return Err(Status::bad_request("the object provided is unrecognized: an object is expected"));
    };
    let mut sent = Value::Object(sent);
    agree_with_path(request, info.resource.group, info.resource.version, info.resource.kind, &mut sent)?;
    let sent = convert::stored_value(info.resource, sent);
    let mut warnings = Vec::new();
    if info.subresource.is_none() && super::find(shared, info).is_err() {
        if sent["metadata"]["uid"].is_string() {
            return Err(Status::conflict(
                info.resource,
                &info.name,
                "uid mismatch: the provided object specified a uid, and no existing object was found",
            ));
        }
        let value = fields::applied(request, resource, None, sent.clone())?;
        match create_object(shared, request, resource, value, dry_run, &mut warnings).await {
            Ok(object) => {
                return Ok(answer_object(request, StatusCode::CREATED, &object)?.with_warnings(warnings));
            }
            // Somebody else was faster: theirs is applied to.
            Err(status) if status.reason == "AlreadyExists" => warnings.clear(),
            Err(status) => return Err(status),
        }
    }
    let object = change_object(shared, request, dry_run, &mut warnings, |current, _| {
        fields::applied(request, resource, Some(current), sent.clone())
    })
    .await?;
    Ok(answer_object(request, StatusCode::OK, &object)?.with_warnings(warnings))
}

/// Changes an object: reads it, transforms it, writes it back, and does so again if it changed in between and
/// the client named no version.
///
/// # Errors
/// The transformation fails, or its result is not valid, not allowed, or based on a version that is no longer
/// there.
pub async fn change_object(
    shared: &Arc<Shared>,
    request: &ApiRequest,
    dry_run: bool,
    warnings: &mut Vec<String>,
    transform: impl Fn(&Value, &mut Vec<String>) -> Result<Value, Box<Status>>,
) -> Result<Arc<Object>, Box<Status>> {
    let info = &request.info;
    let resource = super::stored(info)?;
    let told = warnings.len();
    for _ in 0..CHANGE_ATTEMPTS {
        let current = super::find(shared, info)?;
        let old = current.value();
        warnings.truncate(told);
        let mut new = transform(&old, warnings)?;
        let named_version = check_identity(request, &current, &old, &new)?;
        let context = Context { shared, user: &request.user };
        strategy::prepare_update(&context, resource, info.subresource_name(), &mut new, &old)?;
        if !is_apply(request) {
            fields::track(request, resource, Some(&old), &mut new)?;
        }
        let act = Act { operation: Operation::Update, old: Some(&old), dry_run };
        if admission::mutate(shared, request, act, Some(&mut new), warnings).await? {
            strategy::prepare_update(&context, resource, info.subresource_name(), &mut new, &old)?;
        }
        strategy::admit_update(&context, resource, info.subresource_name(), &new, &old)?;
        admission::validate(shared, request, act, Some(&new), warnings).await?;
        if new == old {
            return Ok(current);
        }
        let change = if strategy::is_finished(resource, &new) {
            Change::Delete { expected: current.revision }
        } else {
            Change::Update { expected: current.revision }
        };
        if dry_run {
            return Ok(Arc::new(tried(resource, new, Some(&current))));
        }
        match shared.store.write(Write { resource, change, value: new }).await {
            Ok(object) => return Ok(object),
            Err(WriteError::Modified) if !named_version => {}
            Err(error) => return Err(write_failed(info.resource, &info.name, error)),
        }
    }
    Err(Status::modified(info.resource, &info.name))
}

/// Whether the change is of the very object and version that are there; answers whether a version was named.
fn check_identity(
    request: &ApiRequest,
    current: &Object,
    old: &Value,
    new: &Value,
) -> Result<bool, Box<Status>> {
    let info = &request.info;
    let text = |value: &Value, field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (uid, sent_uid) = (text(old, "uid"), text(new, "uid"));
    if !sent_uid.is_empty() && sent_uid != uid {
        return Err(Status::conflict(
            info.resource,
            &info.name,
            &format!("Precondition failed: UID in precondition: {sent_uid}, UID in object meta: {uid}"),
        ));
    }
    let version = text(new, "resourceVersion");
    match info.verb {
        _ if version.is_empty() || version == "0" => Ok(false),
        Verb::Update if version != current.revision.to_string() => {
            Err(Status::modified(info.resource, &info.name))
        }
        // A patch that says nothing of a version leaves the current one in place.
        Verb::Patch if version == current.revision.to_string() => Ok(false),
        Verb::Patch => Err(Status::modified(info.resource, &info.name)),
        _ => Ok(true),
    }
}

/// The object after the patch that was sent.
///
/// # Errors
/// The media type is unknown, or the patch cannot be applied.
pub fn patched(
    request: &ApiRequest,
    current: &Value,
    warnings: &mut Vec<String>,
) -> Result<Value, Box<Status>> {
    let resource = request.info.resource;
    let (group, version, kind) = request.info.sent_kind();
    let parse = || -> Result<Value, Box<Status>> {
        serde_json::from_slice(&request.body)
            .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))
    };
    // Patches are written in the form the resource shows.
    let shown = convert::shown_value(resource, current.clone());
    let patched = match media_type(request) {
        "application/json-patch+json" => patch::json::apply(&shown, &parse()?),
        "application/merge-patch+json" => patch::merge::apply(&shown, &parse()?),
        "application/strategic-merge-patch+json" => match type_of(group, version, kind) {
            Some(ty) => patch::strategic::apply(ty, &shown, &parse()?),
            None => patch::merge::apply(&shown, &parse()?),
        },
        _ => return Err(unsupported_media_type(PATCH_TYPES)),
    };
    let mut value = patched.map_err(|error| fields::patch_failed(&error))?;
    fields::read(request, request.info.sent_kind(), &mut value, warnings)?;
    Ok(convert::stored_value(resource, value))
}
