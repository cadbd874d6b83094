//! Requests that start the binding of a pod's volumes: volumes are reserved for their claims (`claimRef`), and claims get
//! the node that their volumes are to be provisioned for (the annotation `selected-node`).
//!
//! Each object is read first and changed only in the version that was read, so that no volume is reserved for two
//! claims. What an earlier attempt or an earlier leader has written already is not written again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_api::object::volume::{
    BOUND_BY_CONTROLLER_ANNOTATION, PersistentVolume, PersistentVolumeClaim, SELECTED_NODE_ANNOTATION,
};
use berth_api::object::{NamespacedName, VolumeDecision};
use berth_api::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use berth_client::call::{self, CallError};
use berth_client::lease::Leadership;
use berth_mirror::{ClaimState, VolumeState};
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::completion::{VolumesWritten, WriteError};

/// The volumes of a pod to bind.
#[derive(Clone)]
pub(crate) struct VolumeWrite {
    pub(crate) namespace: String,
    pub(crate) node: Arc<str>,
    pub(crate) decision: Arc<VolumeDecision>,
    /// Set when the node is deleted: then nothing more is sent.
    pub(crate) abandoned: Arc<AtomicBool>,
}

/// Sends the requests, for a limited number of pods at a time.
#[derive(Clone)]
pub(crate) struct VolumeWriter {
    pub(crate) client: kube::Client,
    pub(crate) leadership: Leadership,
    pub(crate) timeout: Duration,
    pub(crate) permits: Arc<Semaphore>,
}

impl VolumeWriter {
    pub(crate) async fn write(&self, write: &VolumeWrite) -> Result<VolumesWritten, WriteError> {
        let _permit = self.permits.acquire().await;
        let mut written = VolumesWritten::default();
        for (claim, volume) in &write.decision.bind {
            self.reserve(write, claim, volume, &mut written).await?;
        }
        for claim in &write.decision.provision {
            self.select_node(write, claim, &mut written).await?;
        }
        Ok(written)
    }

    async fn reserve(
        &self,
        write: &VolumeWrite,
        claim: &str,
        volume: &str,
        written: &mut VolumesWritten,
    ) -> Result<(), WriteError> {
        let claim_path = PERSISTENT_VOLUME_CLAIMS.object_path(&write.namespace, claim);
        let claim: PersistentVolumeClaim = self.read(&claim_path).await?;
        let path = PERSISTENT_VOLUMES.object_path("", volume);
        let mut volume: PersistentVolume = self.read(&path).await?;
        let metadata = &claim.metadata;
        if !claim.spec.volume_name.is_empty() && claim.spec.volume_name != volume.metadata.name {
            let text = format!("PVC {:?} is bound to volume {:?}", metadata.name, claim.spec.volume_name);
            return Err(WriteError::Failed(text));
        }
        let claim_ref = volume.spec.claim_ref.as_ref();
        let names_claim = |r: &&_| {
            claim_names(r) == (&metadata.namespace, &metadata.name) && [&metadata.uid, ""].contains(&&*r.uid)
        };
        if let Some(other) = claim_ref.filter(|r| !names_claim(r)) {
            let text = format!(
                "volume {:?} is bound to claim \"{}/{}\"",
                volume.metadata.name, other.namespace, other.name
            );
            return Err(WriteError::Failed(text));
        }
        if claim_ref.is_none_or(|r| r.uid.is_empty()) {
            let mut changes = json!({"spec": {"claimRef": {
                "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version(), "kind": PERSISTENT_VOLUME_CLAIMS.kind,
                "namespace": metadata.namespace, "name": metadata.name, "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            }}});
            if claim_ref.is_none() {
                changes["metadata"] = json!({"annotations": {BOUND_BY_CONTROLLER_ANNOTATION: "yes"}});
            }
            let version = volume.metadata.resource_version.clone();
            volume = self.patch(write, &path, &volume.metadata.uid, &version, changes).await?;
        }
        let key = NamespacedName::new(&write.namespace, &metadata.name);
        written.claims.push((key, ClaimState::from(&claim)));
        written.volumes.push((volume.metadata.name.clone(), VolumeState::from(&volume)));
        Ok(())
    }

    /// Tells the provisioner for which node a claim needs a volume.
    async fn select_node(
        &self,
        write: &VolumeWrite,
        claim: &str,
        written: &mut VolumesWritten,
    ) -> Result<(), WriteError> {
        let path = PERSISTENT_VOLUME_CLAIMS.object_path(&write.namespace, claim);
        let key = NamespacedName::new(&write.namespace, claim);
        let mut claim: PersistentVolumeClaim = self.read(&path).await?;
        match claim.metadata.annotation(SELECTED_NODE_ANNOTATION) {
            Some(node) if node == &*write.node => {}
            Some(other) => {
                let text = format!("PVC {:?} is to be provisioned for node {other:?}", claim.metadata.name);
                return Err(WriteError::Failed(text));
            }
            None => {
                let changes =
                    json!({"metadata": {"annotations": {SELECTED_NODE_ANNOTATION: write.node.as_ref()}}});
                let version = claim.metadata.resource_version.clone();
                claim = self.patch(write, &path, &claim.metadata.uid, &version, changes).await?;
            }
        }
        written.claims.push((key, ClaimState::from(&claim)));
        Ok(())
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        call::json(&self.client, call::get(path), self.timeout).await
    }

    /// Changes an object in the version that was read.
    async fn patch<T: DeserializeOwned>(
        &self,
        write: &VolumeWrite,
        path: &str,
        uid: &str,
        version: &str,
        mut changes: Value,
    ) -> Result<T, WriteError> {
        // Checked right before sending: a leader whose lease may have been taken must not send.
        if !self.leadership.leads() || write.abandoned.load(Ordering::Relaxed) {
            return Err(WriteError::NotSent);
        }
        changes["metadata"]["uid"] = uid.into();
        changes["metadata"]["resourceVersion"] = version.into();
        let body = changes.to_string().into_bytes();
        let request = call::with_body(Method::PATCH, path, "application/merge-patch+json", body);
        Ok(call::json(&self.client, request, self.timeout).await?)
    }
}

fn claim_names(claim: &berth_api::object::volume::ClaimReference) -> (&String, &String) {
    (&claim.namespace, &claim.name)
}
