//! Requests to the API server, and what their failures mean.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::resource::Resource;
use http::Request;
use kube::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::view::{ObjectMeta, PartialObjectMetadata};

/// Requests under way at one time, of all controllers together.
const MAX_IN_FLIGHT: usize = 64;
/// Longest time that an answer may take.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A client for the controllers.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    in_flight: Arc<Semaphore>,
}

/// A request that did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("{verb} {kind} {key}: {failure}")]
pub(crate) struct ApiError {
    verb: &'static str,
    kind: &'static str,
    key: NamespacedName,
    failure: Failure,
}

/// Why it did not.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Client(kube::Error),
    #[error("no answer within {} s", ANSWER_WITHIN.as_secs())]
    TimedOut,
}

impl ApiError {
    fn status(&self) -> Option<&kube::core::Status> {
        match &self.failure {
            Failure::Client(kube::Error::Api(status)) => Some(status),
            _ => None,
        }
    }

    /// HTTP status code; `None` when the server did not answer.
    fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    fn reason(&self) -> &str {
        self.status().map_or("", |status| &status.reason)
    }

    /// What the server said.
    pub(crate) fn message(&self) -> String {
        match self.status() {
            Some(status) if !status.message.is_empty() => status.message.clone(),
            _ => self.failure.to_string(),
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// A precondition (uid, resourceVersion) did not hold.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code() == Some(409) && self.reason() != "AlreadyExists"
    }

    pub(crate) fn is_already_exists(&self) -> bool {
        self.code() == Some(409) && self.reason() == "AlreadyExists"
    }

    /// The namespace is going away: nothing can be created in it.
    pub(crate) fn is_namespace_terminating(&self) -> bool {
        self.code() == Some(403) && self.message().contains("being terminated")
    }
}

/// What must still hold for a status to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// It is the same object. For a status that is made from scratch each time, by one controller, which looks again
    /// after each change: the last one written is right.
    Uid,
    /// It is unchanged. For a status that builds on what it was.
    Version,
}

/// How dependents of a deleted object are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What must still hold for a deletion, and how it is to go.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions<'a> {
    /// Only the object with this uid.
    pub(crate) uid: Option<&'a str>,
    /// Only this version of it.
    pub(crate) resource_version: Option<&'a str>,
    /// Seconds until it is taken away; the object's own wish when absent.
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
}

impl DeleteOptions<'_> {
    /// Deletes only the object with this uid.
    pub(crate) fn of_uid(uid: &str) -> DeleteOptions<'_> {
        DeleteOptions { uid: Some(uid), ..DeleteOptions::default() }
    }

    fn to_json(&self) -> Value {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        for (field, value) in [("uid", self.uid), ("resourceVersion", self.resource_version)] {
            if let Some(value) = value {
                options["preconditions"][field] = value.into();
            }
        }
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(propagation) = self.propagation {
            options["propagationPolicy"] = format!("{propagation:?}").into();
        }
        options
    }
}

impl Api {
    pub(crate) fn new(client: Client) -> Self {
        Api { client, in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)) }
    }

    /// The client itself, for streams.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Reads the current state of an object; `None` when there is none.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        kind: &'static Resource,
        key: &NamespacedName,
    ) -> Result<Option<T>, ApiError> {
        let path = kind.object_path(key.namespace(), key.name());
        match self.send("get", kind.kind, key, Request::get(path), Vec::new()).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates an object from its JSON text.
    pub(crate) async fn create<T: DeserializeOwned>(
        &self,
        kind: &'static Resource,
        namespace: &str,
        object: Vec<u8>,
    ) -> Result<T, ApiError> {
        let key = NamespacedName::new(namespace, "");
        let request =
            Request::post(kind.path(namespace)).header(http::header::CONTENT_TYPE, "application/json");
        self.send("create", kind.kind, &key, request, object).await
    }

    /// Applies a JSON merge patch to an object, or to its subresource.
    ///
    /// A `metadata.resourceVersion` in the patch makes it fail with a conflict when the object has changed.
    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        kind: &'static Resource,
        key: &NamespacedName,
        subresource: &str,
        patch: &Value,
    ) -> Result<T, ApiError> {
        self.patch_as("application/merge-patch+json", kind, key, subresource, patch).await
    }

    /// Merges conditions into a status by their types, leaving those of others alone.
    pub(crate) async fn merge_status(
        &self,
        kind: &'static Resource,
        meta: &ObjectMeta,
        status: &impl Serialize,
    ) -> Result<(), ApiError> {
        let patch = json!({"metadata": {"uid": meta.uid}, "status": status});
        let content = "application/strategic-merge-patch+json";
        self.patch_as::<PartialObjectMetadata>(content, kind, &meta.namespaced_name(), "status", &patch)
            .await
            .map(drop)
    }

    async fn patch_as<T: DeserializeOwned>(
        &self,
        content: &str,
        kind: &'static Resource,
        key: &NamespacedName,
        subresource: &str,
        patch: &Value,
    ) -> Result<T, ApiError> {
        let mut path = kind.object_path(key.namespace(), key.name());
        if !subresource.is_empty() {
            path.push('/');
            path.push_str(subresource);
        }
        let request = Request::patch(path).header(http::header::CONTENT_TYPE, content);
        self.send("patch", kind.kind, key, request, patch.to_string().into_bytes()).await
    }

    /// Writes the status of an object. Fields that are `null` in `status` are taken away.
    pub(crate) async fn write_status(
        &self,
        kind: &'static Resource,
        meta: &ObjectMeta,
        status: &impl Serialize,
        precondition: Precondition,
    ) -> Result<(), ApiError> {
        let mut patch = json!({"metadata": {"uid": meta.uid}, "status": status});
        if precondition == Precondition::Version {
            patch["metadata"]["resourceVersion"] = meta.resource_version.as_str().into();
        }
        self.patch::<PartialObjectMetadata>(kind, &meta.namespaced_name(), "status", &patch).await.map(drop)
    }

    /// Deletes an object. One that is already gone is as good as deleted.
    pub(crate) async fn delete(
        &self,
        kind: &'static Resource,
        key: &NamespacedName,
        options: DeleteOptions<'_>,
    ) -> Result<(), ApiError> {
        match self.delete_at(kind.kind, kind.object_path(key.namespace(), key.name()), key, options).await {
            Err(error) if error.is_not_found() => Ok(()),
            result => result,
        }
    }

    /// Deletes what is at a URL path.
    pub(crate) async fn delete_at(
        &self,
        kind: &'static str,
        path: String,
        key: &NamespacedName,
        options: DeleteOptions<'_>,
    ) -> Result<(), ApiError> {
        let request = Request::delete(path).header(http::header::CONTENT_TYPE, "application/json");
        let body = options.to_json().to_string().into_bytes();
        self.send::<serde::de::IgnoredAny>("delete", kind, key, request, body).await.map(drop)
    }

    /// Sends any request; `kind` and `key` are for the error.
    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        verb: &'static str,
        kind: &'static str,
        key: &NamespacedName,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<T, ApiError> {
        let failed = |failure| ApiError { verb, kind, key: key.clone(), failure };
        let request =
            request.body(body).map_err(|error| failed(Failure::Client(kube::Error::HttpError(error))))?;
        // The semaphore is never closed; without a permit the request is merely not held back.
        let _permit = self.in_flight.acquire().await.ok();
        // A server that hangs must not hold a worker for ever.
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.client.request(request)).await;
        answer.map_err(|_| failed(Failure::TimedOut))?.map_err(|error| failed(Failure::Client(error)))
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Api")
    }
}
