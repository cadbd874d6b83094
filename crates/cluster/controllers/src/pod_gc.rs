//! Pods that no other component deletes: bound to missing nodes, terminated beyond a threshold, or deleted before they
//! were bound.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_api::resource::{NODES, PODS};
use berth_control::pod_gc::{Age, PodNode, age, is_garbage};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::api::{Api, DeleteOptions};
use super::disruption::disruption_target;
use super::informers::Caches;
use super::options::ControllerOptions;
use super::view::{Condition, PartialObjectMetadata, Pod};
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
        let garbage = pods.into_iter().map(|pod| (self.node_of(&pod), pod));
        let garbage: Vec<_> =
            garbage.filter(|(node, pod)| is_garbage(pod.metadata.is_deleting(), *node)).collect();
        let (orphans, garbage): (Vec<_>, Vec<_>) =
            garbage.into_iter().partition(|(node, _)| *node == PodNode::Missing);
        for (_, pod) in garbage {
            self.report(&pod, self.fail_and_delete(&pod, None).await);
        }
        missing.retain(|node, _| orphans.iter().any(|(_, pod)| pod.spec.node_name == *node));
        for (_, pod) in &orphans {
            missing.entry(pod.spec.node_name.clone()).or_insert_with(Instant::now);
        }
        // The cache may be stale: the collector reads each node from the API before it deletes its pods.
        let mut gone: HashMap<&str, bool> = HashMap::new();
        for (_, pod) in &orphans {
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
                let message = "PodGC: node no longer exists";
                let condition = disruption_target(pod, "DeletionByPodGC", message, Timestamp::now());
                self.report(pod, self.fail_and_delete(pod, Some(condition)).await);
            }
        }
    }

    fn node_of(&self, pod: &Pod) -> PodNode {
        if pod.spec.node_name.is_empty() {
            return PodNode::None;
        }
        let node = self.caches.nodes.get(&NamespacedName::new("", &pod.spec.node_name));
        node.map_or(PodNode::Missing, |node| {
            PodNode::of(node.holds("Ready", "True"), node.spec.taints.iter().map(|taint| &taint.taint))
        })
    }

    async fn fail_and_delete(&self, pod: &Pod, condition: Option<Condition>) -> Result<(), CallError> {
        if !pod.is_terminal() {
            let status = match condition {
                Some(condition) => json!({"phase": "Failed", "conditions": [condition]}),
                None => json!({"phase": "Failed"}),
            };
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

/// Ended pods beyond the threshold, in the order in which they are deleted. Without one, none are.
fn ended_beyond(pods: &[Arc<Pod>], threshold: usize) -> Vec<Arc<Pod>> {
    let mut ended: Vec<_> = pods.iter().filter(|pod| threshold > 0 && pod.is_terminal()).collect();
    let n_over = ended.len().saturating_sub(threshold);
    ended.sort_by(|a, b| age_of(a).cmp(&age_of(b)));
    ended.into_iter().take(n_over).cloned().collect()
}

fn age_of(Pod { metadata, status, .. }: &Pod) -> Age<'_> {
    age(&status.phase, &status.reason, metadata.creation_timestamp, &metadata.name)
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
