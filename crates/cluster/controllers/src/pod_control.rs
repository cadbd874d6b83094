//! Creates pods from templates, and deletes pods.

use std::sync::Arc;

use berth_api::resource::PODS;
use futures::future::join_all;
use serde_json::{Map, Value, json};

use super::api::{Api, DeleteOptions};
use super::events::{Recorder, Reference};
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

/// The result of a batch of creations.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Created.
    pub(crate) n_created: usize,
    /// Failed for a reason other than the pod itself, or not attempted after a failure: they will not appear.
    pub(crate) n_missing: usize,
    /// The first failure.
    pub(crate) error: Option<CallError>,
}

/// Creates pods in batches of one, two, four and so on until a failure: a template that the server refuses costs one
/// request, not hundreds.
pub(crate) async fn create_pods(
    api: &Api,
    recorder: &Recorder,
    about: &Reference,
    pods: Vec<Vec<u8>>,
) -> Batch {
    let mut batch = Batch::default();
    let mut size = 1;
    let mut pods = pods.into_iter();
    loop {
        let some: Vec<_> = pods.by_ref().take(size).collect();
        if some.is_empty() {
            return batch;
        }
        let namespace = about.namespace();
        let created =
            some.into_iter().map(|body| api.create::<PartialObjectMetadata>(&PODS, namespace, body));
        for result in join_all(created).await {
            match result {
                Ok(pod) => {
                    batch.n_created += 1;
                    let message = format!("Created pod: {}", pod.metadata.name);
                    recorder.normal(about, "SuccessfulCreate", message);
                }
                Err(error) => {
                    batch.n_missing += 1;
                    if !error.is_namespace_terminating() {
                        let message = format!("Error creating: {}", error.message());
                        recorder.warning(about, "FailedCreate", message);
                    }
                    batch.error.get_or_insert(error);
                }
            }
        }
        if batch.error.is_some() {
            batch.n_missing += pods.len();
            return batch;
        }
        size *= 2;
    }
}

/// Deletes one pod, if its uid still matches.
pub(crate) async fn delete_pod(
    api: &Api,
    recorder: &Recorder,
    about: &Reference,
    pod: &Pod,
) -> Result<(), CallError> {
    let key = pod.metadata.namespaced_name();
    match api.delete(&PODS, &key, DeleteOptions::of_uid(&pod.metadata.uid)).await {
        Ok(()) => {
            recorder.normal(about, "SuccessfulDelete", format!("Deleted pod: {}", key.name()));
            Ok(())
        }
        // Another pod uses its name now.
        Err(error) if error.is_stale() => Ok(()),
        Err(error) => {
            recorder.warning(about, "FailedDelete", format!("Error deleting: {}", error.message()));
            Err(error)
        }
    }
}

/// Deletes pods concurrently; returns those that failed with the error.
pub(crate) async fn delete_pods(
    api: &Api,
    recorder: &Recorder,
    about: &Reference,
    pods: &[Arc<Pod>],
) -> Vec<(Arc<Pod>, CallError)> {
    let deleted = pods.iter().map(|pod| async move {
        delete_pod(api, recorder, about, pod).await.err().map(|error| (pod.clone(), error))
    });
    join_all(deleted).await.into_iter().flatten().collect()
}
