//! Events of pods and of their controllers, as keys in a controller's queue.

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::resource::Resource;

use super::expectations::Expectations;
use super::index::{Cache, Index, Informer};
use super::queue::Queue;
use super::view::{Pod, WorkloadSelector};
use berth_client::{Change, HasMetadata};

/// How one controller handles the events of pods and of its objects.
pub(crate) struct PodEvents<T> {
    pub(crate) kind: &'static Resource,
    pub(crate) objects: Arc<Cache<T>>,
    pub(crate) selector: fn(&T) -> &WorkloadSelector,
    pub(crate) queue: Arc<Queue<NamespacedName>>,
    pub(crate) expectations: Arc<Expectations>,
    /// Batching window: events within this time cause one sync.
    pub(crate) settle: Duration,
}

impl<T: HasMetadata + Send + Sync + 'static> PodEvents<T> {
    pub(crate) fn register(self, objects: &mut Informer<T>, pods: &mut Informer<Pod>) {
        let (queue, expectations, settle) = (self.queue.clone(), self.expectations.clone(), self.settle);
        objects.on_change(move |change| {
            let Some(latest) = change.latest() else { return };
            let key = latest.meta().namespaced_name();
            if change.new.is_none() {
                expectations.forget(&key);
            }
            let same_spec = change.old.zip(change.new).is_some_and(|(old, new)| {
                old.meta().generation == new.meta().generation
                    && old.meta().is_deleting() == new.meta().is_deleting()
            });
            // Most likely this controller's own status write. The sync runs again: the status may rest on an older one.
            queue.add_after(key, if same_spec { settle } else { Duration::ZERO });
        });
        pods.on_change(move |change| self.pod_changed(change));
    }

    fn pod_changed(&self, change: &Change<'_, Pod>) {
        let old_owner = change.old.and_then(|pod| self.owner_of(pod));
        let new_owner = change.new.and_then(|pod| self.owner_of(pod));
        if let Some(key) = &new_owner
            && change.old.is_none()
        {
            self.expectations.creations_seen(key, 1);
        }
        let Some(pod) = change.latest() else { return };
        for key in old_owner.into_iter().chain(new_owner) {
            if change.new.is_none() || pod.metadata.is_deleting() {
                self.expectations.deletion_seen(&key, &pod.metadata.uid);
            }
            self.queue.add_after(key, self.settle);
        }
        let is_orphan = change.new.is_some() && pod.metadata.controller().is_none() && pod.is_active();
        let is_known = change.old.is_some_and(|old| {
            old.metadata.labels == pod.metadata.labels && old.metadata.controller().is_none()
        });
        if is_orphan && !is_known {
            for object in self.objects.by(&Index::Namespace(pod.metadata.namespace.clone())) {
                if (self.selector)(&object).matches(&pod.metadata.labels) {
                    self.queue.add_after(object.meta().namespaced_name(), self.settle);
                }
            }
        }
    }

    /// The controller of a pod, unless another object has taken its name.
    fn owner_of(&self, pod: &Pod) -> Option<NamespacedName> {
        let is_owner =
            |kind: &str, version: &str| kind == self.kind.kind && version == self.kind.api_version();
        let owner = pod.metadata.controller().filter(|o| is_owner(&o.kind, &o.api_version))?;
        let key = NamespacedName::new(&pod.metadata.namespace, &owner.name);
        let is_same = self.objects.get(&key).is_none_or(|found| found.meta().uid == owner.uid);
        is_same.then_some(key)
    }
}
