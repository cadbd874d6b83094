//! The way of a request that writes one object, whole or by a subresource: creation, update, patch, apply, deletion. A creation is a
//! change without an old object, a deletion one without a new.
//!
//! [`WriteRequest::read`] reads what was sent. [`WriteRequest::carry_out`] finds the stored object, makes the new one of it, completes it,
//! lets webhooks change it, refuses or admits it by the rules of its kind, asks the validating webhooks, charges quotas and
//! stores it. If another request was faster, it begins again.

use std::sync::{Arc, OnceLock};

use berth_schema::resource::Resource;
use http::StatusCode;
use serde_json::Value;

use super::admission::Asked;
use super::api::Api;
use super::content::{Content, applied, patched, patched_object, track};
use super::decode::check_name;
use super::object::answer_object;
use super::options::WriteOptions;
use super::reply::Reply;
use super::scale::Paths;
use super::{delete, scale};
use crate::request::status::deleted;
use crate::request::{ApiRequest, ApiResult, Attributes, Cause, Reason, RequestInfo, Status, Verb, refusal};
use crate::store::{Change, Claim, Draft, EventType, Object, Store, Write, WriteError, key};
use crate::strategy::proposal_fields::{keep_absent, removed_by_patch};
use crate::strategy::{Context, generate_name, metadata};
use crate::{bootstrap, kinds, lifecycle};

/// Attempts with generated names, which may exist already.
const NAME_ATTEMPTS: usize = 8;
/// Attempts on newer versions of the object, and with other allocated values.
const ATTEMPTS: usize = 64;

pub struct WriteRequest<'r> {
    pub request: &'r ApiRequest,
    /// The object: that of the request, or one of the collection that it deletes.
    pub target: RequestInfo,
    /// In whose collection it is.
    pub resource: &'static Resource,
    pub options: WriteOptions,
    pub new: Content,
}

pub struct Written {
    pub object: Arc<Object>,
    /// Whether the object was created, changed or deleted.
    pub event_type: EventType,
}

enum Attempt {
    Done(Written),
    /// The store refuses the object of this name.
    Refused(WriteError, String),
}

pub async fn write(api: &Api, request: &ApiRequest, warnings: &mut Vec<String>) -> ApiResult<Reply> {
    let write = WriteRequest::read(request, warnings)?;
    let Written { object, event_type } = write.carry_out(api, warnings).await?;
    let RequestInfo { resource, name, .. } = &write.target;
    match (&write.new, event_type) {
        _ if write.is_scale() => scale::answer(resource, &object),
        (Content::Deletion(_), EventType::Deleted) if !delete::answers_object(resource) => {
            let value = object.value();
            Ok(Reply::value(StatusCode::OK, &deleted(resource, name, metadata::uid(&value))))
        }
        (_, EventType::Added) => answer_object(request, StatusCode::CREATED, &object),
        _ => answer_object(request, StatusCode::OK, &object),
    }
}

impl<'r> WriteRequest<'r> {
    pub fn read(request: &'r ApiRequest, warnings: &mut Vec<String>) -> ApiResult<WriteRequest<'r>> {
        let options = WriteOptions::read(request)?;
        let new = Content::read(request, &options, warnings)?;
        Ok(WriteRequest::new(request, request.info.clone(), options, new, warnings))
    }

    /// A request for an object that it does not name itself.
    pub fn new(
        request: &'r ApiRequest,
        target: RequestInfo,
        options: WriteOptions,
        new: Content,
        warnings: &mut Vec<String>,
    ) -> WriteRequest<'r> {
        if let Content::Deletion(options) = &new {
            warnings.extend(delete::orphan_warning(target.resource, options));
        }
        let resource = target.resource.stored().unwrap_or(target.resource);
        WriteRequest { request, target, resource, options, new }
    }

    pub async fn carry_out(&self, api: &Api, warnings: &mut Vec<String>) -> ApiResult<Written> {
        let n_warnings = warnings.len();
        let mut claimed = None;
        for n_attempts in 1.. {
            warnings.truncate(n_warnings);
            let (error, name) = match self.attempt(api, claimed.take(), warnings).await? {
                Attempt::Done(written) => return Ok(written),
                Attempt::Refused(error, name) => (error, name),
            };
            let tries_again = match &error {
                // Another client has created the object: change that one.
                WriteError::AlreadyExists if self.target.verb != Verb::Create => n_attempts < ATTEMPTS,
                WriteError::AlreadyExists => self.generated_prefix().is_some() && n_attempts < NAME_ATTEMPTS,
                WriteError::Modified | WriteError::Claimed(_) => n_attempts < ATTEMPTS,
                _ => false,
            };
            if !tries_again {
                return Err(self.refused(api, error, &name));
            }
            if let WriteError::Claimed(claim) = error {
                claimed = Some(claim);
            }
        }
        Err(Status::modified(self.target.resource, &self.target.name))
    }

    async fn attempt(
        &self,
        api: &Api,
        claimed: Option<Claim>,
        warnings: &mut Vec<String>,
    ) -> ApiResult<Attempt> {
        let WriteRequest { target, resource, options, .. } = self;
        let (resource, subresource) = (*resource, target.subresource_name());
        let admitted = OnceLock::new();
        let context = api.context(&self.request.user, target.resource, subresource);
        let context = &Context { admitted: Some(&admitted), ..context };
        let current = self.current(api)?;
        let old = current.as_deref().map(Object::value);
        let old = old.as_ref();
        let mut new = self.make(context, old, warnings)?;
        if let Some(claim) = claimed {
            lifecycle::refuse_claimed(resource, &new, &claim)?;
        }
        let mut is_removed = false;
        let deletion = match (&self.new, &current, old) {
            (Content::Deletion(deletion), Some(current), Some(old)) => {
                delete::check_preconditions(target, current, old, deletion)?;
                is_removed = delete::begin(resource, &mut new, deletion);
                Some((deletion, old))
            }
            _ => {
                if let (Some(current), Some(old)) = (&current, old) {
                    self.check_identity(current, old, &new)?;
                }
                lifecycle::prepare(context, resource, &mut new, old)?;
                // An applied object already has its managed fields.
                if !matches!(self.new, Content::Applied(_)) {
                    track(resource, subresource, options, old, &mut new);
                }
                None
            }
        };
        let paths = self.is_scale().then(|| Paths::of(target.resource));
        let part = |object: &Value| paths.as_ref().map(|paths| paths.scale_of(object));
        let old_part = old.and_then(part);
        let ApiRequest { user, deadline, .. } = self.request;
        let asked = Asked { target, user, dry_run: self.is_dry_run(), deadline: *deadline };
        let reviews = deletion.is_none_or(|(deletion, _)| !deletion.evicts);
        let old_reviewed = old_part.as_ref().or(old);
        if reviews {
            let mut new_part = part(&new);
            let object = deletion.is_none().then(|| new_part.as_mut().unwrap_or(&mut new));
            if api.admission.mutate(&asked, old_reviewed, object, warnings).await? {
                if let (Some(paths), Some(scale)) = (&paths, &new_part) {
                    new = paths.with_replicas(&new, scale, &target.name)?;
                }
                lifecycle::prepare(context, resource, &mut new, old)?;
            }
        }
        match deletion {
            Some((_, old)) => lifecycle::admit_delete(context, resource, old)?,
            None => lifecycle::admit(context, resource, &mut new, old, warnings)?,
        }
        if reviews {
            let new_part = part(&new);
            let object = deletion.is_none().then(|| new_part.as_ref().unwrap_or(&new));
            api.admission.validate(&asked, old_reviewed, object, warnings).await?;
        }
        let change = self.change(api, current.as_deref(), old, &new, is_removed);
        if let Some(object) = current.clone().filter(|_| old == Some(&new) && !is_removed) {
            return Ok(Attempt::Done(Written { object, event_type: EventType::Modified }));
        }
        let charge = match deletion {
            Some(_) => None,
            None => api.quotas.charge(resource, &new, old, admitted.get(), self.is_dry_run()).await?,
        };
        let (event_type, name) = (change.event_type(), key(&new).1.to_owned());
        let written = if self.is_dry_run() {
            self.tried(&api.store, new, current.as_deref())?
        } else {
            let written = api.store.write(Write { resource, change, object: new.into() }).await;
            api.quotas.settle(charge, written.is_ok()).await;
            written
        };
        Ok(match written {
            Ok(object) => {
                if event_type == EventType::Added && !self.is_dry_run() {
                    create_dependents(&api.store, resource, &name).await;
                }
                Attempt::Done(Written { object, event_type })
            }
            Err(error) => Attempt::Refused(error, name),
        })
    }

    fn is_scale(&self) -> bool {
        self.target.subresource_name() == "scale"
    }

    fn is_dry_run(&self) -> bool {
        self.options.dry_run || matches!(&self.new, Content::Deletion(options) if options.dry_run)
    }

    /// The prefix of the name that a new object gets.
    fn generated_prefix(&self) -> Option<&str> {
        let Content::Sent(value) = &self.new else { return None };
        let prefix = value["metadata"]["generateName"].as_str().filter(|prefix| !prefix.is_empty())?;
        metadata::name(value).is_empty().then_some(prefix)
    }

    /// The stored object; `None` if the request creates it.
    fn current(&self, api: &Api) -> ApiResult<Option<Arc<Object>>> {
        let RequestInfo { verb, resource, namespace, name, .. } = &self.target;
        let sent = match &self.new {
            Content::Sent(_) if *verb == Verb::Create => return Ok(None),
            Content::Sent(value) => Some(value).filter(|_| resource.create_on_update),
            Content::Applied(value) => Some(value),
            Content::Patch(..) | Content::Deletion(_) => None,
        };
        let found = api.store.get(self.resource, namespace, name);
        if found.is_some() {
            return Ok(found);
        }
        let sent = sent.filter(|_| self.target.subresource.is_none());
        let sent = sent.ok_or_else(|| Status::not_found(resource, name))?;
        self.authorize_creation(api)?;
        match (metadata::uid(sent), verb) {
            ("", _) => Ok(None),
            (uid, Verb::Update) => {
                let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
                Err(Status::conflict(resource, name, &why))
            }
            _ => {
                let why =
                    "uid mismatch: the provided object specified a uid, and no existing object was found";
                Err(Status::conflict(resource, name, why))
            }
        }
    }

    /// An update or an apply that creates its object also needs the permission for that.
    fn authorize_creation(&self, api: &Api) -> ApiResult {
        let RequestInfo { resource, namespace, .. } = &self.target;
        let user = &self.request.user;
        let (group, plural) = (resource.group, resource.plural);
        let what = Attributes { verb: "create", group, resource: plural, namespace, ..Attributes::default() };
        if api.authorizer.allows(user, &what) {
            return Ok(());
        }
        Err(Status::forbidden(resource, "", &refusal(user, &what)))
    }

    /// What the request makes of the object, before the server completes it.
    fn make(
        &self,
        context: &Context<'_>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> ApiResult<Value> {
        let WriteRequest { request, target, resource, options, .. } = self;
        let (kind, subresource) = (target.resource.kind, target.subresource_name());
        let extensions = context.extensions && target.subresource.is_none();
        let paths = self.is_scale().then(|| Paths::of(target.resource));
        match (&self.new, old, paths) {
            (Content::Sent(value), None, _) => self.created(value.clone()),
            (Content::Applied(value), None, _) => {
                self.created(applied(resource, subresource, options, None, value.clone())?)
            }
            (Content::Sent(scale), Some(old), Some(paths)) => paths.changed(old, scale, &target.name),
            (Content::Patch(patch_type, patch), Some(old), Some(paths)) => {
                let shown = paths.scale_of(old);
                let scale = patched(request, options, (*patch_type, patch), &shown, warnings)?;
                paths.changed(old, &scale, &target.name)
            }
            (Content::Applied(scale), Some(old), Some(paths)) => {
                let value = paths.applied(resource, scale, &target.name)?;
                applied(resource, subresource, options, Some(old), value)
            }
            (Content::Sent(value), Some(old), None) => {
                let mut value = value.clone();
                if extensions {
                    warnings.extend(keep_absent(kind, &mut value, old));
                }
                Ok(value)
            }
            (Content::Patch(patch_type, patch), Some(old), None) => {
                let value = patched_object(request, options, (*patch_type, patch), old, warnings)?;
                if extensions {
                    warnings.extend(removed_by_patch(kind, &patch.value, &value, old));
                }
                Ok(value)
            }
            (Content::Applied(value), Some(old), None) => {
                let new = applied(resource, subresource, options, Some(old), value.clone())?;
                check_name(request, &new["metadata"])?;
                Ok(new)
            }
            (Content::Deletion(_), Some(old), _) => Ok(old.clone()),
            (Content::Patch(..) | Content::Deletion(_), None, _) => {
                Err(Status::not_found(target.resource, &target.name))
            }
        }
    }

    /// A new object with its name and uid.
    fn created(&self, mut value: Value) -> ApiResult<Value> {
        let metadata = &mut value["metadata"];
        if self.resource.namespaced && metadata["namespace"].is_null() {
            metadata["namespace"] = self.target.namespace.as_str().into();
        }
        if self.target.verb == Verb::Update {
            metadata.as_object_mut().map(|metadata| metadata.remove("resourceVersion"));
        } else if !self.is_dry_run()
            && metadata["resourceVersion"].as_str().is_some_and(|version| !version.is_empty())
        {
            return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
        }
        if let Some(prefix) = self.generated_prefix() {
            metadata["name"] = generate_name(prefix).into();
        }
        metadata["uid"] = uuid::Uuid::new_v4().to_string().into();
        Ok(value)
    }

    /// Checks the uid and version of a change against the stored object.
    fn check_identity(&self, current: &Object, old: &Value, new: &Value) -> ApiResult {
        let RequestInfo { verb, resource, namespace, name, .. } = &self.target;
        let (uid, sent_uid) = (metadata::uid(old), metadata::uid(new));
        if !sent_uid.is_empty() && sent_uid != uid {
            return Err(Status::precondition(resource, namespace, name, "UID", sent_uid, uid));
        }
        match new["metadata"]["resourceVersion"].as_str().unwrap_or_default() {
            "" | "0"
                if *verb == Verb::Update
                    && matches!(self.target.subresource_name(), "" | "status" | "approval")
                    && kinds::needs_version(resource) =>
            {
                let cause = Cause::invalid("metadata.resourceVersion", 0, "must be specified for an update");
                Err(Status::invalid_kind(resource.group, resource.plural, name, vec![cause]))
            }
            "" | "0" => Ok(()),
            version if version == current.revision.to_string() => Ok(()),
            _ => Err(Status::modified(resource, name)),
        }
    }

    fn change(
        &self,
        api: &Api,
        current: Option<&Object>,
        old: Option<&Value>,
        new: &Value,
        is_removed: bool,
    ) -> Change {
        let (Some(current), Some(old)) = (current, old) else { return Change::Create };
        let expected = current.revision;
        if is_removed || lifecycle::is_finished(self.resource, new) {
            Change::Delete { expected }
        } else if matches!(self.new, Content::Deletion(_)) {
            Change::Release { expected }
        } else if !new["metadata"]["deletionTimestamp"].is_null()
            || (api.store.is_nearly_full() && !metadata::grows(new, old))
        {
            Change::Reserved { expected }
        } else {
            Change::Update { expected }
        }
    }

    /// The outcome of a dry run: the object is not stored and keeps its version, if it has one.
    fn tried(
        &self,
        store: &Store,
        new: Value,
        current: Option<&Object>,
    ) -> ApiResult<Result<Arc<Object>, WriteError>> {
        let (namespace, name) = key(&new);
        if current.is_none() && store.get(self.resource, namespace, name).is_some() {
            return Ok(Err(WriteError::AlreadyExists));
        }
        if let Some(claim) = store.conflicting_claim(self.resource, &new) {
            lifecycle::refuse_claimed(self.resource, &new, &claim)?;
        }
        let given = new["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        let draft = Draft::new(self.resource, &new.into(), None);
        Ok(Ok(Arc::new(match current.map(|current| current.revision).or(given) {
            Some(revision) => draft.at(revision),
            None => draft.unversioned(),
        })))
    }

    fn refused(&self, api: &Api, error: WriteError, name: &str) -> Box<Status> {
        let mut status = error.into_status(self.target.resource, name);
        if status.reason == Reason::AlreadyExists {
            let existing = api.store.get(self.resource, &self.target.namespace, name);
            if existing.is_some_and(|object| !object.parsed()["metadata"]["deletionTimestamp"].is_null()) {
                status.message.insert_str(0, "object is being deleted: ");
            }
        }
        status
    }
}

async fn create_dependents(store: &Store, resource: &Resource, name: &str) {
    for dependent in lifecycle::dependents(resource, name) {
        if let Err(error) = bootstrap::ensure(store, dependent).await {
            tracing::error!(%error, resource = resource.plural, name, "a dependent object could not be created");
        }
    }
}
