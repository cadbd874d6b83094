//! The history of the API server's objects, as a client with a perfect connection watches it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::resource::{self, Resource};
use berth_client::call;
use berth_testkit::check::history::{Change, Changes};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::platform;

/// The kinds whose history is kept.
const KINDS: [Resource; 15] = [
    resource::NAMESPACES,
    resource::NODES,
    resource::PERSISTENT_VOLUME_CLAIMS,
    resource::PERSISTENT_VOLUMES,
    resource::PODS,
    resource::POD_GROUPS_V1BETA1,
    resource::DEPLOYMENTS,
    resource::REPLICA_SETS,
    resource::STATEFUL_SETS,
    resource::POD_DISRUPTION_BUDGETS,
    resource::PRIORITY_CLASSES,
    resource::CSI_DRIVERS,
    resource::CSI_NODES,
    resource::CSI_STORAGE_CAPACITIES,
    resource::STORAGE_CLASSES,
];
/// The same in runs with devices.
const DEVICE_KINDS: [Resource; 3] =
    [resource::RESOURCE_SLICES, resource::DEVICE_CLASSES, resource::RESOURCE_CLAIMS];
/// The same in runs with quotas.
const QUOTA_KINDS: [Resource; 2] = [resource::RESOURCE_QUOTAS, resource::CONFIG_MAPS];
/// Longer than any run.
const WATCH_SECONDS: u32 = 100_000;

/// The changes by their version.
#[derive(Clone, Default)]
pub struct History(Arc<Mutex<Changes>>);

/// The kinds whose history a run keeps.
pub fn kinds(has_devices: bool, has_quotas: bool) -> Vec<Resource> {
    let of_devices = DEVICE_KINDS.iter().filter(|_| has_devices);
    let of_quotas = QUOTA_KINDS.iter().filter(|_| has_quotas);
    KINDS.iter().chain(of_devices).chain(of_quotas).copied().collect()
}

impl History {
    /// Watches kinds, from the version at which the store was empty.
    pub async fn record(self, client: kube::Client, first: u64, kinds: Vec<Resource>) {
        let watches = kinds.into_iter().map(|kind| self.clone().record_kind(client.clone(), kind, first));
        futures::future::join_all(watches).await;
    }

    async fn record_kind(self, client: kube::Client, kind: Resource, first: u64) {
        let mut last = first;
        loop {
            let path =
                format!("{}?watch=1&timeoutSeconds={WATCH_SECONDS}&resourceVersion={last}", kind.path(""));
            let opened = call::open(&client, call::get(&path), Duration::from_secs(5)).await;
            if let Ok(response) = opened {
                let (mut body, mut buffer) = (response.into_body(), Vec::new());
                while let Some(Ok(frame)) = body.frame().await {
                    buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
                    while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                        let line: Vec<u8> = buffer.drain(..=end).collect();
                        last = self.note(&kind, &line).unwrap_or(last);
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn note(&self, kind: &Resource, line: &[u8]) -> Option<u64> {
        let mut event: Value = serde_json::from_slice(line).ok()?;
        let object = event["object"].take();
        assert!(event["type"] != "ERROR", "the history is longer than the API server keeps it: {object}");
        let version = object["metadata"]["resourceVersion"].as_str()?.parse().ok()?;
        if event["type"] != "BOOKMARK" {
            let deleted = event["type"] == "DELETED";
            let change = Change { at: platform::now(), kind: kind.kind.to_owned(), deleted, object };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(version, Arc::new(change));
        }
        Some(version)
    }

    /// All changes so far, by version.
    pub fn changes(&self) -> Changes {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
