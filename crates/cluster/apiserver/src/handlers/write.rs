//! Creating and changing objects.

use std::sync::Arc;

use berth_schema::resource::Resource;
use http::StatusCode;
use serde_json::Value;

use super::admission::Act;
use super::api::Api;
use super::object::{answer_object, find, stored};
use super::reply::Reply;
use super::sent::{agree_with_path, is_apply, is_dry_run, parse_applied, parse_strictly, patched};
use super::{convert, fields};
use crate::request::{ApiRequest, Attributes, Cause, RequestInfo, Status, Verb, refusal};
use crate::store::{Change, Draft, Object, Store, Write, WriteError, key};
use crate::strategy::proposal_fields::{keep_absent, removed_by_patch};
use crate::strategy::{generate_name, metadata};
use crate::webhook::Operation;
use crate::{bootstrap, kinds, lifecycle};

/// Retries of a generated name that already exists.
const NAME_ATTEMPTS: usize = 8;
/// Retries of a change on a newer version of the object, and of an allocation.
const CHANGE_ATTEMPTS: usize = 64;

/// Answers the creation of an object.
///
/// # Errors
/// The object is invalid, not allowed or already exists.
pub async fn create(api: &Api, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let info = &request.info;
    let resource = stored(info)?;
    let dry_run = is_dry_run(&request.query, "CreateOptions")?;
    let mut warnings = Vec::new();
    let value = read(request, &mut warnings)?;
    match create_object(api, request, resource, value, dry_run, &mut warnings).await {
        Ok(object) => Ok(answer_object(request, StatusCode::CREATED, &object)?.with_warnings(warnings)),
        Err(status) => Err(status.with_warnings(warnings)),
    }
}

/// The object of the request, in its stored form.
fn read(request: &ApiRequest, warnings: &mut Vec<String>) -> Result<Value, Box<Status>> {
    let RequestInfo { resource, .. } = request.info;
    let mut sent = parse_strictly(&request.headers, &request.body, request.info.sent_kind().2)?;
    agree_with_path(request, resource.group, resource.version, resource.kind, &mut sent.value)?;
    fields::read(request, request.info.sent_kind(), &mut sent.value, &sent.duplicates, warnings)?;
    Ok(convert::stored_value(resource, sent.value))
}

/// Creates a parsed object and its dependents.
async fn create_object(
    api: &Api,
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
    let n_warnings = warnings.len();
    let mut n_attempts = 0;
    let mut claimed = None;
    loop {
        n_attempts += 1;
        if let Some(claim) = claimed.take() {
            lifecycle::refuse_claimed(resource, &value, &claim)?;
        }
        let mut value = value.clone();
        if generated {
            value["metadata"]["name"] = Value::from(generate_name(&prefix));
        }
        let context = api.context(&request.user, request.info.resource.version);
        let uid = uuid::Uuid::new_v4().to_string();
        lifecycle::prepare_create(&context, resource, &uid, &mut value)?;
        // An applied object already has its managed fields.
        if !is_apply(request) {
            fields::track(request, resource, None, &mut value)?;
        }
        warnings.truncate(n_warnings);
        let act = Act::create(dry_run);
        if api.admission.mutate(request, act, Some(&mut value), warnings).await? {
            lifecycle::prepare_create(&context, resource, &uid, &mut value)?;
        }
        lifecycle::admit_create(&context, resource, &mut value, warnings)?;
        api.admission.validate(request, act, Some(&value), warnings).await?;
        let (namespace, name) = key(&value);
        let key = (namespace.to_owned(), name.to_owned());
        let charge = api.quotas.charge(resource, &value, None, dry_run).await?;
        if dry_run {
            if let Some(existing) = api.store.get(resource, &key.0, &key.1) {
                return Err(already_exists(request.info.resource, &key.1, Some(&existing)));
            }
            check_claims(&api.store, resource, &value)?;
            return Ok(Arc::new(tried(resource, value, None)));
        }
        let written = api.store.write(Write { resource, change: Change::Create, object: value.into() }).await;
        api.quotas.settle(charge, written.is_ok()).await;
        match written {
            Ok(object) => {
                create_dependents(&api.store, resource, object.facts.name()).await;
                return Ok(object);
            }
            Err(WriteError::AlreadyExists) if generated && n_attempts < NAME_ATTEMPTS => {}
            Err(WriteError::Claimed(claim)) if n_attempts < CHANGE_ATTEMPTS => claimed = Some(claim),
            Err(WriteError::AlreadyExists) => {
                let existing = api.store.get(resource, &key.0, &key.1);
                return Err(already_exists(request.info.resource, &key.1, existing.as_deref()));
            }
            Err(error) => return Err(error.into_status(request.info.resource, &key.1)),
        }
    }
}

fn already_exists(resource: &Resource, name: &str, existing: Option<&Object>) -> Box<Status> {
    let mut status = Status::already_exists(resource, name);
    if existing.is_some_and(|object| !object.parsed()["metadata"]["deletionTimestamp"].is_null()) {
        status.message.insert_str(0, "object is being deleted: ");
    }
    status
}

/// Checks a dry run's object as its write would.
fn check_claims(store: &Store, resource: &Resource, value: &Value) -> Result<(), Box<Status>> {
    store
        .conflicting_claim(resource, value)
        .map_or(Ok(()), |claim| lifecycle::refuse_claimed(resource, value, &claim))
}

/// Creates what belongs to a new object.
async fn create_dependents(store: &Store, resource: &Resource, name: &str) {
    for dependent in lifecycle::dependents(resource, name) {
        if let Err(error) = bootstrap::ensure(store, dependent).await {
            tracing::error!(%error, resource = resource.plural, name, "a dependent object could not be created");
        }
    }
}

/// The response of a dry run: the object is not stored and keeps its version, if it has one.
pub fn tried(resource: &Resource, value: Value, current: Option<&Object>) -> Object {
    let draft = Draft::new(resource, &value.into(), None);
    match current {
        Some(current) => draft.at(current.revision),
        None => draft.unversioned(),
    }
}

/// Answers an update or a patch of an object or a subresource.
///
/// # Errors
/// The change is invalid, not allowed, or based on an outdated version.
pub async fn change(api: &Api, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    if is_apply(request) {
        return apply(api, request).await;
    }
    let info = &request.info;
    let dry_run = is_dry_run(&request.query, "UpdateOptions")?;
    let mut warnings = Vec::new();
    let sent = match info.verb {
        Verb::Update => Some(read(request, &mut warnings)?),
        _ => None,
    };
    if let Some(value) = sent.as_ref().filter(|_| may_come_to_be(api, info)) {
        let earlier = warnings.clone();
        match create_by_update(api, request, value.clone(), dry_run, &mut warnings).await {
            Ok(object) => {
                return Ok(answer_object(request, StatusCode::CREATED, &object)?.with_warnings(warnings));
            }
            // Another client has created the object: change that one.
            Err(status) if status.reason == "AlreadyExists" => warnings = earlier,
            Err(status) => return Err(status),
        }
    }
    let extensions =
        api.context(&request.user, request.info.resource.version).extensions && info.subresource.is_none();
    let object = change_object(api, request, dry_run, None, &mut warnings, |current, warnings| match &sent {
        Some(value) => {
            let mut value = value.clone();
            if extensions {
                warnings.extend(keep_absent(info.resource.kind, &mut value, current));
            }
            Ok(value)
        }
        None => {
            let value = patched(request, current, warnings)?;
            if extensions {
                warnings.extend(removed_by_patch(info.resource.kind, &request.body, &value, current));
            }
            Ok(value)
        }
    })
    .await?;
    Ok(answer_object(request, StatusCode::OK, &object)?.with_warnings(warnings))
}

/// Whether an update of a missing object creates it, as kube-apiserver does for a few resources.
fn may_come_to_be(api: &Api, info: &RequestInfo) -> bool {
    info.resource.create_on_update && info.subresource.is_none() && find(api, info).is_err()
}

/// An update that creates its object also needs the permission for that.
fn authorize_creation(api: &Api, request: &ApiRequest) -> Result<(), Box<Status>> {
    let info = &request.info;
    let what = Attributes {
        verb: "create",
        group: info.resource.group,
        resource: info.resource.plural,
        namespace: &info.namespace,
        ..Attributes::default()
    };
    if api.authorizer.allows(&request.user, &what) {
        return Ok(());
    }
    Err(Status::forbidden(info.resource, "", &refusal(&request.user, &what)))
}

async fn create_by_update(
    api: &Api,
    request: &ApiRequest,
    mut value: Value,
    dry_run: bool,
    warnings: &mut Vec<String>,
) -> Result<Arc<Object>, Box<Status>> {
    let info = &request.info;
    authorize_creation(api, request)?;
    if let Some(uid) = value["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
        return Err(Status::conflict(info.resource, &info.name, &why));
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    create_object(api, request, stored(info)?, value, dry_run, warnings).await
}

/// Answers a server-side apply: changes the object, or creates it if it does not exist.
///
/// # Errors
/// The body cannot be applied, it conflicts with other managers, or the result is invalid or not allowed.
async fn apply(api: &Api, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let info = &request.info;
    let resource = stored(info)?;
    let dry_run = is_dry_run(&request.query, "PatchOptions")?;
    let mut sent = parse_applied(&request.body)?;
    agree_with_path(request, info.resource.group, info.resource.version, info.resource.kind, &mut sent)?;
    let sent = convert::stored_value(info.resource, sent);
    let mut warnings = Vec::new();
    if info.subresource.is_none() && find(api, info).is_err() {
        authorize_creation(api, request)?;
        if sent["metadata"]["uid"].is_string() {
            return Err(Status::conflict(
                info.resource,
                &info.name,
                "uid mismatch: the provided object specified a uid, and no existing object was found",
            ));
        }
        let value = fields::applied(request, resource, None, sent.clone())?;
        match create_object(api, request, resource, value, dry_run, &mut warnings).await {
            Ok(object) => {
                return Ok(answer_object(request, StatusCode::CREATED, &object)?.with_warnings(warnings));
            }
            // Another client has created the object: apply to that one.
            Err(status) if status.reason == "AlreadyExists" => warnings.clear(),
            Err(status) => return Err(status),
        }
    }
    let object = change_object(api, request, dry_run, None, &mut warnings, |current, _| {
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
    api: &Api,
    request: &ApiRequest,
    dry_run: bool,
    part: Option<Part<'_>>,
    warnings: &mut Vec<String>,
    transform: impl Fn(&Value, &mut Vec<String>) -> Result<Value, Box<Status>>,
) -> Result<Arc<Object>, Box<Status>> {
    let info = &request.info;
    let resource = stored(info)?;
    let n_warnings = warnings.len();
    let mut claimed = None;
    for _ in 0..CHANGE_ATTEMPTS {
        let current = find(api, info)?;
        let old = current.value();
        warnings.truncate(n_warnings);
        let mut new = transform(&old, warnings)?;
        if let Some(claim) = claimed.take() {
            lifecycle::refuse_claimed(resource, &new, &claim)?;
        }
        let named_version = check_identity(request, &current, &old, &new)?;
        let context = api.context(&request.user, request.info.resource.version);
        lifecycle::prepare_update(&context, resource, info.subresource_name(), &mut new, &old)?;
        if !is_apply(request) {
            fields::track(request, resource, Some(&old), &mut new)?;
        }
        let shown = |object: &Value| part.map(|part| (part.shown)(object));
        let old_shown = shown(&old);
        let old_reviewed = old_shown.as_ref().unwrap_or(&old);
        let act = Act { operation: Operation::Update, old: Some(old_reviewed), dry_run };
        let mut reviewed = shown(&new);
        if api.admission.mutate(request, act, Some(reviewed.as_mut().unwrap_or(&mut new)), warnings).await? {
            if let (Some(part), Some(reviewed)) = (part, &reviewed) {
                new = (part.taken)(&new, reviewed, &info.name)?;
            }
            lifecycle::prepare_update(&context, resource, info.subresource_name(), &mut new, &old)?;
        }
        lifecycle::admit_update(&context, resource, info.subresource_name(), &new, &old, warnings)?;
        let reviewed = shown(&new);
        api.admission.validate(request, act, Some(reviewed.as_ref().unwrap_or(&new)), warnings).await?;
        if new == old {
            return Ok(current);
        }
        let expected = current.revision;
        let change = if lifecycle::is_finished(resource, &new) {
            Change::Delete { expected }
        } else if !new["metadata"]["deletionTimestamp"].is_null()
            || (api.store.is_nearly_full() && !metadata::grows(&new, &old))
        {
            Change::Reserved { expected }
        } else {
            Change::Update { expected }
        };
        let charge = api.quotas.charge(resource, &new, Some(&old), dry_run).await?;
        if dry_run {
            check_claims(&api.store, resource, &new)?;
            return Ok(Arc::new(tried(resource, new, Some(&current))));
        }
        let written = api.store.write(Write { resource, change, object: new.into() }).await;
        api.quotas.settle(charge, written.is_ok()).await;
        match written {
            Ok(object) => return Ok(object),
            Err(WriteError::Modified) if !named_version => {}
            Err(WriteError::Claimed(claim)) => claimed = Some(claim),
            Err(error) => return Err(error.into_status(info.resource, &info.name)),
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
        let key = (info.namespace.as_str(), info.name.as_str());
        return Err(Status::precondition(info.resource, key, "UID", &sent_uid, &uid));
    }
    let version = text(new, "resourceVersion");
    match info.verb {
        Verb::Update
            if matches!(version.as_str(), "" | "0")
                && matches!(info.subresource_name(), "" | "status" | "approval")
                && kinds::needs_version(info.resource) =>
        {
            let message = "Invalid value: 0: must be specified for an update".to_owned();
            let (reason, field) = ("FieldValueInvalid".to_owned(), "metadata.resourceVersion".to_owned());
            let cause = Cause { reason, message, field };
            Err(Status::invalid_kind(info.resource.group, info.resource.plural, &info.name, vec![cause]))
        }
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
