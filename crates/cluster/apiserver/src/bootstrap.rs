//! The objects that exist in every new cluster.

use berth_api::read::collect_manifests;
use berth_schema::resource::{self, Resource, of_kind};
use serde_json::{Value, json};

use crate::kinds::group_forms::{V1ALPHA2, to_v1beta1};
use crate::lifecycle::dependents;
use crate::store::{Change, Filter, Store, Write, WriteError};
use crate::strategy::now;

const OBJECTS: &str = include_str!("bootstrap.yaml");
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates those that are missing.
///
/// # Errors
/// The storage is broken.
pub(crate) async fn bootstrap(store: &Store) -> Result<(), WriteError> {
    for name in NAMESPACES {
        ensure_namespace(store, name).await?;
    }
    for manifest in collect_manifests(OBJECTS, "bootstrap.yaml").expect("a test reads the text") {
        ensure(store, manifest.value).await?;
    }
    convert_groups(store).await
}

/// Groups that an earlier Berth stored in the form of Kubernetes 1.36.
async fn convert_groups(store: &Store) -> Result<(), WriteError> {
    for resource in [&resource::POD_GROUPS_V1BETA1, &resource::WORKLOADS_V1BETA1] {
        let all = store.page(resource, &Filter::default(), None, None, usize::MAX);
        for object in all.map(|page| page.objects).unwrap_or_default() {
            let value = object.value();
            if value["apiVersion"].as_str().is_some_and(|version| version.ends_with(V1ALPHA2)) {
                let change = Change::Update { expected: object.revision };
                store.write(Write { resource, change, object: to_v1beta1(value).into() }).await?;
            }
        }
    }
    Ok(())
}

/// Makes a namespace and its service account if they are missing.
///
/// # Errors
/// The storage is broken.
pub(crate) async fn ensure_namespace(store: &Store, name: &str) -> Result<(), WriteError> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"}
    });
    ensure(store, namespace).await?;
    for dependent in dependents(&resource::NAMESPACES, name) {
        ensure(store, dependent).await?;
    }
    Ok(())
}

/// Creates an object if it is missing.
///
/// # Errors
/// The storage is broken.
pub(crate) async fn ensure(store: &Store, mut value: Value) -> Result<(), WriteError> {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let Some(resource): Option<&'static Resource> = of_kind(text("apiVersion"), text("kind")) else {
        return Ok(());
    };
    value["metadata"]["uid"] = Value::from(uuid::Uuid::new_v4().to_string());
    value["metadata"]["creationTimestamp"] = Value::from(now());
    match store.write(Write { resource, change: Change::Import, object: value.into() }).await {
        Ok(_) | Err(WriteError::AlreadyExists) => Ok(()),
        Err(error) => Err(error),
    }
}
