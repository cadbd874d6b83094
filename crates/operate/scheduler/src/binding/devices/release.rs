//! Requests that take back what was written to claims, and that take allocations away.

use berth_api::object::{NamespacedName, Pod};
use berth_client::Backoff;
use berth_client::call::CallError;
use http::Method;
use serde_json::{Value, json};

use super::claim::{claim_path, consumers, is_final, remove_finalizer, state_of};
use super::write::{ClaimWrite, DeviceWrite};
use super::writer::{
    DeviceWriter, EXTENDED_RESOURCES, FIRST_RETRY, LONGEST_RETRY, MAX_ATTEMPTS, NODE_ALLOCATABLE,
};

impl DeviceWriter {
    /// Takes back what was written for a pod, or may have been: its reservations are removed, and the claim for its extended
    /// resources is deleted. Claims stay allocated. Ends when that is done, or this process does not lead any more. Returns the
    /// versions of the claims that remain.
    pub(crate) async fn roll_back(&self, write: &DeviceWrite) -> Vec<(NamespacedName, u64)> {
        let mut versions = Vec::new();
        for claim in &write.claims {
            let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
            while self.leadership.leads() {
                let held = (self.locks.lock(&claim.claim).await, self.permits.acquire().await);
                let result = match &claim.extended {
                    Some(_) => self.delete_extended(&write.pod, &claim.claim).await.map(|()| None),
                    None => self.release(&write.pod, claim).await,
                };
                drop(held);
                let error = match result {
                    Ok(version) => {
                        versions.extend(version.map(|version| (claim.claim.clone(), version)));
                        break;
                    }
                    Err(error) => error,
                };
                let wait = backoff.failed(fastrand::f64());
                if is_final(&error) {
                    tracing::warn!("the reservation of claim {} stays: {error}", claim.claim);
                    break;
                }
                tokio::time::sleep(error.retry_after().unwrap_or(wait)).await;
            }
        }
        if !write.node_allocatable.is_empty() && self.leadership.leads() {
            self.hide_node_allocatable(&write.pod).await;
        }
        versions
    }

    /// Removes from the status of a pod what its devices take of the node.
    async fn hide_node_allocatable(&self, pod: &Pod) {
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        while let Err(error) = self.show(pod, NODE_ALLOCATABLE, Value::Null).await {
            let wait = backoff.failed(fastrand::f64());
            if is_final(&error) || !self.leadership.leads() {
                tracing::warn!("the status of pod {} stays: {error}", pod.key());
                return;
            }
            tokio::time::sleep(error.retry_after().unwrap_or(wait)).await;
        }
    }

    /// Removes the reservation of a claim for a pod.
    async fn release(&self, pod: &Pod, claim: &ClaimWrite) -> Result<Option<u64>, CallError> {
        let path = claim.path();
        let mut found = match self.read(&path).await {
            Err(error) if error.is_not_found() => return Ok(None),
            found => found?,
        };
        let state = state_of(&found);
        if claim.uid.as_ref().is_some_and(|uid| *uid != state.uid) {
            return Ok(Some(state.version));
        }
        let written = if consumers(&found).any(|uid| uid == pod.metadata.uid) {
            let reserved = found["status"]["reservedFor"].as_array_mut();
            reserved.into_iter().for_each(|list| list.retain(|of| of["uid"] != pod.metadata.uid.as_str()));
            self.send(Method::PUT, &format!("{path}/status"), &found).await?
        } else if state.allocation.is_none() && remove_finalizer(&mut found) {
            // An allocation that is still on its way is refused then: the claim has another version.
            self.send(Method::PUT, &path, &found).await?
        } else {
            found
        };
        Ok(Some(state_of(&written).version))
    }

    /// Deletes the claim for the extended resources of a pod.
    pub(crate) async fn delete_extended(&self, pod: &Pod, claim: &NamespacedName) -> Result<(), CallError> {
        let path = claim_path(claim);
        match self.read(&path).await {
            Err(error) if error.is_not_found() => {}
            found => {
                let mut found = found?;
                let uid = found["metadata"]["uid"].clone();
                if remove_finalizer(&mut found) {
                    self.send(Method::PUT, &path, &found).await?;
                }
                let body =
                    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
                match self.send(Method::DELETE, &path, &body).await {
                    Err(error) if !error.is_not_found() => return Err(error),
                    _ => {}
                }
            }
        }
        self.show(pod, EXTENDED_RESOURCES, Value::Null).await
    }

    /// Takes an allocation away that no other pod uses than the given one. If others use it, only the reservation of this one is
    /// removed. `allocation` is the number of the allocation that was looked at: a later one stays, with its reservations.
    pub(crate) async fn deallocate(
        &self,
        pod: &Pod,
        claim: &NamespacedName,
        allocation: Option<u64>,
    ) -> Result<(), CallError> {
        let path = claim_path(claim);
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            let mut found = self.read(&path).await?;
            let is_own = |uid: &str| uid == pod.metadata.uid;
            let (is_free, is_reserved) = (consumers(&found).all(is_own), consumers(&found).any(is_own));
            let is_other = allocation.is_none() || state_of(&found).allocation != allocation;
            if !(is_free || is_reserved) || is_other || !self.leadership.leads() {
                return Ok(());
            }
            if !is_free && let Some(reserved) = found["status"]["reservedFor"].as_array_mut() {
                reserved.retain(|consumer| !consumer["uid"].as_str().is_some_and(is_own));
            } else if let Some(status) = found["status"].as_object_mut() {
                for field in ["allocation", "reservedFor", "devices"] {
                    status.remove(field);
                }
            }
            let Err(error) = self.send(Method::PUT, &format!("{path}/status"), &found).await else {
                return Ok(());
            };
            let wait = backoff.failed(fastrand::f64());
            if is_final(&error) || backoff.failures() >= MAX_ATTEMPTS {
                return Err(error);
            }
            tokio::time::sleep(error.retry_after().unwrap_or(wait)).await;
        }
    }
}
