//! Creating and changing objects.

use std::sync::Arc;

use berth_schema::resource::Resource;
use http::StatusCode;
use serde_json::Value;

use super::admission::{self, Act};
use super::sent::{agree_with_path, is_apply, is_dry_run, parse_applied, parse_strictly, patched};
use super::{answer_object, convert, fields, write_failed};
use crate::quota;
use crate::server::status::Status;
use crate::server::{ApiRequest, Attributes, Reply, RequestInfo, Shared, Verb, refusal};
use crate::store::{Change, EventType, Object, Write, WriteError, key};
use crate::strategy::{self, Context};
use crate::webhook::Operation;

/// Retries of a generated name that already exists.
const NAME_ATTEMPTS: usize = 8;
/// Retries of a change on a newer version of the object.
const CHANGE_ATTEMPTS: usize = 64;

/// Answers the creation of an object.
///
/// # Errors
/// The object is invalid, not allowed or already exists.
pub async fn create(shared: &Arc<Shared>, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let info = &request.info;
    let resource = super::stored(info)?;
    let dry_run = is_dry_run(&request.query)?;
    let mut warnings = Vec::new();
    let value = read(request, &mut warnings)?;
    let object = create_object(shared, request, resource, value, dry_run, &mut warnings).await?;
    Ok(answer_object(request, StatusCode::CREATED, &object)?.with_warnings(warnings))
}

/// The object of the request, in its stored form.
fn read(request: &ApiRequest, warnings: &mut Vec<String>) -> Result<Value, Box<Status>> {
    let RequestInfo { resource, .. } = request.info;
    let mut sent = parse_strictly(&request.headers, &request.body)?;
    agree_with_path(request, resource.group, resource.version, resource.kind, &mut sent.value)?;
    fields::read(request, request.info.sent_kind(), &mut sent.value, &sent.duplicates, warnings)?;
    Ok(convert::stored_value(resource, sent.value))
}

/// Creates a parsed object and its dependents.
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
    let n_warnings = warnings.len();
    loop {
        attempts -= 1;
        let mut value = value.clone();
        if generated {
            value["metadata"]["name"] = Value::from(strategy::generate_name(&prefix));
        }
        let context = Context { shared, user: &request.user };
        strategy::prepare_create(&context, resource, &mut value)?;
        // An applied object already has its managed fields.
        if !is_apply(request) {
            fields::track(request, resource, None, &mut value)?;
        }
        warnings.truncate(n_warnings);
        let act = Act::create(dry_run);
        if admission::mutate(shared, request, act, Some(&mut value), warnings).await? {
            strategy::default_object(resource, &mut value);
        }
        strategy::admit_create(&context, resource, &mut value, warnings)?;
        admission::validate(shared, request, act, Some(&value), warnings).await?;
        let name = key(&value).1.to_owned();
        let charge = quota::charge(shared, resource, &value, None, dry_run).await?;
        if dry_run {
            let (namespace, name) = key(&value);
            if shared.store.get(resource, namespace, name).is_some() {
                return Err(Status::already_exists(request.info.resource, name));
            }
            return Ok(Arc::new(tried(resource, value, None)));
        }
        let written = shared.store.write(Write { resource, change: Change::Create, value }).await;
        quota::settle(shared, charge, written.is_ok()).await;
        match written {
            Ok(object) => {
                strategy::created(&context, resource, &object).await;
                return Ok(object);
            }
            Err(WriteError::AlreadyExists) if attempts > 0 => {}
            Err(error) => return Err(write_failed(request.info.resource, &name, error)),
        }
    }
}

/// The response of a dry run: the object is not stored and keeps its version, if it has one.
pub fn tried(resource: &Resource, mut value: Value, current: Option<&Object>) -> Object {
    let revision = current.map_or(0, |object| object.revision);
    let object = Object::encode(resource, value.clone(), revision, EventType::Modified);
    if current.is_some() {
        return object;
    }
    // An object created by a dry run has no version.
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    Object::decode(resource, value.to_string().as_bytes(), 0, EventType::Modified).unwrap_or(object)
}

/// Answers an update or a patch of an object or a subresource.
///
/// # Errors
/// The change is invalid, not allowed, or based on an outdated version.
pub async fn change(shared: &Arc<Shared>, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    if is_apply(request) {
        return apply(shared, request).await;
    }
    let info = &request.info;
    let dry_run = is_dry_run(&request.query)?;
    let mut warnings = Vec::new();
    let sent = match info.verb {
        Verb::Update => Some(read(request, &mut warnings)?),
        _ => None,
    };
    if let Some(value) = sent.as_ref().filter(|_| may_come_to_be(shared, info)) {
        let earlier = warnings.clone();
        match create_by_update(shared, request, value.clone(), dry_run, &mut warnings).await {
            Ok(object) => {
                return Ok(answer_object(request, StatusCode::CREATED, &object)?.with_warnings(warnings));
            }
            // Another client has created the object: change that one.
            Err(status) if status.reason == "AlreadyExists" => warnings = earlier,
            Err(status) => return Err(status),
        }
    }
    let object =
        change_object(shared, request, dry_run, None, &mut warnings, |current, warnings| match &sent {
            Some(value) => Ok(value.clone()),
            None => patched(request, current, warnings),
        })
        .await?;
    Ok(answer_object(request, StatusCode::OK, &object)?.with_warnings(warnings))
}

/// Whether an update of a missing object creates it, as kube-apiserver does for a few resources.
fn may_come_to_be(shared: &Shared, info: &RequestInfo) -> bool {
    info.resource.create_on_update && info.subresource.is_none() && super::find(shared, info).is_err()
}

/// An update that creates its object needs the permission for that, too.
fn authorize_creation(shared: &Shared, request: &ApiRequest) -> Result<(), Box<Status>> {
    let info = &request.info;
    let what = Attributes {
        verb: "create",
        group: info.resource.group,
        resource: info.resource.plural,
        namespace: &info.namespace,
        ..Attributes::default()
    };
    if shared.allows(&request.user, &what) {
        return Ok(());
    }
    Err(Status::forbidden(info.resource, "", &refusal(&request.user, &what)))
}

async fn create_by_update(
    shared: &Arc<Shared>,
    request: &ApiRequest,
    mut value: Value,
    dry_run: bool,
    warnings: &mut Vec<String>,
) -> Result<Arc<Object>, Box<Status>> {
    let info = &request.info;
    authorize_creation(shared, request)?;
    if let Some(uid) = value["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
        return Err(Status::conflict(info.resource, &info.name, &why));
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    create_object(shared, request, super::stored(info)?, value, dry_run, warnings).await
}

/// Answers a server-side apply: changes the object, or creates it if it does not exist.
///
/// # Errors
/// The body cannot be applied, it conflicts with other managers, or the result is invalid or not allowed.
async fn apply(shared: &Arc<Shared>, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let info = &request.info;
    let resource = super::stored(info)?;
    let dry_run = is_dry_run(&request.query)?;
    let mut sent = parse_applied(&request.body)?;
    agree_with_path(request, info.resource.group, info.resource.version, info.resource.kind, &mut sent)?;
    let sent = convert::stored_value(info.resource, sent);
    let mut warnings = Vec::new();
    if info.subresource.is_none() && super::find(shared, info).is_err() {
        authorize_creation(shared, request)?;
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
            // Another client has created the object: apply to that one.
            Err(status) if status.reason == "AlreadyExists" => warnings.clear(),
            Err(status) => return Err(status),
        }
    }
    let object = change_object(shared, request, dry_run, None, &mut warnings, |current, _| {
        fields::applied(request, resource, Some(current), sent.clone())
    })
    .await?;
    Ok(answer_object(request, StatusCode::OK, &object)?.with_warnings(warnings))
}

/// Conversion between an object and its subresource, for admission.
#[derive(Clone, Copy)]
pub struct Part<'p> {
    /// The subresource of an object.
    pub shown: &'p (dyn Fn(&Value) -> Value + Sync),
    /// The object with a changed subresource. The text is the object's name.
    pub taken: &'p Taken<'p>,
}

/// See [`Part::taken`].
type Taken<'p> = dyn Fn(&Value, &Value, &str) -> Result<Value, Box<Status>> + Sync + 'p;

/// Changes an object: reads it, transforms it and writes it back. Retries if it changed in between and
/// the client named no version.
///
/// # Errors
/// The transformation fails, or its result is invalid, not allowed, or based on an outdated
/// version.
pub async fn change_object(
    shared: &Arc<Shared>,
    request: &ApiRequest,
    dry_run: bool,
    part: Option<Part<'_>>,
    warnings: &mut Vec<String>,
    transform: impl Fn(&Value, &mut Vec<String>) -> Result<Value, Box<Status>>,
) -> Result<Arc<Object>, Box<Status>> {
    let info = &request.info;
    let resource = super::stored(info)?;
    let n_warnings = warnings.len();
    for _ in 0..CHANGE_ATTEMPTS {
        let current = super::find(shared, info)?;
        let old = current.value();
        warnings.truncate(n_warnings);
        let mut new = transform(&old, warnings)?;
        let named_version = check_identity(request, &current, &old, &new)?;
        let context = Context { shared, user: &request.user };
        strategy::prepare_update(&context, resource, info.subresource_name(), &mut new, &old)?;
        if !is_apply(request) {
            fields::track(request, resource, Some(&old), &mut new)?;
        }
        let shown = |object: &Value| part.map(|part| (part.shown)(object));
        let old_shown = shown(&old);
        let old_asked = old_shown.as_ref().unwrap_or(&old);
        let act = Act { operation: Operation::Update, old: Some(old_asked), dry_run };
        let mut asked = shown(&new);
        if admission::mutate(shared, request, act, Some(asked.as_mut().unwrap_or(&mut new)), warnings).await?
        {
            if let (Some(part), Some(asked)) = (part, &asked) {
                new = (part.taken)(&new, asked, &info.name)?;
            }
            strategy::prepare_update(&context, resource, info.subresource_name(), &mut new, &old)?;
        }
        strategy::admit_update(&context, resource, info.subresource_name(), &new, &old)?;
        let asked = shown(&new);
        admission::validate(shared, request, act, Some(asked.as_ref().unwrap_or(&new)), warnings).await?;
        if new == old {
            return Ok(current);
        }
        let change = if strategy::is_finished(resource, &new) {
            Change::Delete { expected: current.revision }
        } else {
            Change::Update { expected: current.revision }
        };
        let charge = quota::charge(shared, resource, &new, Some(&old), dry_run).await?;
        if dry_run {
            return Ok(Arc::new(tried(resource, new, Some(&current))));
        }
        let written = shared.store.write(Write { resource, change, value: new }).await;
        quota::settle(shared, charge, written.is_ok()).await;
        match written {
            Ok(object) => return Ok(object),
            Err(WriteError::Modified) if !named_version => {}
            Err(error) => return Err(write_failed(info.resource, &info.name, error)),
        }
    }
    Err(Status::modified(info.resource, &info.name))
}

/// Checks the uid and version of a change against the stored object; returns whether the change names a version.
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
        // A patch without a version keeps the current one.
        Verb::Patch if version == current.revision.to_string() => Ok(false),
        Verb::Patch => Err(Status::modified(info.resource, &info.name)),
        _ => Ok(true),
    }
}
