//! Requests that bind a pod's claims of devices: claims are allocated as it was decided and reserved for the pod, and a claim for
//! its extended resources is created. Also the requests that take this back.
//!
//! Each claim is read first and changed only in the version that was read, so that no claim is allocated twice. A request whose
//! result is unknown is followed by another reading: what has been written already is not written again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_api::object::device::{
    AllocationResult, CLAIM_FINALIZER, ClaimDecision, ExtendedResourceClaim, ResourceClaim,
};
use berth_api::object::{NamespacedName, Pod};
use berth_api::read::from_value;
use berth_api::resource::RESOURCE_CLAIMS;
use berth_client::Backoff;
use berth_client::call::{self, CallError};
use berth_client::lease::Leadership;
use berth_mirror::DeviceClaimState;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::workers::pod_path;
use crate::completion::DeviceWriteError;

/// Maximum requests for one claim before the pod returns to the queue.
const MAX_ATTEMPTS: u32 = 5;
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// The longest start of a generated name, as on the API server.
const MAX_GENERATED_BASE: usize = 58;

/// The claims of a pod to bind.
pub(crate) struct DeviceWrite {
    pub(crate) pod: Arc<Pod>,
    pub(crate) claims: Vec<ClaimWrite>,
    /// Set when the node is deleted, or the attempt ended: then nothing more is bound.
    pub(crate) abandoned: Arc<AtomicBool>,
}

/// What is to be written to a claim.
pub(crate) struct ClaimWrite {
    pub(crate) claim: NamespacedName,
    /// Its uid; none for a claim that is made for extended resources.
    pub(crate) uid: Option<String>,
    pub(crate) step: ClaimStep,
    /// What a claim that is made for extended resources requests.
    pub(crate) extended: Option<ExtendedResourceClaim>,
}

pub(crate) enum ClaimStep {
    /// It is to be allocated and reserved.
    Allocate(Box<AllocationResult>),
    /// It is to be reserved; the number stands for what is allocated ([`DeviceClaimState::allocation`]).
    Reserve(u64),
    /// It is to be reserved when it is allocated: another pod of the group is doing so.
    ReserveLater,
    /// It is allocated and reserved already.
    Nothing,
}

impl ClaimWrite {
    /// What is to be written to a claim, as it was decided. `known` is the claim as it was when it was decided.
    pub(crate) fn new(pod: &Pod, decided: &ClaimDecision, known: Option<&DeviceClaimState>) -> ClaimWrite {
        let step = match (&decided.allocation, known.and_then(|known| known.allocation)) {
            (Some(allocation), _) => ClaimStep::Allocate(Box::new(with_share_ids(allocation))),
            (None, _) if !decided.is_reserved_now => ClaimStep::Nothing,
            (None, Some(number)) => ClaimStep::Reserve(number),
            (None, None) => ClaimStep::ReserveLater,
        };
        let claim = match &decided.extended {
            Some(_) => NamespacedName::new(&pod.metadata.namespace, &generated_name(&pod.metadata.name)),
            None => decided.claim.clone(),
        };
        let uid = known.filter(|_| decided.extended.is_none()).map(|known| known.uid.clone());
        ClaimWrite { claim, uid, step, extended: decided.extended.clone() }
    }

    fn path(&self) -> String {
        claim_path(&self.claim)
    }

    /// The claim for a pod's extended resources.
    fn object(&self, pod: &Pod, extended: &ExtendedResourceClaim) -> Value {
        let mut claim =
            ResourceClaim::for_extended_resources(&pod.metadata, self.claim.name(), &extended.requests);
        claim.metadata.generate_name = format!("{}-extended-resources-", pod.metadata.name);
        claim.metadata.finalizers.push(CLAIM_FINALIZER.to_owned());
        let mut object = json!(claim);
        object["apiVersion"] = RESOURCE_CLAIMS.api_version().into();
        object["kind"] = RESOURCE_CLAIMS.kind.into();
        object
    }
}

/// The engine numbers shares. On the API server each has an identifier of its own.
fn with_share_ids(allocation: &AllocationResult) -> AllocationResult {
    let mut allocation = allocation.clone();
    for result in &mut allocation.devices.results {
        result.share_id = result.share_id.as_ref().map(|_| uuid::Uuid::new_v4().to_string());
    }
    allocation
}

/// A name as the API server generates it. It is known before the claim is created, so that a repeated request creates no second
/// claim.
fn generated_name(pod: &str) -> String {
    let base = format!("{pod}-extended-resources-");
    let suffix = std::iter::repeat_with(fastrand::lowercase).take(5);
    base.chars().take(MAX_GENERATED_BASE).chain(suffix).collect()
}

/// Why a try does not succeed.
enum Failure {
    Call(CallError),
    Final(DeviceWriteError),
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Failure {
        Failure::Call(error)
    }
}

fn failed(text: String) -> Failure {
    Failure::Final(DeviceWriteError::Failed(text))
}

/// Sends the requests, for a limited number of claims at a time.
#[derive(Clone)]
pub(crate) struct DeviceWriter {
    pub(crate) client: kube::Client,
    pub(crate) leadership: Leadership,
    pub(crate) timeout: Duration,
    pub(crate) permits: Arc<Semaphore>,
}

impl DeviceWriter {
    /// Writes what was decided. Returns the claims as they are then.
    pub(crate) async fn write(
        &self,
        write: &DeviceWrite,
    ) -> Result<Vec<(NamespacedName, DeviceClaimState)>, DeviceWriteError> {
        let mut written = Vec::new();
        for claim in write.claims.iter().filter(|claim| !matches!(claim.step, ClaimStep::Nothing)) {
            written.push((claim.claim.clone(), self.write_claim(write, claim).await?));
            if let Some(extended) = &claim.extended {
                let status =
                    json!({"resourceClaimName": claim.claim.name(), "requestMappings": extended.mappings});
                self.may_write(write)?;
                self.show_extended(&write.pod, status)
                    .await
                    .map_err(|error| DeviceWriteError::Failed(error.message()))?;
            }
        }
        Ok(written)
    }

    async fn write_claim(
        &self,
        write: &DeviceWrite,
        claim: &ClaimWrite,
    ) -> Result<DeviceClaimState, DeviceWriteError> {
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            let permit = self.permits.acquire().await;
            let result = self.try_claim(write, claim).await;
            drop(permit);
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
                return Err(DeviceWriteError::Failed(text));
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
        let is_reserved = consumers(&found).any(|uid| uid == pod.uid);
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
                // It is made of texts, numbers and lists of them, and so can be written.
                found["status"]["allocation"] = serde_json::to_value(allocation).unwrap_or_default();
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
            reserved.push(json!({"resource": "pods", "name": pod.name, "uid": pod.uid}));
        }
        let written = self.bind(write, Method::PUT, &format!("{path}/status"), &found).await?;
        Ok(Some(state_of(&written)))
    }

    /// Checked right before sending: a leader whose lease may have been taken must not send.
    fn may_write(&self, write: &DeviceWrite) -> Result<(), DeviceWriteError> {
        match self.leadership.leads() && !write.abandoned.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(DeviceWriteError::NotSent),
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

    async fn read(&self, path: &str) -> Result<Value, CallError> {
        call::json(&self.client, call::get(path), self.timeout).await
    }

    async fn send(&self, method: Method, path: &str, object: &Value) -> Result<Value, CallError> {
        call::json(&self.client, call::with_json(method, path, object), self.timeout).await
    }

    /// Writes which claim has the extended resources of a pod; null for none.
    async fn show_extended(&self, pod: &Pod, status: Value) -> Result<(), CallError> {
        let patch =
            json!({"metadata": {"uid": pod.metadata.uid}, "status": {"extendedResourceClaimStatus": status}});
        let path = format!("{}/status", pod_path(pod));
        crate::pod_status::patch_object(&self.client, &path, "application/merge-patch+json", &patch).await?;
        Ok(())
    }

    /// Takes back what was written for a pod, or may have been: its reservations are removed, and the claim for its extended
    /// resources is deleted. Claims stay allocated. Ends when that is done, or this process does not lead any more. Returns the
    /// versions of the claims that remain.
    pub(crate) async fn roll_back(&self, write: &DeviceWrite) -> Vec<(NamespacedName, u64)> {
        let mut versions = Vec::new();
        for claim in &write.claims {
            let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
            while self.leadership.leads() {
                let permit = self.permits.acquire().await;
                let result = match &claim.extended {
                    Some(_) => self.delete_extended(&write.pod, &claim.claim).await.map(|()| None),
                    None => self.release(&write.pod, claim).await,
                };
                drop(permit);
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
        versions
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
        self.show_extended(pod, Value::Null).await
    }

    /// Takes an allocation away that no other pod uses than the given one.
    pub(crate) async fn deallocate(&self, pod: &Pod, claim: &NamespacedName) -> Result<(), CallError> {
        let path = claim_path(claim);
        let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            let mut found = self.read(&path).await?;
            let is_free = consumers(&found).all(|uid| uid == pod.metadata.uid);
            if !is_free || state_of(&found).allocation.is_none() || !self.leadership.leads() {
                return Ok(());
            }
            if let Some(status) = found["status"].as_object_mut() {
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

/// Whether another try would fail in the same way.
fn is_final(error: &CallError) -> bool {
    error.is_refusal() && !error.is_conflict() && error.code() != Some(429)
}

fn claim_path(claim: &NamespacedName) -> String {
    RESOURCE_CLAIMS.object_path(claim.namespace(), claim.name())
}

/// A claim as an answer has it. One that cannot be read counts as not allocated, in no version.
fn state_of(claim: &Value) -> DeviceClaimState {
    from_value::<ResourceClaim>(claim).map(|claim| DeviceClaimState::from(&claim)).unwrap_or_default()
}

/// The uids of the pods that a claim is reserved for.
fn consumers(claim: &Value) -> impl Iterator<Item = &str> {
    let reserved = claim["status"]["reservedFor"].as_array();
    reserved.into_iter().flatten().filter_map(|of| of["uid"].as_str())
}

/// Whether a claim has exactly the devices of an allocation.
fn has_devices(claim: &Value, allocation: &AllocationResult) -> bool {
    let Ok(claim) = from_value::<ResourceClaim>(claim) else { return false };
    let found = claim.status.allocation.unwrap_or_default().devices.results;
    let expected = &allocation.devices.results;
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(a, b)| {
            (&a.request, &a.driver, &a.pool, &a.device, &a.share_id)
                == (&b.request, &b.driver, &b.pool, &b.device, &b.share_id)
        })
}

/// Returns whether the claim did not have it.
fn add_finalizer(claim: &mut Value) -> bool {
    let finalizers = &mut claim["metadata"]["finalizers"];
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    let Some(finalizers) = finalizers.as_array_mut() else { return false };
    let is_new = !finalizers.iter().any(|name| name == CLAIM_FINALIZER);
    if is_new {
        finalizers.push(CLAIM_FINALIZER.into());
    }
    is_new
}

/// Returns whether the claim had it.
fn remove_finalizer(claim: &mut Value) -> bool {
    let Some(finalizers) = claim["metadata"]["finalizers"].as_array_mut() else { return false };
    let n_before = finalizers.len();
    finalizers.retain(|name| name != CLAIM_FINALIZER);
    finalizers.len() < n_before
}
