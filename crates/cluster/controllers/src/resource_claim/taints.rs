//! Evicts pods whose devices have `NoExecute` taints that their claims do not tolerate, or no longer.

use std::sync::Arc;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::device::{DeviceRequestAllocationResult, ResourceClaimConsumerReference};
use berth_api::object::{NamespacedName, Taint};
use berth_client::call::CallError;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::events::Recorder;
use crate::index::Index;
use crate::informers::{Caches, Informers};
use crate::node_lifecycle::{Eviction, Leaves, leaves};
use crate::queue::{Next, Queue, until, work};
use crate::view::{NodeTaint, Pod, ResourceClaim, ResourceSlice};

const EVICTION: Eviction = Eviction {
    event: "DeviceTaintManagerEviction",
    reason: "DeletionByDeviceTaintManager",
    message: "Device Taint manager: deleting due to NoExecute taint",
};

pub(crate) struct DeviceTaintEviction {
    api: Api,
    recorder: Recorder,
    caches: Caches,
    queue: Arc<Queue<NamespacedName>>,
}

fn has_no_execute(slice: &ResourceSlice) -> bool {
    let mut taints = slice.spec.devices.iter().flat_map(|device| &device.taints);
    taints.any(|taint| taint.effect == "NoExecute")
}

/// When a pod with these devices is evicted, with the slices of a pool. Taints of the newest version of a pool count.
fn leaves_by_devices(
    devices: &[DeviceRequestAllocationResult],
    slices_of: impl Fn(&NamespacedName) -> Vec<Arc<ResourceSlice>>,
    now: Timestamp,
) -> Leaves {
    let each = devices.iter().map(|device| {
        let slices = slices_of(&NamespacedName::new(&device.driver, &device.pool));
        let newest = slices.iter().map(|slice| slice.spec.pool.generation).max();
        let current = slices.iter().filter(|slice| Some(slice.spec.pool.generation) == newest);
        let found = current.flat_map(|slice| &slice.spec.devices).find(|found| found.name == device.device);
        let taints = found.into_iter().flat_map(|found| &found.taints).map(|taint| {
            let (key, value, effect) = (taint.key.clone(), taint.value.clone(), taint.effect.clone());
            NodeTaint { taint: Taint { key, value, effect }, time_added: taint.time_added }
        });
        // Tolerations of devices do not compare.
        let gates = FeatureGates::default();
        leaves(&device.tolerations, &taints.collect::<Vec<_>>(), gates, None, |_| now)
    });
    each.min().unwrap_or(Leaves::Never)
}

impl DeviceTaintEviction {
    pub(crate) fn new(api: &Api, recorder: Recorder, informers: &mut Informers) -> Self {
        let caches = informers.caches();
        let controller = DeviceTaintEviction { api: api.clone(), recorder, caches, queue: Arc::default() };
        let (queue, pods) = (controller.queue.clone(), controller.caches.pods.clone());
        let add_consumer = move |claim: &ResourceClaim, consumer: &ResourceClaimConsumerReference| {
            let name = NamespacedName::new(&claim.metadata.namespace, &consumer.name);
            match consumer.as_pod_group() {
                Some(_) => {
                    let members = pods.by(&Index::PodGroup(name));
                    members.iter().for_each(|pod| queue.add(pod.metadata.namespaced_name()));
                }
                None => queue.add(name),
            }
        };
        let (add, claims) = (add_consumer.clone(), controller.caches.resource_claims.clone());
        informers.resource_slices.on_change(move |change| {
            let Some(slice) = change.new.filter(|slice| has_no_execute(slice)) else { return };
            for claim in claims.by(&Index::Pool(slice.pool())) {
                claim.status.reserved_for.iter().for_each(|consumer| add(&claim, consumer));
            }
        });
        informers.resource_claims.on_change(move |change| {
            let Some(claim) = change.new.filter(|claim| claim.status.allocation.is_some()) else { return };
            let is_known = |uid: &str| change.old.is_some_and(|old| old.status.is_reserved_for(uid));
            let new = claim.status.reserved_for.iter().filter(|consumer| !is_known(&consumer.uid));
            new.for_each(|consumer| add_consumer(claim, consumer));
        });
        let queue = controller.queue.clone();
        informers.pods.on_change(move |change| {
            let Some(pod) = change.new.filter(|pod| pod.has_resource_claims()) else { return };
            if !pod.spec.node_name.is_empty() && change.old.is_none_or(|old| old.spec.node_name.is_empty()) {
                queue.add(pod.metadata.namespaced_name());
            }
        });
        controller
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("device-taint-eviction", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let pod = self.caches.pods.get(&key).filter(|pod| pod.is_active() && !pod.spec.node_name.is_empty());
        let Some(pod) = pod else { return Ok(Next::Wait) };
        let now = Timestamp::now();
        match self.leaves(&pod, now) {
            Leaves::Never => Ok(Next::Wait),
            Leaves::At(at) if at > now => Ok(Next::After(until(at, now))),
            Leaves::At(_) | Leaves::Now => {
                EVICTION.carry_out(&self.api, &self.recorder, &pod).await?;
                Ok(Next::Wait)
            }
        }
    }

    fn leaves(&self, pod: &Pod, now: Timestamp) -> Leaves {
        let claims = pod.resource_claims().filter_map(|claim| self.caches.resource_claims.get(&claim));
        let group = pod.pod_group();
        let group = group.as_ref().map(NamespacedName::name);
        let used = claims.filter(|claim| claim.status.is_usable_by(&pod.metadata.uid, group));
        let devices: Vec<_> = used
            .flat_map(|claim| claim.status.allocation.clone())
            .flat_map(|allocation| allocation.devices.results)
            .collect();
        leaves_by_devices(&devices, |pool| self.caches.resource_slices.by(&Index::Pool(pool.clone())), now)
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_leaves_when_the_first_of_its_devices_is_no_longer_tolerated() {
        let slice = |generation: i64, device: &str, taints: Value| -> Arc<ResourceSlice> {
            let pool = json!({"name": "p", "generation": generation});
            let spec = json!({"driver": "d", "pool": pool, "devices": [{"name": device, "taints": taints}]});
            Arc::new(serde_json::from_value(json!({"spec": spec})).unwrap())
        };
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let broken = json!([{"key": "broken", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]);
        let slices = [
            slice(2, "a", broken.clone()),
            slice(2, "b", json!([{"key": "broken", "effect": "NoSchedule"}])),
            slice(1, "b", broken),
        ];
        let device = |name: &str, tolerations: Value| -> DeviceRequestAllocationResult {
            let device = json!({"driver": "d", "pool": "p", "device": name, "tolerations": tolerations});
            serde_json::from_value(device).unwrap()
        };
        let tolerated = |seconds: Value| {
            device("a", json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]))
        };
        let after = |seconds: i64| Leaves::At(start + SignedDuration::from_secs(seconds));
        for (devices, expected) in [
            (vec![], Leaves::Never),
            (vec![device("b", json!([]))], Leaves::Never),
            (vec![device("a", json!([]))], Leaves::Now),
            (vec![tolerated(Value::Null)], Leaves::Never),
            (vec![tolerated(json!(30)), tolerated(json!(10)), device("b", json!([]))], after(10)),
            (vec![tolerated(json!(30)), device("a", json!([]))], Leaves::Now),
        ] {
            let slices_of = |pool: &NamespacedName| match (pool.namespace(), pool.name()) {
                ("d", "p") => slices.to_vec(),
                _ => Vec::new(),
            };
            assert_eq!(leaves_by_devices(&devices, slices_of, start), expected, "{devices:?}");
        }
    }
}
