//! The storage class and the driver of a new cluster.

use berth_api::feature_gates::FeatureGates;
use berth_api::resource::{CSI_DRIVERS, Resource, STORAGE_CLASSES};
use berth_api::simulated_nodes::CSI_DRIVER;
use berth_client::call::{self, CallError};
use berth_control::claim::is_default_class;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Api;
use crate::view::{PartialObjectMetadata, nullable};

/// Creates the storage class `standard`, whose volumes the simulated provisioner creates, as the default class, and the
/// object of its driver. A cluster that has a default class keeps it.
///
/// # Errors
/// The API server rejects a request or cannot be reached.
pub async fn install_storage_class(client: Client) -> Result<(), CallError> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default, deserialize_with = "nullable")]
        items: Vec<PartialObjectMetadata>,
    }
    let api = Api::new(client, FeatureGates::default());
    let driver = json!({"apiVersion": CSI_DRIVERS.api_version(), "kind": CSI_DRIVERS.kind,
        "metadata": {"name": CSI_DRIVER}, "spec": {"attachRequired": false}});
    create(&api, &CSI_DRIVERS, &driver).await?;
    let classes: List = api.send(call::get(&STORAGE_CLASSES.path(""))).await?;
    if classes.items.iter().any(|class| is_default_class(&class.metadata)) {
        return Ok(());
    }
    let class = json!({"apiVersion": STORAGE_CLASSES.api_version(), "kind": STORAGE_CLASSES.kind,
        "metadata": {"name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": CSI_DRIVER, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer"});
    create(&api, &STORAGE_CLASSES, &class).await
}

/// Creates an object, unless it exists.
async fn create(api: &Api, kind: &'static Resource, object: &Value) -> Result<(), CallError> {
    match api.create(kind, "", object.to_string().into_bytes()).await {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}
