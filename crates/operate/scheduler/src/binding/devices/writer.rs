//! Requests that bind a pod's claims of devices: claims are allocated as it was decided and reserved for the pod, and a claim for
//! its extended resources is created.
//!
//! Each claim is read first and changed only in the version that was read, so that no claim is allocated twice. A request whose
//! result is unknown is followed by another reading: what has been written already is not written again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_api::object::{NamespacedName, Pod};
use berth_api::resource::RESOURCE_CLAIMS;
use berth_client::Backoff;
use berth_client::call::{self, CallError};
use berth_client::lease::Leadership;
use berth_mirror::DeviceClaimState;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::claim::{add_finalizer, claim_path, consumers, has_devices, is_final, state_of};
use super::locks::ClaimLocks;
use super::write::{ClaimStep, ClaimWrite, DeviceWrite};
use crate::binding::workers::pod_path;
use crate::completion::WriteError;

/// Maximum requests for one claim before the pod returns to the queue.
pub(super) const MAX_ATTEMPTS: u32 = 5;
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(50);
pub(super) const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// Which claim has the extended resources of the pod.
pub(super) const EXTENDED_RESOURCES: &str = "extendedResourceClaimStatus";
/// What the devices of the pod take of its node.
pub(super) const NODE_ALLOCATABLE: &str = "nodeAllocatableResourceClaimStatuses";

/// Why a try does not succeed.
enum Failure {
    Call(CallError),
    Final(WriteError),
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Failure {
        Failure::Call(error)
    }
}

fn failed(text: String) -> Failure {
    Failure::Final(WriteError::Failed(text))
}

/// Sends the requests, for a limited number of claims at a time.
#[derive(Clone)]
pub(crate) struct DeviceWriter {
    client: kube::Client,
    pub(super) leadership: Leadership,
    timeout: Duration,
    pub(super) permits: Arc<Semaphore>,
    pub(super) locks: ClaimLocks,
}

impl DeviceWriter {
    /// Sends requests for this many claims at a time.
    pub(crate) fn new(
        client: kube::Client,
        leadership: Leadership,
        timeout: Duration,
        n_at_once: usize,
    ) -> DeviceWriter {
        let permits = Arc::new(Semaphore::new(n_at_once.max(1)));
        DeviceWriter { client, leadership, timeout, permits, locks: ClaimLocks::default() }
    }

    /// Writes what was decided. Returns the claims as they are then.
    pub(crate) async fn write(
        &self,
        write: &DeviceWrite,
    ) -> Result<Vec<(NamespacedName, DeviceClaimState)>, WriteError> {
        let mut written = Vec::new();
        for claim in write.claims.iter().filter(|claim| !matches!(claim.step, ClaimStep::Nothing)) {
            written.push((claim.claim.clone(), self.write_claim(write, claim).await?));
            if let Some(extended) = &claim.extended {
                let status =
                    json!({"resourceClaimName": claim.claim.name(), "requestMappings": extended.mappings});
                self.may_write(write)?;
                self.show(&write.pod, EXTENDED_RESOURCES, status).await?;
            }
        }
        if !write.node_allocatable.is_empty() {
            self.may_write(write)?;
            self.show(&write.pod, NODE_ALLOCATABLE, json!(write.node_allocatable)).await?;
        }
        Ok(written)
    }

    async fn write_claim(
        &self,
        write: &DeviceWrite,
        claim: &ClaimWrite,
    ) -> Result<DeviceClaimState, WriteError> {
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            let held = (self.locks.lock(&claim.claim).await, self.permits.acquire().await);
            let result = self.try_claim(write, claim).await;
            drop(held);
            let error = match result {
                Ok(Some(state)) => return Ok(state),
                // The other pod is allocating it, or the whole group is taken back.
                Ok(None) => {
                    self.may_write(write)?;
                    tokio::time::sleep(FIRST_RETRY).await;
                    continue;
                }
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Call(error)) => error,
            };
            let wait = backoff.failed(fastrand::f64());
            if is_final(&error) || backoff.failures() >= MAX_ATTEMPTS {
                let what = match claim.step {
                    ClaimStep::Allocate(_) => "allocation and reservation",
                    _ => "reservation",
                };
                let text = format!("add {what} to claim {}: {}", claim.claim, error.message());
                return Err(WriteError::Failed(text));
            }
            tokio::time::sleep(error.retry_after().unwrap_or(wait)).await;
        }
    }

    /// Writes a claim, in the version that is read now. None if it has to be allocated by another pod first.
    async fn try_claim(
        &self,
        write: &DeviceWrite,
        claim: &ClaimWrite,
    ) -> Result<Option<DeviceClaimState>, Failure> {
        let (path, pod) = (claim.path(), &write.pod.metadata);
        let mut found = match (self.read(&path).await, &claim.extended) {
            (Err(error), Some(extended)) if error.is_not_found() => {
                let object = claim.object(&write.pod, extended);
                let collection = RESOURCE_CLAIMS.path(&pod.namespace);
                self.bind(write, Method::POST, &collection, &object).await?
            }
            (found, _) => found?,
        };
        let state = state_of(&found);
        let owner = || found["metadata"]["ownerReferences"][0]["uid"].as_str();
        let is_other = match &claim.uid {
            Some(uid) => *uid != state.uid,
            None => owner() != Some(pod.uid.as_str()),
        };
        if is_other || found["metadata"]["deletionTimestamp"].is_string() {
            return Err(failed(format!("claim {} got deleted in the meantime", claim.claim)));
        }
        let is_reserved = consumers(&found).any(|uid| uid == claim.consumer.uid);
        match (&claim.step, state.allocation) {
            (ClaimStep::Allocate(allocation), Some(_)) if is_reserved && has_devices(&found, allocation) => {
                return Ok(Some(state));
            }
            (ClaimStep::Allocate(_), Some(_)) => {
                return Err(failed(format!("claim {} got allocated elsewhere in the meantime", claim.claim)));
            }
            (ClaimStep::Allocate(allocation), None) => {
                if add_finalizer(&mut found) {
                    found = self.bind(write, Method::PUT, &path, &found).await?;
                }
                found["status"]["allocation"] = serde_json::to_value(allocation)
                    .map_err(|error| failed(format!("claim {}: its allocation: {error}", claim.claim)))?;
            }
            (ClaimStep::Nothing, _) => return Ok(Some(state)),
            (ClaimStep::Reserve(_) | ClaimStep::ReserveLater, Some(_)) if is_reserved => {
                return Ok(Some(state));
            }
            (ClaimStep::Reserve(number), Some(found)) if *number == found => {}
            (ClaimStep::Reserve(_), _) => {
                return Err(failed(format!("claim {} got deallocated in the meantime", claim.claim)));
            }
            (ClaimStep::ReserveLater, None) => return Ok(None),
            (ClaimStep::ReserveLater, Some(_)) => {}
        }
        let status = &mut found["status"];
        if status["allocation"]["allocationTimestamp"].is_null() {
            let now = berth_api::object::time::rfc3339(jiff::Timestamp::now());
            status["allocation"]["allocationTimestamp"] = now.into();
        }
        if !status["reservedFor"].is_array() {
            status["reservedFor"] = json!([]);
        }
        if let Some(reserved) = status["reservedFor"].as_array_mut() {
            reserved.push(json!(claim.consumer));
        }
        let written = self.bind(write, Method::PUT, &format!("{path}/status"), &found).await?;
        Ok(Some(state_of(&written)))
    }

    /// Checked right before sending: a leader whose lease may have been taken must not send.
    fn may_write(&self, write: &DeviceWrite) -> Result<(), WriteError> {
        match self.leadership.leads() && !write.abandoned.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(WriteError::NotSent),
        }
    }

    async fn bind(
        &self,
        write: &DeviceWrite,
        method: Method,
        path: &str,
        object: &Value,
    ) -> Result<Value, Failure> {
        self.may_write(write).map_err(Failure::Final)?;
        Ok(self.send(method, path, object).await?)
    }

    pub(super) async fn read(&self, path: &str) -> Result<Value, CallError> {
        call::json(&self.client, call::get(path), self.timeout).await
    }

    /// Whether a claim does not exist. Asks until the API server answers.
    pub(super) async fn is_gone(&self, claim: &NamespacedName) -> bool {
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            let Err(error) = self.read(&claim_path(claim)).await else { return false };
            if error.is_not_found() || is_final(&error) {
                return error.is_not_found();
            }
            let wait = backoff.failed(fastrand::f64());
            tokio::time::sleep(error.retry_after().unwrap_or(wait)).await;
        }
    }

    pub(super) async fn send(&self, method: Method, path: &str, object: &Value) -> Result<Value, CallError> {
        call::json(&self.client, call::with_json(method, path, object), self.timeout).await
    }

    /// Writes a field of the status of a pod; null for none.
    pub(super) async fn show(&self, pod: &Pod, field: &str, value: Value) -> Result<(), CallError> {
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {field: value}});
        let path = format!("{}/status", pod_path(pod));
        crate::pod_status::patch_object(&self.client, &path, "application/merge-patch+json", &patch).await?;
        Ok(())
    }
}
