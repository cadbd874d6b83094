//! Request bodies: parses objects and patches, and checks them against the path.

use berth_rules::admission::shortened;
use berth_schema::patch;
use berth_schema::protobuf::{self, ProtobufError};
use berth_schema::type_of;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::Value;

use super::strict_json::{self, Parsed};
use super::{convert, fields};
use crate::request::{ApiRequest, Query, Status, Verb};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a server-side apply. The body may be JSON, which is valid YAML.
const APPLY: &str = "application/apply-patch+yaml";
/// Limit of the bytes that YAML aliases of a body repeat.
const MAX_ALIASED_BYTES: usize = 64 << 10;
const PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    APPLY,
];

/// Whether the request is a dry run; `options` is the kind of its options.
///
/// # Errors
/// The parameter has another value than `All`.
pub fn is_dry_run(query: &Query, options: &str) -> Result<bool, Box<Status>> {
    let mut dry_run = false;
    for value in query.all("dryRun") {
        if value != "All" {
            let values = Value::from(query.all("dryRun").collect::<Vec<_>>());
            let why = format!("Unsupported value: {values}: supported values: \"All\"");
            return Err(Status::invalid_options(options, &[("FieldValueNotSupported", "dryRun", why)]));
        }
        dry_run = true;
    }
    Ok(dry_run)
}

/// Reads an object from a JSON, YAML or protobuf body.
///
/// # Errors
/// The media type is another, or the text is malformed or not an object.
pub fn parse_object(headers: &HeaderMap, body: &Bytes) -> Result<Value, Box<Status>> {
    parse_strictly(headers, body).map(|parsed| parsed.value)
}

/// The same, with the duplicate fields of a JSON text.
///
/// # Errors
/// The media type is another, or the text is malformed or not an object.
pub fn parse_strictly(headers: &HeaderMap, body: &Bytes) -> Result<Parsed, Box<Status>> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let plain = |value: Value| Parsed { value, duplicates: Vec::new() };
    let parsed = match media_type.as_str() {
        "" | "application/json" => strict_json::parse(body).map_err(|error| {
            Status::bad_request(format!("the object provided is not valid JSON: {error}"))
        })?,
        "application/yaml" => plain(parse_yaml(body)?),
        PROTOBUF => plain(protobuf::decode(body).map_err(|error| match error {
            ProtobufError::UnknownKind { .. } => {
                unsupported_media_type(&["application/json", "application/yaml"])
            }
            _ => Status::bad_request(format!("the object provided is not valid protobuf: {error}")),
        })?),
        _ => return Err(unsupported_media_type(&["application/json", "application/yaml", PROTOBUF])),
    };
    match parsed.value {
        Value::Object(_) => Ok(parsed),
        _ => Err(Status::bad_request("the object provided is unrecognized: a JSON object is expected")),
    }
}

/// Reads the body of a server-side apply: YAML, which includes JSON.
///
/// # Errors
/// The text is malformed, or has not exactly one object.
pub fn parse_applied(body: &Bytes) -> Result<Value, Box<Status>> {
    match parse_yaml(body)? {
        value @ Value::Object(_) => Ok(value),
        _ => Err(Status::bad_request("the object provided is unrecognized: an object is expected")),
    }
}

fn parse_yaml(body: &Bytes) -> Result<Value, Box<Status>> {
    let malformed = |error: &dyn std::fmt::Display| {
        Status::bad_request(format!("the object provided is not valid YAML: {error}"))
    };
    let text = std::str::from_utf8(body).map_err(|error| malformed(&error))?;
    let manifests = berth_api::read::collect_manifests_within(text, "body", MAX_ALIASED_BYTES);
    let mut manifests = manifests.map_err(|error| malformed(&error))?;
    match (manifests.pop(), manifests.is_empty()) {
        (Some(manifest), true) => Ok(manifest.value),
        _ => Err(malformed(&"exactly one object is expected")),
    }
}

/// The media type of the body is not supported.
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

/// Checks that the body of a subresource names the object of the path.
///
/// # Errors
/// It names none or another.
pub fn names_object(request: &ApiRequest, kind: &str, value: &Value) -> Result<(), Box<Status>> {
    if value["metadata"]["name"].as_str().unwrap_or_default() == request.info.name {
        return Ok(());
    }
    Err(Status::bad_request(format!("name in URL does not match name in {kind} object")))
}

/// Checks that an object has the kind of the path's resource, and fills in fields from the path.
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
        if name.is_empty() && info.verb == Verb::Update {
            let url = &info.name;
            return Err(Status::bad_request(format!(
                "the name of the object ({url} based on URL) was undeterminable: name must be provided"
            )));
        }
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

/// The media type of the body, without parameters; empty without one.
pub fn media_type(request: &ApiRequest) -> &str {
    let value = request.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// Whether the request is a server-side apply.
pub fn is_apply(request: &ApiRequest) -> bool {
    request.info.verb == Verb::Patch && media_type(request) == APPLY
}

/// Checks that a patch leaves name and namespace as they are.
fn check_name(request: &ApiRequest, metadata: &Value) -> Result<(), Box<Status>> {
    let info = &request.info;
    let refuse = |why: String| Err(Status::bad_request(why));
    match metadata["name"].as_str() {
        Some(name) if name == info.name => {}
        Some(name) if !name.is_empty() => {
            let (url, name) = (&info.name, shortened(name.to_owned()));
            return refuse(format!(
                "the name of the object ({name}) does not match the name on the URL ({url})"
            ));
        }
        _ => {
            let url = &info.name;
            let why = "name must be provided";
            return refuse(format!("the name of the object ({url} based on URL) was undeterminable: {why}"));
        }
    }
    match metadata["namespace"].as_str() {
        Some(namespace) if !namespace.is_empty() && namespace != info.namespace => {
            let (requested, namespace) = (&info.namespace, shortened(namespace.to_owned()));
            refuse(format!(
                "the namespace of the object ({namespace}) does not match the namespace on the request ({requested})"
            ))
        }
        _ => Ok(()),
    }
}

/// Applies the request's patch to the object.
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
    let mut duplicates = Vec::new();
    let mut parse = || -> Result<Value, Box<Status>> {
        let parsed = strict_json::parse(&request.body)
            .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        duplicates = parsed.duplicates;
        Ok(parsed.value)
    };
    // Patches are written in the form the resource shows.
    let shown = convert::shown_value(resource, current.clone());
    let patched = match media_type(request) {
        "application/json-patch+json" => patch::json::apply(&shown, &parse()?),
        "application/merge-patch+json" => patch::merge::apply(&shown, &parse()?),
        "application/strategic-merge-patch+json" if resource.custom.is_some() => {
            return Err(unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                APPLY,
            ]));
        }
        "application/strategic-merge-patch+json" => match type_of(group, version, kind) {
            Some(ty) => patch::strategic::apply(ty, &shown, &parse()?),
            None => patch::merge::apply(&shown, &parse()?),
        },
        _ => return Err(unsupported_media_type(PATCH_TYPES)),
    };
    let mut value = patched.map_err(|error| fields::patch_failed(&error))?;
    check_name(request, &value["metadata"])?;
    fields::read(request, request.info.sent_kind(), &mut value, &duplicates, warnings)?;
    Ok(convert::stored_value(resource, value))
}
