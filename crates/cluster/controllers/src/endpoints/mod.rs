//! The endpoints of services with selectors: EndpointSlices and Endpoints of the pods that they select.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::resource::{ENDPOINT_SLICES, ENDPOINTS, Resource};
use berth_api::syntax::labels::ZONE;
use berth_client::HasMetadata;
use berth_client::call::CallError;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::api::{Api, DeleteOptions};
use crate::endpoints::plan::Slice;
use crate::index::{Index, Informer};
use crate::informers::{Caches, Informers};
use crate::queue::{Next, Queue, work};
use crate::view::{EndpointSlice, ObjectMeta, Pod, Service};

/// Events within this time cause one sync.
const SETTLE: Duration = Duration::from_millis(100);
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const SLICE_MANAGER: (&str, &str) =
    ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io");
const MANAGER: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

pub(crate) struct ServiceEndpoints {
    api: Api,
    caches: Caches,
    queue: Arc<Queue<NamespacedName>>,
}

impl ServiceEndpoints {
    pub(crate) fn new(api: &Api, informers: &mut Informers) -> Self {
        let caches = informers.caches();
        let queue: Arc<Queue<NamespacedName>> = Arc::default();
        queue.follow(&mut informers.services);
        let (changed, services) = (queue.clone(), caches.services.clone());
        informers.pods.on_change(move |change| {
            let Some(pod) = change.latest() else { return };
            let shown = |pod: &Pod| {
                let metadata = &pod.metadata;
                (
                    pod.is_ready(),
                    metadata.is_deleting(),
                    pod.is_terminal(),
                    pod.status.pod_ip.clone(),
                    metadata.labels.clone(),
                )
            };
            if change.old.zip(change.new).is_some_and(|(old, new)| shown(old) == shown(new)) {
                return;
            }
            for service in services.by(&Index::Namespace(pod.metadata.namespace.clone())) {
                let mut both = change.old.into_iter().chain(change.new);
                if both.any(|pod| service.spec.selector.matches(&pod.metadata.labels)) {
                    changed.add_after(service.metadata.namespaced_name(), SETTLE);
                }
            }
        });
        // What other clients change or delete is written again.
        let service_of = |slice: &EndpointSlice| slice.metadata.labels.get(SERVICE_NAME).cloned();
        follow(&queue, &mut informers.endpoint_slices, service_of);
        follow(&queue, &mut informers.endpoints, |endpoints| Some(endpoints.metadata.name.clone()));
        ServiceEndpoints { api: api.clone(), caches, queue }
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("endpoints", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(service) = self.caches.services.get(&key).filter(|service| service.selects_pods()) else {
            self.delete_endpoints(&key).await?;
            return Ok(Next::Wait);
        };
        if service.metadata.is_deleting() {
            return Ok(Next::Wait);
        }
        let mut pods = self.caches.pods.by(&Index::Namespace(key.namespace().to_owned()));
        pods.retain(|pod| service.spec.selector.matches(&pod.metadata.labels));
        self.sync_slices(&service, &pods).await?;
        self.sync_endpoints(&service, &pods).await?;
        Ok(Next::Wait)
    }

    async fn sync_slices(&self, service: &Service, pods: &[Arc<Pod>]) -> Result<(), CallError> {
        let metadata = &service.metadata;
        let mut existing = self.caches.endpoint_slices.by(&Index::Controller(metadata.uid.clone()));
        existing.retain(|slice| has_label(&slice.metadata, SLICE_MANAGER));
        existing.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let zone_of = |node: &str| {
            let node = self.caches.nodes.get(&NamespacedName::new("", node))?;
            node.metadata.labels.get(ZONE).cloned()
        };
        let wanted = plan::slices(plan::endpoints(service, pods, zone_of), &existing);
        let mut left: BTreeMap<&str, &EndpointSlice> =
            existing.iter().map(|slice| (slice.metadata.name.as_str(), &**slice)).collect();
        let is_free = |name: &String| {
            !self.caches.endpoint_slices.contains(&NamespacedName::new(&metadata.namespace, name))
        };
        let mut free = (0..).map(|i| format!("{}-{i}", metadata.name)).filter(is_free);
        for Slice { name, ports, endpoints } in wanted {
            let Some(name) = name else {
                let name = free.next().unwrap_or_default();
                let slice = new_slice(service, &name, &ports, &endpoints);
                self.create(&ENDPOINT_SLICES, &metadata.namespace, &slice).await?;
                continue;
            };
            let old = left.remove(name.as_str());
            if old.is_none_or(|old| old.ports != ports || old.endpoints != endpoints) {
                let key = NamespacedName::new(&metadata.namespace, &name);
                let patch = json!({"endpoints": endpoints, "ports": ports});
                self.api.patch_existing(&ENDPOINT_SLICES, &key, &patch).await?;
            }
        }
        for slice in left.into_values() {
            let options = DeleteOptions::of_uid(&slice.metadata.uid);
            self.api.delete(&ENDPOINT_SLICES, &slice.metadata.namespaced_name(), options).await?;
        }
        Ok(())
    }

    async fn sync_endpoints(&self, service: &Service, pods: &[Arc<Pod>]) -> Result<(), CallError> {
        let key = service.metadata.namespaced_name();
        let (subsets, is_cut) = plan::subsets(service, pods);
        let capacity = if is_cut { Value::from("truncated") } else { Value::Null };
        let Some(existing) = self.caches.endpoints.get(&key) else {
            let mut endpoints = json!({"apiVersion": ENDPOINTS.api_version(), "kind": ENDPOINTS.kind,
                "metadata": {"name": key.name(), "namespace": key.namespace(), "labels": labels(service, MANAGER)},
                "subsets": subsets});
            if is_cut {
                endpoints["metadata"]["annotations"] = json!({OVER_CAPACITY: capacity});
            }
            return self.create(&ENDPOINTS, key.namespace(), &endpoints).await;
        };
        let was_cut = existing.metadata.annotations.contains_key(OVER_CAPACITY);
        if existing.subsets != subsets || was_cut != is_cut || !has_label(&existing.metadata, MANAGER) {
            let metadata = json!({"uid": existing.metadata.uid, "annotations": {OVER_CAPACITY: capacity},
                "labels": {MANAGER.0: MANAGER.1}});
            let patch = json!({"metadata": metadata, "subsets": subsets});
            self.api.patch_existing(&ENDPOINTS, &key, &patch).await?;
        }
        Ok(())
    }

    /// Deletes the Endpoints of a service that does not exist or has no selector any more, if the controller made them.
    /// The garbage collector deletes the slices of a deleted service.
    async fn delete_endpoints(&self, key: &NamespacedName) -> Result<(), CallError> {
        let is_kept = self.caches.services.contains(key);
        let endpoints =
            self.caches.endpoints.get(key).filter(|endpoints| has_label(&endpoints.metadata, MANAGER));
        match endpoints.filter(|_| !is_kept) {
            Some(endpoints) => {
                self.api.delete(&ENDPOINTS, key, DeleteOptions::of_uid(&endpoints.metadata.uid)).await
            }
            None => Ok(()),
        }
    }

    /// An object that exists already is not in the cache yet: its event causes another sync.
    async fn create(
        &self,
        kind: &'static Resource,
        namespace: &str,
        object: &Value,
    ) -> Result<(), CallError> {
        match self.api.create(kind, namespace, object.to_string().into_bytes()).await {
            Err(error) if error.is_already_exists() || error.is_namespace_terminating() => Ok(()),
            result => result.map(drop),
        }
    }
}

/// Adds the service of changed objects.
fn follow<T: HasMetadata>(
    queue: &Arc<Queue<NamespacedName>>,
    informer: &mut Informer<T>,
    service_of: impl Fn(&T) -> Option<String> + Send + Sync + 'static,
) {
    let queue = queue.clone();
    informer.on_change(move |change| {
        let Some(latest) = change.latest() else { return };
        if let Some(service) = service_of(latest) {
            queue.add_after(NamespacedName::new(&latest.meta().namespace, &service), SETTLE);
        }
    });
}

fn has_label(metadata: &ObjectMeta, (key, value): (&str, &str)) -> bool {
    metadata.labels.get(key).is_some_and(|found| found == value)
}

/// The labels of a service with that of the manager.
fn labels(service: &Service, (key, value): (&str, &str)) -> Value {
    let mut labels = json!(service.metadata.labels);
    labels[key] = value.into();
    if matches!(service.spec.cluster_ip.as_str(), "" | "None") {
        labels["service.kubernetes.io/headless"] = "".into();
    }
    labels
}

fn new_slice(service: &Service, name: &str, ports: &[Value], endpoints: &[Value]) -> Value {
    let metadata = &service.metadata;
    let mut labels = labels(service, SLICE_MANAGER);
    labels[SERVICE_NAME] = metadata.name.as_str().into();
    json!({
        "apiVersion": ENDPOINT_SLICES.api_version(), "kind": ENDPOINT_SLICES.kind,
        "metadata": {
            "name": name, "namespace": metadata.namespace, "labels": labels,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": metadata.name, "uid": metadata.uid,
                "controller": true, "blockOwnerDeletion": true}],
        },
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
    })
}
