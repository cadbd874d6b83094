//! Requests of the controllers to the API server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::NamespacedName;
use berth_api::resource::Resource;
use berth_client::call::{self, CallError};
use http::{Method, Request};
use kube::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::view::{ObjectMeta, PartialObjectMetadata};

/// Maximum concurrent requests of all controllers together.
const MAX_IN_FLIGHT: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    in_flight: Arc<Semaphore>,
    /// Those of the API server: the versions that it has depend on them.
    gates: FeatureGates,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// Same uid. For a status computed from scratch each time by one controller, which syncs again
    /// after each change: the last write is correct.
    Uid,
    /// Same resource version. For a status that builds on the previous one.
    Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions<'a> {
    /// Only the object with this uid.
    pub(crate) uid: Option<&'a str>,
    /// Only this version of it.
    pub(crate) resource_version: Option<&'a str>,
    /// Grace period in seconds; the object's own when absent.
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
}

impl DeleteOptions<'_> {
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
    pub(crate) fn new(client: Client, gates: FeatureGates) -> Self {
        Api { client, in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)), gates }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Reads the current state of an object; `None` if it does not exist.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        kind: &'static Resource,
        key: &NamespacedName,
    ) -> Result<Option<T>, CallError> {
        match self.send(call::get(&self.path(kind, key))).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn create(
        &self,
        kind: &'static Resource,
        namespace: &str,
        object: Vec<u8>,
    ) -> Result<PartialObjectMetadata, CallError> {
        self.create_as(kind, namespace, object).await
    }

    /// As [`Self::create`]; returns the created object.
    pub(crate) async fn create_as<T: DeserializeOwned>(
        &self,
        kind: &'static Resource,
        namespace: &str,
        object: Vec<u8>,
    ) -> Result<T, CallError> {
        self.send(call::with_body(
            Method::POST,
            &self.served(kind).path(namespace),
            "application/json",
            object,
        ))
        .await
    }

    /// Applies a JSON merge patch to an object, or to its subresource.
    ///
    /// With a `metadata.resourceVersion` in the patch, it fails with a conflict when the object has changed.
    pub(crate) async fn patch(
        &self,
        kind: &'static Resource,
        key: &NamespacedName,
        subresource: &str,
        patch: &Value,
    ) -> Result<PartialObjectMetadata, CallError> {
        self.patch_as(kind, key, subresource, patch).await
    }

    /// As [`Self::patch`]; returns the changed object.
    pub(crate) async fn patch_as<T: DeserializeOwned>(
        &self,
        kind: &'static Resource,
        key: &NamespacedName,
        subresource: &str,
        patch: &Value,
    ) -> Result<T, CallError> {
        self.send(self.patch_request("application/merge-patch+json", kind, key, subresource, patch)).await
    }

    /// As [`Self::patch`] of the object itself; `None` if it does not exist any more.
    pub(crate) async fn patch_existing(
        &self,
        kind: &'static Resource,
        key: &NamespacedName,
        patch: &Value,
    ) -> Result<Option<PartialObjectMetadata>, CallError> {
        match self.patch(kind, key, "", patch).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets a field of the metadata of an object that has not changed; `None` if it does not exist any more.
    pub(crate) async fn set_metadata(
        &self,
        kind: &'static Resource,
        meta: &ObjectMeta,
        field: &str,
        value: Value,
    ) -> Result<Option<PartialObjectMetadata>, CallError> {
        let patch =
            json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, field: value}});
        self.patch_existing(kind, &meta.namespaced_name(), &patch).await
    }

    /// Merges conditions into a status by type, and keeps those of other types.
    pub(crate) async fn merge_status(
        &self,
        kind: &'static Resource,
        meta: &ObjectMeta,
        status: &impl Serialize,
    ) -> Result<(), CallError> {
        let patch = json!({"metadata": {"uid": meta.uid}, "status": status});
        let content = "application/strategic-merge-patch+json";
        let request = self.patch_request(content, kind, &meta.namespaced_name(), "status", &patch);
        self.send::<PartialObjectMetadata>(request).await.map(drop)
    }

    /// Writes the status of an object. `null` fields in `status` are removed.
    pub(crate) async fn write_status(
        &self,
        kind: &'static Resource,
        meta: &ObjectMeta,
        status: &impl Serialize,
        precondition: Precondition,
    ) -> Result<(), CallError> {
        let mut patch = json!({"metadata": {"uid": meta.uid}, "status": status});
        if precondition == Precondition::Version {
            patch["metadata"]["resourceVersion"] = meta.resource_version.as_str().into();
        }
        self.patch(kind, &meta.namespaced_name(), "status", &patch).await.map(drop)
    }

    /// Deletes an object. A missing object counts as success.
    pub(crate) async fn delete(
        &self,
        kind: &'static Resource,
        key: &NamespacedName,
        options: DeleteOptions<'_>,
    ) -> Result<(), CallError> {
        match self.delete_at(&self.path(kind, key), options).await {
            Err(error) if error.is_not_found() => Ok(()),
            result => result,
        }
    }

    /// Deletes the object or the collection at a URL path.
    pub(crate) async fn delete_at(&self, path: &str, options: DeleteOptions<'_>) -> Result<(), CallError> {
        let request = call::with_json(Method::DELETE, path, &options.to_json());
        self.send::<serde::de::IgnoredAny>(request).await.map(drop)
    }

    pub(crate) async fn send<T: DeserializeOwned>(&self, request: Request<Vec<u8>>) -> Result<T, CallError> {
        // The semaphore is never closed; without a permit the request is only not throttled.
        let _permit = self.in_flight.acquire().await.ok();
        call::json(&self.client, request, TIMEOUT).await
    }

    /// A resource in the version that the API server has.
    pub(crate) fn served(&self, kind: &'static Resource) -> &'static Resource {
        kind.served(self.gates)
    }

    fn path(&self, kind: &'static Resource, key: &NamespacedName) -> String {
        self.served(kind).object_path(key.namespace(), key.name())
    }

    fn patch_request(
        &self,
        content: &'static str,
        kind: &'static Resource,
        key: &NamespacedName,
        subresource: &str,
        patch: &Value,
    ) -> Request<Vec<u8>> {
        let mut path = self.path(kind, key);
        if !subresource.is_empty() {
            path.push('/');
            path.push_str(subresource);
        }
        call::with_body(Method::PATCH, &path, content, patch.to_string().into_bytes())
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Api")
    }
}
