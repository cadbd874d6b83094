//! Creates pods from templates, and deletes pods.

use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_api::resource::PODS;
use futures::future::join_all;
use serde_json::{Map, Value, json};

use super::api::{Api, DeleteOptions};
use super::events::{Recorder, Reference};
use super::expectations::Expectations;
use super::informers::{Caches, Informers};
use super::ownership::Owner;
use super::view::{PartialObjectMetadata, Pod};
use berth_client::call::CallError;

/// Maximum pods created or deleted in one sync.
pub(crate) const BURST: usize = 500;

/// A pod from a template, with its owner's name prefix and reference.
pub(crate) fn pod_from_template(template: &Value, owner: Owner<'_>) -> Map<String, Value> {
    let empty = Map::new();
    let from = template.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut metadata = Map::new();
    metadata.insert("generateName".to_owned(), format!("{}-", owner.meta.name).into());
    metadata.insert("namespace".to_owned(), (*owner.meta.namespace).into());
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = from.get(field).filter(|value| !value.is_null()) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    metadata.insert("ownerReferences".to_owned(), json!([owner.reference()]));
    let mut pod = Map::new();
    pod.insert("apiVersion".to_owned(), "v1".into());
    pod.insert("kind".to_owned(), "Pod".into());
    pod.insert("metadata".to_owned(), metadata.into());
    pod.insert("spec".to_owned(), template.get("spec").cloned().unwrap_or_else(|| json!({})));
    pod
}

/// Ensures that a field of an object is itself an object, and returns it.
pub(crate) fn object_at<'a>(object: &'a mut Map<String, Value>, field: &str) -> &'a mut Map<String, Value> {
    let value = object.entry(field).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// Creates and deletes the pods of a controller's objects, and expects the watch to show it.
pub(crate) struct PodControl {
    pub(crate) api: Api,
    pub(crate) recorder: Recorder,
    pub(crate) caches: Caches,
    pub(crate) expectations: Arc<Expectations>,
}

impl PodControl {
    pub(crate) fn new(api: &Api, recorder: Recorder, informers: &Informers) -> Self {
        let caches = informers.caches();
        PodControl { api: api.clone(), recorder, caches, expectations: Arc::default() }
    }

    /// Creates pods in batches of one, two, four and so on until a failure: a template that the server refuses costs one
    /// request, not hundreds. Returns the first failure.
    pub(crate) async fn create(
        &self,
        owner: &NamespacedName,
        about: &Reference,
        pods: Vec<Vec<u8>>,
    ) -> Option<CallError> {
        self.expectations.expect_creations(owner, pods.len());
        let (mut pods, mut size, mut error) = (pods.into_iter(), 1, None);
        while error.is_none() && pods.len() > 0 {
            let batch = pods.by_ref().take(size);
            let created = join_all(batch.map(|body| self.api.create(&PODS, owner.namespace(), body))).await;
            for failure in created.into_iter().filter_map(|created| self.report(about, created).err()) {
                // It will not appear.
                self.expectations.creations_seen(owner, 1);
                error.get_or_insert(failure);
            }
            size *= 2;
        }
        self.expectations.creations_seen(owner, pods.len());
        error
    }

    fn report(
        &self,
        about: &Reference,
        created: Result<PartialObjectMetadata, CallError>,
    ) -> Result<(), CallError> {
        let pod = created.inspect_err(|error| {
            if !error.is_namespace_terminating() {
                self.recorder.warning(about, "FailedCreate", format!("Error creating: {}", error.message()));
            }
        })?;
        self.recorder.normal(about, "SuccessfulCreate", format!("Created pod: {}", pod.metadata.name));
        Ok(())
    }

    /// Deletes pods concurrently, if their uids still match. Returns the first failure.
    pub(crate) async fn delete(
        &self,
        owner: &NamespacedName,
        about: &Reference,
        pods: &[Arc<Pod>],
    ) -> Option<CallError> {
        self.expectations.expect_deletions(owner, pods.iter().map(|pod| pod.metadata.uid.clone()));
        let deleted = join_all(pods.iter().map(|pod| self.delete_one(about, pod))).await;
        let mut error = None;
        for (pod, deleted) in pods.iter().zip(deleted) {
            let now = self.caches.pods.get(&pod.metadata.namespaced_name());
            // A deletion that the watch reported before it was expected is not reported again.
            let is_seen =
                now.is_none_or(|now| now.metadata.uid != pod.metadata.uid || now.metadata.is_deleting());
            if is_seen || deleted.is_err() {
                self.expectations.deletion_seen(owner, &pod.metadata.uid);
            }
            error = error.or(deleted.err());
        }
        error
    }

    async fn delete_one(&self, about: &Reference, pod: &Pod) -> Result<(), CallError> {
        let key = pod.metadata.namespaced_name();
        match self.api.delete(&PODS, &key, DeleteOptions::of_uid(&pod.metadata.uid)).await {
            Ok(()) => {
                self.recorder.normal(about, "SuccessfulDelete", format!("Deleted pod: {}", key.name()));
                Ok(())
            }
            // Another pod uses its name now.
            Err(error) if error.is_stale() => Ok(()),
            Err(error) => {
                self.recorder.warning(about, "FailedDelete", format!("Error deleting: {}", error.message()));
                Err(error)
            }
        }
    }
}
