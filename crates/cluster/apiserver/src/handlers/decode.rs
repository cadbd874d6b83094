//! The body of a request as an object: its media type, its agreement with the path, and its unknown fields.

use berth_rules::admission::shortened;
use berth_schema::patch::{self, PatchError};
use berth_schema::protobuf::{self, ProtobufError};
use berth_schema::resource::Custom;
use berth_schema::{DecodeError, Type, decode, prune, type_of};
use bytes::Bytes;
use http::header;
use serde_json::Value;

use super::convert;
use super::strict_json::{self, Parsed};
use crate::request::{ApiRequest, ApiResult, Cause, Reason, Status, Verb, note_conversion};
use crate::strategy::{fields, metadata};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a server-side apply. The body may be JSON, which is valid YAML.
pub const APPLY: &str = "application/apply-patch+yaml";
/// Limit of the bytes that YAML aliases of a body repeat.
const MAX_ALIASED_BYTES: usize = 64 << 10;
const NO_VERSION: &str = "couldn't get version/kind; json parse error: ";

/// Whether unknown and duplicate fields are errors or warnings. Unknown ones are dropped in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The object that a request sends, in its stored form; of a subresource, the subresource.
pub fn object(
    request: &ApiRequest,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> ApiResult<Value> {
    let info = &request.info;
    let (_, _, kind) = info.sent_kind();
    let Parsed { mut value, duplicates } = parse_object(request, kind)?;
    if matches!(info.subresource_name(), "binding" | "eviction") && metadata::name(&value) != info.name {
        return Err(Status::bad_request(format!("name in URL does not match name in {kind} object")));
    }
    agree_with_path(request, &mut value)?;
    check_fields(request, validation, &mut value, &duplicates, warnings)
        .map_err(|error| cannot_be_handled(kind, info.sent_kind().1, &error.to_string()))?;
    Ok(if kind == info.resource.kind { convert::stored_value(info.resource, value) } else { value })
}

/// The object of a server-side apply, in its stored form: only what it applies.
pub fn applied_object(request: &ApiRequest) -> ApiResult<Value> {
    let mut sent = parse_applied(&request.body)?;
    let info = &request.info;
    let (group, version, kind) = info.sent_kind();
    let custom = info.resource.ty().filter(|_| info.resource.custom.is_some());
    if let Some(ty) = custom.as_deref().or_else(|| type_of(group, version, kind)) {
        patch::apply::check(ty, &sent).map_err(|error| patch_failed(&error))?;
    }
    agree_with_path(request, &mut sent)?;
    Ok(if info.sent_kind().2 == info.resource.kind {
        convert::stored_value(info.resource, sent)
    } else {
        sent
    })
}

/// Reads an object from a JSON, YAML or protobuf body.
///
/// # Errors
/// The media type is another, or the text is malformed or not an object.
pub fn parse_object(request: &ApiRequest, kind: &str) -> ApiResult<Parsed> {
    note_conversion();
    let body = &request.body;
    let plain = |value: Value| Parsed { value, duplicates: Vec::new() };
    let parsed = match media_type(request).to_ascii_lowercase().as_str() {
        "" | "application/json" => strict_json::parse(body).map_err(|error| {
            let why =
                if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
            unrecognized(kind, &format!("{NO_VERSION}{why}"), body)
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
    if parsed.value.is_object() {
        return Ok(parsed);
    }
    let why = format!(
        "{NO_VERSION}json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        berth_schema::json_type(&parsed.value)
    );
    Err(unrecognized(kind, &why, body))
}

pub fn patch_failed(error: &PatchError) -> Box<Status> {
    let reason = match error {
        PatchError::Malformed(_) => Reason::BadRequest,
        PatchError::Unprocessable(_) => Reason::Invalid,
        PatchError::Untyped(_) => Reason::Unnamed,
        PatchError::TooLarge(_) => Reason::RequestEntityTooLarge,
    };
    let mut status = Status::new(reason, error.to_string());
    status.details.is_shown = reason == Reason::Invalid;
    status
}

/// The body is no object of a kind. What does not look like one is shown as bytes, as kube-apiserver does.
fn unrecognized(kind: &str, why: &str, body: &[u8]) -> Box<Status> {
    const SHOWN: usize = 30;
    let part = &body[..body.len().min(SHOWN)];
    let more = if body.len() > SHOWN { " ..." } else { "" };
    let shown = match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(part).into_owned(),
        Some(_) => part.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({shown}{more})"
    ))
}

/// Reads the body of a server-side apply: YAML, which includes JSON.
///
/// # Errors
/// The text is malformed, or has not exactly one object.
fn parse_applied(body: &Bytes) -> ApiResult<Value> {
    let json = serde_json::from_slice::<Value>(body).ok().filter(Value::is_object);
    if let Some(sent) =
        json.as_ref().filter(|sent| !sent["kind"].is_string() || !sent["apiVersion"].is_string())
    {
        return Err(no_object_type(sent));
    }
    match json.map_or_else(|| parse_yaml(body), Ok)? {
        value @ Value::Object(_) => Ok(value),
        _ => Err(Status::bad_request("the object provided is unrecognized: an object is expected")),
    }
}

/// What is applied has another type than the objects of the path.
fn no_object_type(sent: &Value) -> Box<Status> {
    let text = |field: &str| sent[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    Status::bad_request(format!("invalid object type: {group}/{version}, Kind={}", text("kind")))
}

fn parse_yaml(body: &Bytes) -> ApiResult<Value> {
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
        Reason::UnsupportedMediaType,
        format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        ),
    )
}

/// An object of another kind than that of the path, in the words of kube-apiserver.
fn other_kind(kind: &str, group: &str, value: &Value, expected: &str) -> Box<Status> {
    let text = |field: &str| value[field].as_str().filter(|text| !text.is_empty());
    let (sent, kind_sent) = (text("apiVersion").unwrap_or(expected), text("kind").unwrap_or(kind));
    let (sent_group, version) = sent.split_once('/').unwrap_or(("", sent));
    let why = match type_of(sent_group, version, kind_sent) {
        Some(_) => {
            let package = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or_default() };
            format!("converting ({version}.{kind_sent}) to ({package}.{kind}): unknown conversion")
        }
        None => format!(
            "no kind {kind_sent:?} is registered for version {sent:?} in scheme \"pkg/runtime/scheme.go:111\""
        ),
    };
    Status::bad_request(format!("{kind_sent} in version {version:?} cannot be handled as a {kind}: {why}"))
}

fn cannot_be_handled(kind: &str, version: &str, why: &str) -> Box<Status> {
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}

/// A custom object names its kind and version.
fn check_custom(request: &ApiRequest, kind: &str, version: &str, value: &Value) -> ApiResult {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    if text("kind").is_empty() {
        let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(&request.body));
        return Err(unrecognized(kind, &why, &request.body));
    }
    if text("apiVersion") != version {
        let sent = text("apiVersion");
        return Err(Status::bad_request(format!(
            "the API version in the data ({sent}) does not match the expected API version ({version})"
        )));
    }
    if text("kind") != kind {
        let cause = Cause::invalid("kind", &value["kind"], &format!("must be {kind}"));
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        return Err(Status::invalid_kind(request.info.resource.group, text("kind"), name, vec![cause]));
    }
    Ok(())
}

/// Checks that an object has the kind of the path's resource, and fills in fields from the path.
fn agree_with_path(request: &ApiRequest, value: &mut Value) -> ApiResult {
    let info = &request.info;
    let (group, version, kind) = info.sent_kind();
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    if info.resource.custom.is_some() && info.subresource_name() != "scale" {
        check_custom(request, kind, &api_version, value)?;
    }
    for (field, wanted) in [("apiVersion", api_version.as_str()), ("kind", kind)] {
        match &value[field] {
            Value::Null => value[field] = Value::from(wanted),
            Value::String(text) if text == wanted || text.is_empty() => value[field] = Value::from(wanted),
            // It has the same form.
            Value::String(text) if kind == "Eviction" && text == "policy/v1beta1" => {
                value[field] = Value::from(wanted);
            }
            _ if is_apply(request) => return Err(no_object_type(value)),
            _ => return Err(other_kind(kind, group, value, &api_version)),
        }
    }
    let metadata = &value["metadata"];
    let is_text = |field: &&str| metadata[*field].is_null() || metadata[*field].is_string();
    let texts = ["name", "namespace", "generateName", "uid", "resourceVersion"];
    if !(metadata.is_null() || metadata.is_object() && texts.iter().all(is_text)) {
        let otherwise = "metadata: Invalid value: an object with texts is expected";
        let read = type_of(group, version, kind).map(|ty| decode(ty, &mut value.clone()));
        return Err(match read {
            Some(Err(error)) => cannot_be_handled(kind, version, &error.to_string()),
            _ => Status::bad_request(otherwise),
        });
    }
    let Some(metadata) = fields::object(value, "metadata") else { return Ok(()) };
    // What is applied may clear the name, which is refused once nothing conflicts.
    let clears_name = is_apply(request) && metadata.get("name").is_none_or(fields::is_empty);
    metadata.retain(|field, value| {
        !value.is_null() || !texts.contains(&field.as_str()) || clears_name && field == "name"
    });
    let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !info.resource.namespaced {
        metadata.remove("namespace");
    } else if namespace.is_empty() && !is_apply(request) {
        metadata.insert("namespace".to_owned(), Value::from(info.namespace.as_str()));
    } else if namespace != info.namespace && !namespace.is_empty() {
        return Err(Status::other_namespace());
    }
    if !info.name.is_empty() {
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() && info.verb == Verb::Update {
            let url = &info.name;
            return Err(Status::bad_request(format!(
                "the name of the object ({url} based on URL) was undeterminable: name must be provided"
            )));
        }
        if name.is_empty() && !clears_name {
            metadata.insert("name".to_owned(), Value::from(info.name.as_str()));
        } else if name != info.name && !is_apply(request) {
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

pub fn is_apply(request: &ApiRequest) -> bool {
    request.info.verb == Verb::Patch && media_type(request) == APPLY
}

/// Checks that a patch leaves name and namespace as they are.
pub fn check_name(request: &ApiRequest, metadata: &Value) -> ApiResult {
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

/// Reads the fields of what a request sends, or of the result of a patch. Unknown ones are dropped; `validation` decides whether they,
/// and duplicate ones, are errors or warnings. A kind without a type is left as it is.
pub fn check_fields(
    request: &ApiRequest,
    validation: FieldValidation,
    value: &mut Value,
    duplicates: &[String],
    warnings: &mut Vec<String>,
) -> Result<(), FieldsError> {
    let (group, version, kind) = request.info.sent_kind();
    let custom = request.info.resource.custom.filter(|_| request.info.resource.kind == kind);
    let schema = custom.map(Custom::schema);
    let Some(ty) = schema.as_ref().map(|schema| &schema.ty).or_else(|| type_of(group, version, kind)) else {
        return Ok(());
    };
    let unknown = match custom {
        Some(_) => decode_metadata(ty, value).map(|()| prune(ty, value)),
        None => decode(ty, value),
    };
    let unknown = unknown.map_err(|error| with_number_of(error, &request.body))?;
    let repeated = metadata::drop_repeated_owners(value);
    if unknown.is_empty() && duplicates.is_empty() && repeated.is_none() {
        return Ok(());
    }
    let twice = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
    let problems = twice.chain(unknown.iter().map(|path| format!("unknown field {path:?}")));
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => warnings.extend(problems),
        FieldValidation::Strict => {
            let all: Vec<String> = problems.collect();
            if !all.is_empty() {
                return Err(FieldsError::Strict(all.join(", ")));
            }
        }
    }
    warnings.extend(repeated);
    Ok(())
}

/// Why fields cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FieldsError {
    #[error(transparent)]
    Value(#[from] DecodeError),
    /// Fields that are unknown, or given twice.
    #[error("strict decoding error: {0}")]
    Strict(String),
}

/// Shows a wrong number as the body has it: JSON values keep only 64 bits of it.
fn with_number_of(mut error: DecodeError, body: &[u8]) -> DecodeError {
    if let DecodeError::WrongType { found, .. } = &mut error
        && let Some(Ok(number)) = found.strip_prefix("number ").map(str::parse::<f64>)
    {
        let text = String::from_utf8_lossy(body);
        let mut tokens = text.split(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c)));
        if let Some(written) = tokens.find(|token| token.parse() == Ok(number)) {
            *found = format!("number {written}");
        }
    }
    error
}

/// Reads the metadata of a custom resource; validation compares the rest with its schema.
fn decode_metadata(ty: &Type, value: &mut Value) -> Result<(), DecodeError> {
    match (ty.child("metadata"), value.get_mut("metadata")) {
        (Some(ty), Some(metadata)) => decode(ty, metadata).map(drop),
        _ => Ok(()),
    }
}
