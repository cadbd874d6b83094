//! Objects of a cluster that changes: set and removed one by one.

use std::sync::Arc;

use super::collect::{Inventory, Seen};
use super::entry::{Entry, InputError};
use berth_api::object::NamespacedName;
use berth_api::read::{Kind, Manifest};

impl Inventory {
    /// Sets an object as the API server has it now. Unlike with [`Inventory::add`], nothing remembers an earlier one.
    pub fn set(&mut self, mut manifest: Manifest) -> Result<(), InputError> {
        // It is as large as the rest of an object, and nothing here reads it.
        if let Some(metadata) = manifest.value.get_mut("metadata").and_then(|value| value.as_object_mut()) {
            metadata.shift_remove("managedFields");
        }
        self.next_input();
        self.add(manifest)?;
        if self.replaced.pop().is_some()
            && let Some(workload) = self.workloads.iter_mut().find(|entry| entry.object.replaced.is_some())
        {
            workload.object.replaced = None;
        }
        Ok(())
    }

    /// Removes an object. Returns whether it was there.
    pub fn remove(&mut self, kind: Kind, name: &NamespacedName) -> bool {
        let Some(Seen { order, .. }) = Arc::make_mut(&mut self.seen).remove(&key(kind, name)) else {
            return false;
        };
        match kind {
            Kind::Node => remove(&mut self.nodes, order),
            Kind::Namespace => remove(&mut self.namespaces, order),
            Kind::Pod => remove(&mut self.pods, order),
            Kind::Service => remove(&mut self.services, order),
            Kind::NetworkPolicy => remove(&mut self.network_policies, order),
            Kind::PodMonitor | Kind::ServiceMonitor => remove(&mut self.monitors, order),
            Kind::PriorityClass => remove(&mut self.priority_classes, order),
            Kind::RuntimeClass => remove(&mut self.runtime_classes, order),
            Kind::GroupWorkload => {
                remove(&mut self.group_workloads, order);
                remove(&mut self.pod_groups, order)
            }
            Kind::PodGroup | Kind::CoschedulingPodGroup => remove(&mut self.pod_groups, order),
            Kind::CompositePodGroup => remove(&mut self.composite_pod_groups, order),
            Kind::PodDisruptionBudget => remove(&mut self.pod_disruption_budgets, order),
            Kind::HorizontalPodAutoscaler => remove(&mut self.horizontal_pod_autoscalers, order),
            Kind::LimitRange => remove(&mut self.limit_ranges, order),
            Kind::ResourceQuota => remove(&mut self.resource_quotas, order),
            Kind::Volume(_) => remove(&mut self.volume_objects, order),
            Kind::Device(_) => remove(&mut self.device_objects, order),
            Kind::PlacementPolicy | Kind::ClusterPlacementPolicy => {
                remove(&mut self.placement_policies, order);
            }
            Kind::ReplicationController
            | Kind::Deployment
            | Kind::ReplicaSet
            | Kind::StatefulSet
            | Kind::DaemonSet
            | Kind::Job
            | Kind::CronJob => remove(&mut self.workloads, order),
            Kind::KubeSchedulerConfiguration => {}
        }
        true
    }

    pub fn remove_all(&mut self, kind: Kind) {
        match kind {
            // There can be a million.
            Kind::Node => self.nodes.clear(),
            Kind::Pod => self.pods.clear(),
            _ => {
                let names: Vec<_> = self.names().filter(|(of, _)| *of == kind).collect();
                names.iter().for_each(|(_, name)| _ = self.remove(kind, name));
            }
        }
        Arc::make_mut(&mut self.seen).retain(|(of, ..), _| *of != kind);
    }

    pub fn has(&self, kind: Kind, name: &NamespacedName) -> bool {
        self.seen.contains_key(&key(kind, name))
    }

    /// The object of a kind and a name among the entries of this kind.
    pub fn find<'a, T>(&self, kind: Kind, name: &NamespacedName, entries: &'a [Entry<T>]) -> Option<&'a T> {
        let order = self.seen.get(&key(kind, name))?.order;
        let position = entries.binary_search_by_key(&order, |entry| entry.order).ok()?;
        Some(&entries[position].object)
    }

    pub fn names(&self) -> impl Iterator<Item = (Kind, NamespacedName)> {
        self.seen.keys().map(|(kind, namespace, name)| (*kind, NamespacedName::new(namespace, name)))
    }
}

fn key(kind: Kind, name: &NamespacedName) -> (Kind, String, String) {
    (kind, name.namespace().to_owned(), name.name().to_owned())
}

/// Removes the entry of an order; entries are sorted by it.
fn remove<T>(entries: &mut Vec<Entry<T>>, order: usize) {
    if let Ok(position) = entries.binary_search_by_key(&order, |entry| entry.order) {
        entries.remove(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::InputError;
    use berth_api::read::read_manifests;

    fn set(inventory: &mut Inventory, text: &str) {
        read_manifests::<InputError>(text.as_bytes(), "server", &mut |manifest| inventory.set(manifest))
            .unwrap();
    }

    #[test]
    fn objects_are_set_again_and_removed_without_a_trace() {
        let mut inventory = Inventory::default();
        for replicas in [1, 2] {
            set(
                &mut inventory,
                &format!(
                    "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: {replicas}}}}}\n---\n\
                     {{apiVersion: v1, kind: Service, metadata: {{name: web, labels: {{r: '{replicas}'}}}}}}"
                ),
            );
        }
        let web = NamespacedName::new("default", "web");
        assert_eq!((inventory.workloads.len(), inventory.services.len()), (1, 1));
        assert!(inventory.replaced.is_empty() && inventory.workloads[0].object.replaced.is_none());
        let service = inventory.find(Kind::Service, &web, &inventory.services).unwrap();
        assert_eq!(service.metadata.labels["r"], "2");
        assert!(inventory.remove(Kind::Deployment, &web) && !inventory.remove(Kind::Deployment, &web));
        assert!(inventory.workloads.is_empty() && inventory.has(Kind::Service, &web));
        set(&mut inventory, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}");
        assert_eq!(inventory.names().count(), 2);
    }
}
