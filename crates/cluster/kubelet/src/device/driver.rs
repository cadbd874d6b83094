//! A simulated driver for all nodes: it publishes their devices, and reports about allocated ones.

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::device::{AllocatedDeviceStatus, DeviceRequestAllocationResult};
use berth_api::object::{Condition, NamespacedName, PartialObjectMetadata};
use berth_api::resource::{NODES, RESOURCE_CLAIMS, RESOURCE_SLICES};
use berth_client::call::{self, CallError};
use berth_client::connect::{self, ConnectError, Connection};
use berth_client::{Cache, Change, ChangedKeys, Informer, WatchOptions};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::claims::Claim;
use super::template::DeviceTemplate;
use crate::request::{self, MERGE};

/// Until a failed request is sent again.
const RETRY: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(15);

struct Driver {
    client: Client,
    templates: Vec<DeviceTemplate>,
    nodes: Arc<Cache<PartialObjectMetadata>>,
    slices: Arc<Cache<PartialObjectMetadata>>,
    claims: Arc<Cache<Claim>>,
    changed_nodes: Arc<ChangedKeys>,
    changed_claims: Arc<ChangedKeys>,
}

/// Publishes the devices of the templates until `stop`: a slice that exists stays as it is, so that users can change it, and one that is
/// deleted comes back with its node. In the status of claims, it sets the binding conditions of allocated devices.
pub fn run_device_driver(
    connection: impl Into<Connection>,
    templates: Vec<DeviceTemplate>,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<(), ConnectError>> {
    let client = connect::client(connection.into());
    // Boxed here: the body of an `async fn` is compiled in each crate that polls it.
    async move {
        run(client?, templates, stop).await;
        Ok(())
    }
    .boxed()
}

async fn run(client: Client, templates: Vec<DeviceTemplate>, stop: CancellationToken) {
    let mut nodes = Informer::<PartialObjectMetadata>::new(WatchOptions::new(NODES.path("")));
    let mut slices = Informer::<PartialObjectMetadata>::new(WatchOptions::new(RESOURCE_SLICES.path("")));
    let mut claims = Informer::<Claim>::new(WatchOptions::new(RESOURCE_CLAIMS.path("")));
    let driver = Driver {
        client: client.clone(),
        templates,
        nodes: nodes.cache(),
        slices: slices.cache(),
        claims: claims.cache(),
        changed_nodes: Arc::default(),
        changed_claims: Arc::default(),
    };
    let keys = driver.changed_nodes.clone();
    nodes.on_change(move |change: &Change<'_, PartialObjectMetadata>| {
        // Heartbeats change neither.
        let same = |old: &PartialObjectMetadata, new: &PartialObjectMetadata| {
            (&old.metadata.uid, &old.metadata.labels) == (&new.metadata.uid, &new.metadata.labels)
        };
        if let Some(node) = change.new.filter(|new| change.old.is_none_or(|old| !same(old, new))) {
            keys.add(node.metadata.namespaced_name());
        }
    });
    let keys = driver.changed_nodes.clone();
    slices.on_change(move |change: &Change<'_, PartialObjectMetadata>| {
        let gone = change.old.filter(|_| change.new.is_none());
        let owners = gone.into_iter().flat_map(|slice| slice.metadata.owner_references.iter());
        owners.for_each(|owner| keys.add(NamespacedName::new("", &owner.name)));
    });
    let keys = driver.changed_claims.clone();
    claims.on_change(move |change: &Change<'_, Claim>| {
        if let Some(claim) = change.new.filter(|claim| claim.status.allocation.is_some()) {
            keys.add(claim.metadata.namespaced_name());
        }
    });
    let mut is_synced = slices.synced();
    let _stops_informers = {
        let stop = stop.child_token();
        tokio::spawn(nodes.run(client.clone(), stop.clone()));
        tokio::spawn(slices.run(client.clone(), stop.clone()));
        tokio::spawn(claims.run(client, stop.clone()));
        stop.drop_guard()
    };
    tokio::select! {
        _ = is_synced.wait_for(|synced| *synced) => {}
        () = stop.cancelled() => return,
    }
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            nodes = driver.changed_nodes.take() => {
                for node in nodes {
                    let published = driver.publish(&node).await;
                    retry_failed(published, "publish the devices of", &driver.changed_nodes, node);
                }
            }
            claims = driver.changed_claims.take() => {
                for claim in claims {
                    let reported = driver.report(&claim).await;
                    retry_failed(reported, "report about the devices of", &driver.changed_claims, claim);
                }
            }
        }
    }
}

fn retry_failed(result: Result<(), CallError>, what: &str, keys: &Arc<ChangedKeys>, key: NamespacedName) {
    if let Err(error) = result {
        tracing::warn!("could not {what} {key}: {error}");
        add_later(keys, key, RETRY);
    }
}

fn add_later(keys: &Arc<ChangedKeys>, key: NamespacedName, after: Duration) {
    let keys = keys.clone();
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        keys.add(key);
    });
}

impl Driver {
    /// Creates the slices of a node that do not exist.
    async fn publish(&self, node: &NamespacedName) -> Result<(), CallError> {
        let Some(found) = self.nodes.get(node) else { return Ok(()) };
        let name = node.name();
        for template in self.templates.iter().filter(|template| template.is_for(name, &found.metadata.labels))
        {
            for slice in template.slices(name, &found.metadata.uid) {
                let slice_name = slice["metadata"]["name"].as_str().unwrap_or_default();
                if self.slices.get(&NamespacedName::new("", slice_name)).is_some() {
                    continue;
                }
                match self.send(request::create(&RESOURCE_SLICES.path(""), &slice)).await {
                    Err(error) if error.is_already_exists() => {}
                    result => result?,
                }
            }
        }
        Ok(())
    }

    /// Writes the statuses of the allocated devices of a claim that have none.
    async fn report(&self, key: &NamespacedName) -> Result<(), CallError> {
        let Some(claim) = self.claims.get(key) else { return Ok(()) };
        let now = Timestamp::now();
        let Some(allocation) = &claim.status.allocation else { return Ok(()) };
        let allocated = allocation.allocation_timestamp.unwrap_or(now);
        let mut statuses = claim.status.devices.clone();
        let mut is_changed = false;
        for result in &allocation.devices.results {
            let Some(template) = self.templates.iter().find(|template| template.driver() == result.driver)
            else {
                continue;
            };
            if statuses.iter().any(|status| is_about(status, result)) {
                continue;
            }
            // Where the clock is behind that of the scheduler, the device does not wait until it has caught up.
            let due = match allocated > now {
                true => now,
                false => allocated.saturating_add(template.binding_delay).unwrap_or(now),
            };
            if due > now {
                let wait = Duration::try_from(due.duration_since(now)).unwrap_or(RETRY);
                add_later(&self.changed_claims, key.clone(), wait + Duration::from_millis(10));
                continue;
            }
            statuses.push(new_status(result, template.binding_fails(), now));
            is_changed = true;
        }
        if !is_changed {
            return Ok(());
        }
        let metadata = json!({"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version});
        let patch = json!({"metadata": metadata, "status": {"devices": statuses}});
        let path = format!("{}/status", RESOURCE_CLAIMS.object_path(key.namespace(), key.name()));
        match self.send(request::patch(&path, MERGE, &patch)).await {
            // The change that is in the way adds the claim again.
            Err(error) if error.is_stale() || error.is_not_found() => Ok(()),
            result => result,
        }
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<(), CallError> {
        call::json::<Value>(&self.client, request, TIMEOUT).await.map(drop)
    }
}

fn is_about(status: &AllocatedDeviceStatus, result: &DeviceRequestAllocationResult) -> bool {
    (&status.driver, &status.pool, &status.device, &status.share_id)
        == (&result.driver, &result.pool, &result.device, &result.share_id)
}

fn new_status(result: &DeviceRequestAllocationResult, fails: bool, now: Timestamp) -> AllocatedDeviceStatus {
    let (conditions, reason, message) = match fails {
        true => (&result.binding_failure_conditions, "Failed", "The simulated device is not available"),
        false => (&result.binding_conditions, "Prepared", "The simulated device is ready"),
    };
    let ready = [("Ready", if fails { "False" } else { "True" })];
    let conditions = conditions.iter().map(|condition| (condition.as_str(), "True")).chain(ready);
    AllocatedDeviceStatus {
        driver: result.driver.clone(),
        pool: result.pool.clone(),
        device: result.device.clone(),
        share_id: result.share_id.clone(),
        conditions: conditions
            .map(|(condition, status)| Condition::new(condition, status, reason, message, now))
            .collect(),
        ..AllocatedDeviceStatus::default()
    }
}
