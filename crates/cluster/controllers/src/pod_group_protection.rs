//! Lets PodGroups go that are being deleted, once no pod of them runs: kube-apiserver of 1.37 gives each a finalizer.

use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_api::resource::POD_GROUPS;
use berth_client::call::CallError;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::api::Api;
use super::index::Index;
use super::informers::{Caches, Informers};
use super::queue::{Next, Queue, work};

const PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";

pub(crate) struct PodGroupProtection {
    api: Api,
    caches: Caches,
    queue: Arc<Queue<NamespacedName>>,
}

impl PodGroupProtection {
    pub(crate) fn new(api: &Api, informers: &mut Informers) -> Self {
        let controller =
            PodGroupProtection { api: api.clone(), caches: informers.caches(), queue: Arc::default() };
        let queue = controller.queue.clone();
        informers.pod_groups.on_change(move |change| {
            if let Some(group) = change.new.filter(|group| group.metadata.is_deleting()) {
                queue.add(group.metadata.namespaced_name());
            }
        });
        let queue = controller.queue.clone();
        informers.pods.on_change(move |change| {
            let has_ended = change.new.is_none_or(|pod| pod.is_terminal());
            if let Some(group) = change.latest().filter(|_| has_ended).and_then(|pod| pod.pod_group()) {
                queue.add(group);
            }
        });
        controller
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("podgroup-protection", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let group = self.caches.pod_groups.get(&key).filter(|group| group.metadata.is_deleting());
        let users = self.caches.pods.by(&Index::PodGroup(key.clone()));
        let Some(group) = group.filter(|_| users.iter().all(|pod| pod.is_terminal())) else {
            return Ok(Next::Wait);
        };
        let metadata = &group.metadata;
        let others: Vec<&String> = metadata.finalizers.iter().filter(|name| *name != PROTECTION).collect();
        if others.len() < metadata.finalizers.len() {
            let patch = json!({"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version,
                "finalizers": others}});
            self.api.patch(&POD_GROUPS, &key, "", &patch).await?;
        }
        Ok(Next::Wait)
    }
}
