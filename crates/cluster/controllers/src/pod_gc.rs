//! Pods that no other component deletes: bound to missing nodes, terminated beyond a threshold, or deleted before they
//! were bound.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_api::resource::{NODES, PODS};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::api::{Api, DeleteOptions};
use super::disruption::disruption_target;
use super::informers::Caches;
use super::options::ControllerOptions;
use super::view::{PartialObjectMetadata, Pod};
use berth_client::call::CallError;

pub(crate) struct PodGc {
    api: Api,
    caches: Caches,
    options: ControllerOptions,
}

impl PodGc {
    pub(crate) fn new(api: &Api, caches: Caches, options: ControllerOptions) -> Self {
        PodGc { api: api.clone(), caches, options }
    }

    /// Checks the pods periodically until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        // For each missing node with bound pods: since when it has been missing.
        let mut missing: HashMap<String, Instant> = HashMap::new();
        loop {
            tokio::select! {
                () = self.collect(&mut missing) => {}
                () = stop.cancelled() => return,
            }
            tokio::select! {
                () = tokio::time::sleep(self.options.pod_gc_period) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn collect(&self, missing: &mut HashMap<String, Instant>) {
        let pods = self.caches.pods.all();
        for pod in ended_beyond(&pods, self.options.terminated_pod_threshold) {
            self.report(&pod, self.delete(&pod).await);
        }
        for pod in pods.iter().filter(|pod| pod.metadata.is_deleting() && pod.spec.node_name.is_empty()) {
            self.report(pod, self.delete(pod).await);
        }
        let is_missing = |pod: &&Arc<Pod>| {
            !pod.spec.node_name.is_empty()
                && !self.caches.nodes.contains(&NamespacedName::new("", pod.spec.node_name.as_str()))
        };
        let orphans: Vec<&Arc<Pod>> = pods.iter().filter(is_missing).collect();
        missing.retain(|node, _| orphans.iter().any(|pod| pod.spec.node_name == *node));
        for pod in &orphans {
            missing.entry(pod.spec.node_name.clone()).or_insert_with(Instant::now);
        }
        // The cache may be stale: the collector reads each node from the API before it deletes its pods.
        let mut gone: HashMap<&str, bool> = HashMap::new();
        for pod in orphans {
            let node = pod.spec.node_name.as_str();
            if missing.get(node).is_none_or(|since| since.elapsed() < self.options.pod_gc_quarantine) {
                continue;
            }
            let is_gone = match gone.get(node) {
                Some(is_gone) => *is_gone,
                None => {
                    let live =
                        self.api.get::<PartialObjectMetadata>(&NODES, &NamespacedName::new("", node)).await;
                    let is_gone = matches!(live, Ok(None));
                    gone.insert(node, is_gone);
                    is_gone
                }
            };
            if is_gone {
                self.report(pod, self.fail_and_delete(pod).await);
            }
        }
    }

    async fn fail_and_delete(&self, pod: &Pod) -> Result<(), CallError> {
        if !pod.is_terminal() {
            let message = "PodGC: node no longer exists";
            let condition = disruption_target(pod, "DeletionByPodGC", message, Timestamp::now());
            let status = json!({"phase": "Failed", "conditions": [condition]});
            self.api.merge_status(&PODS, &pod.metadata, &status).await?;
        }
        self.delete(pod).await
    }

    async fn delete(&self, pod: &Pod) -> Result<(), CallError> {
        let options =
            DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::of_uid(&pod.metadata.uid) };
        self.api.delete(&PODS, &pod.metadata.namespaced_name(), options).await
    }

    fn report(&self, pod: &Pod, result: Result<(), CallError>) {
        match result {
            Err(error) if !error.is_not_found() && !error.is_stale() => {
                tracing::warn!(pod = %pod.metadata.namespaced_name(), %error, "the pod is not collected yet and will be retried");
            }
            _ => {}
        }
    }
}

/// Ended pods beyond the threshold, oldest first.
fn ended_beyond(pods: &[Arc<Pod>], threshold: usize) -> Vec<Arc<Pod>> {
    let mut ended: Vec<_> =
        pods.iter().filter(|pod| pod.is_terminal() && !pod.metadata.is_deleting()).collect();
    let n_over = ended.len().saturating_sub(threshold);
    ended.sort_by(|a, b| {
        let age = |pod: &Pod| (pod.metadata.creation_timestamp, pod.metadata.namespaced_name());
        age(a).cmp(&age(b))
    });
    ended.into_iter().take(n_over).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_ended_pods_are_deleted_first() {
        let pod = |name: &str, phase: &str, day: u32| -> Arc<Pod> {
            let created = format!("2026-01-0{day}T00:00:00Z");
            let pod =
                json!({"metadata": {"name": name, "creationTimestamp": created}, "status": {"phase": phase}});
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        let pods =
            [pod("a", "Failed", 3), pod("b", "Running", 1), pod("c", "Succeeded", 2), pod("d", "Failed", 4)];
        let names = |threshold| -> Vec<String> {
            ended_beyond(&pods, threshold).iter().map(|pod| pod.metadata.name.to_string()).collect()
        };
        assert_eq!(names(3), [""; 0]);
        assert_eq!(names(1), ["c", "a"]);
    }
}
