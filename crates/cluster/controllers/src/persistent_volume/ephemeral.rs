//! Creates the claims of generic ephemeral volumes. The pod owns them, so they are deleted with it.

use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_api::resource::{PERSISTENT_VOLUME_CLAIMS, PODS};
use berth_client::call::CallError;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::events::{Recorder, Reference};
use crate::index::Index;
use crate::informers::{Caches, Informers};
use crate::ownership::Owner;
use crate::queue::{Next, Queue, work};
use crate::view::{Pod, PodVolume};

pub(crate) struct EphemeralVolumes {
    api: Api,
    recorder: Recorder,
    caches: Caches,
    queue: Arc<Queue<NamespacedName>>,
}

impl EphemeralVolumes {
    pub(crate) fn new(api: &Api, recorder: Recorder, informers: &mut Informers) -> Self {
        let caches = informers.caches();
        let controller = EphemeralVolumes { api: api.clone(), recorder, caches, queue: Arc::default() };
        let queue = controller.queue.clone();
        informers.pods.on_change(move |change| {
            if let (None, Some(pod)) = (change.old, change.new)
                && pod.spec.volumes.iter().any(|volume| volume.ephemeral.is_some())
            {
                queue.add(pod.metadata.namespaced_name());
            }
        });
        let (queue, pods) = (controller.queue.clone(), controller.caches.pods.clone());
        informers.claims.on_change(move |change| {
            if let (Some(gone), None) = (change.old, change.new) {
                for pod in pods.by(&Index::Claim(gone.metadata.namespaced_name())) {
                    queue.add(pod.metadata.namespaced_name());
                }
            }
        });
        controller
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("ephemeralvolumes", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(pod) = self.caches.pods.get(&key).filter(|pod| pod.is_active()) else {
            return Ok(Next::Wait);
        };
        for volume in &pod.spec.volumes {
            let Some(claim) = claim_of(&pod, volume) else { continue };
            let name = claim["metadata"]["name"].as_str().unwrap_or_default();
            let existing = self.caches.claims.get(&NamespacedName::new(key.namespace(), name));
            let is_foreign = match existing {
                Some(existing) => !existing.metadata.is_controlled_by(&pod.metadata.uid),
                None => {
                    let body = claim.to_string().into_bytes();
                    let kind = &PERSISTENT_VOLUME_CLAIMS;
                    match self.api.create(kind, key.namespace(), body).await {
                        // The cache will show whose it is.
                        Err(error) if error.is_already_exists() => return Err(error),
                        Err(error) if error.is_namespace_terminating() => return Ok(Next::Wait),
                        result => result.map(|_| false)?,
                    }
                }
            };
            if is_foreign {
                let message = format!(
                    "ephemeral volume {}: PVC {}/{name} was not created for pod {key} (pod is not owner)",
                    volume.name,
                    key.namespace(),
                );
                self.recorder.warning(&Reference::new(&PODS, &pod.metadata), "FailedBinding", message);
            }
        }
        Ok(Next::Wait)
    }
}

/// The claim of a generic ephemeral volume; `None` for other volumes.
fn claim_of(pod: &Pod, volume: &PodVolume) -> Option<Value> {
    let template = &volume.ephemeral.as_ref()?.volume_claim_template;
    let owner = Owner { kind: &PODS, meta: &pod.metadata };
    let mut metadata = json!({"name": volume.claim_name(&pod.metadata.name), "namespace": pod.metadata.namespace,
        "ownerReferences": [owner.reference()]});
    for field in ["labels", "annotations"] {
        if let Some(value) = template["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    Some(
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claim_of_an_ephemeral_volume_belongs_to_its_pod() {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"volumes": [
                {"name": "tmp", "emptyDir": {}},
                {"name": "old", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate":
                    {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}}},
            ]}}))
            .unwrap();
        let [old, scratch] = &pod.spec.volumes[..] else { panic!("two volumes have claims") };
        assert_eq!(claim_of(&pod, old), None);
        let claim = claim_of(&pod, scratch).unwrap();
        assert_eq!(claim["metadata"]["name"], "p-scratch");
        assert_eq!(claim["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(claim["spec"], json!({"x": 1}));
    }
}
