//! Pods that wait for their volumes and devices.

use std::time::Duration;

use berth_api::object::{NamespacedName, REJECTED};
use tokio::time::Instant;

use super::pods::pod_ref;
use super::state::{Agent, Timer, now};
use super::store::{NodeId, PodId, PodState};
use crate::event::Progress;
use crate::pod::view::PodView;
use crate::volume::{Mount, MountNode, Mounted};

/// Wait before the first event about a pod whose volumes cannot be mounted: the watches may still deliver them.
const FIRST_EVENT: Duration = Duration::from_secs(2);
/// Interval of further events, as of a kubelet.
const NEXT_EVENT: Duration = Duration::from_secs(123);

impl Agent {
    /// Mounts the volumes of a pod that the node has accepted and prepares its devices, or lets it wait for them.
    pub(super) fn mount_volumes(&mut self, id: PodId, pod: &PodView) {
        let needs = pod.needs();
        if needs.is_empty() {
            return;
        }
        self.pending_mounts.insert(id, needs);
        if let Some(entry) = self.pods.get_mut(id)
            && let PodState::Decided(lifecycle) = &mut entry.state
        {
            lifecycle.await_volumes();
        }
        self.retry_mount(id);
        if let Some(entry) = self.pods.get_mut(id)
            && let PodState::Decided(lifecycle) = &mut entry.state
            && lifecycle.awaits_volumes()
        {
            lifecycle.announce();
            self.timers.add(Instant::now() + FIRST_EVENT, Timer::Mount(id));
        }
    }

    /// The claims of a waiting pod may have been made.
    pub(super) fn needs_changed(&mut self, id: PodId, pod: &PodView) {
        if self.pending_mounts.needs_of(id).is_some_and(|before| *before != pod.needs()) {
            self.pending_mounts.insert(id, pod.needs());
            self.retry_mount(id);
        }
    }

    /// Checks the volumes and devices of a waiting pod again; returns why it still waits: the reason of the event and its text.
    fn retry_mount(&mut self, id: PodId) -> Option<(&'static str, String)> {
        let needs = self.pending_mounts.needs_of(id)?;
        let entry = self.pods.get_mut(id)?;
        let node = self.nodes.get(entry.node);
        let labels = &node.view.as_ref()?.metadata.labels;
        let mount = self.volumes.check(MountNode { name: &node.name, labels }, &needs.volumes);
        let prepared = self.devices.check(&entry.uid, needs.group.as_deref(), &needs.devices);
        let PodState::Decided(lifecycle) = &mut entry.state else { return None };
        let before = Progress::of(lifecycle);
        match mount {
            Mount::Waiting(why) => return Some(("FailedMount", why)),
            Mount::Mounted(mounted) => {
                if let Err(why) = prepared {
                    return Some(("FailedPrepareDynamicResources", why));
                }
                self.volumes.mount(&node.name, &mounted);
                entry.mounted = mounted;
                lifecycle.volumes_mounted(now());
                lifecycle.advance(now());
            }
            Mount::Rejected(mut rejection) if lifecycle.awaits_volumes() => {
                rejection.message = format!("{REJECTED}{}", rejection.message);
                lifecycle.reject_mount(rejection.clone(), now());
                if let Some(events) = &self.events {
                    events.rejected(pod_ref(entry), &rejection);
                }
            }
            // It ran before this agent started.
            Mount::Rejected(_) => {}
        }
        self.pending_mounts.remove(id);
        self.pod_advanced(id, before);
        None
    }

    pub(super) fn mount_due(&mut self, id: PodId) {
        if let Some((reason, why)) = self.retry_mount(id)
            && let Some(entry) = self.pods.get(id)
            && let PodState::Decided(lifecycle) = &entry.state
            && lifecycle.awaits_volumes()
        {
            if let Some(events) = &self.events {
                events.failed_mount(pod_ref(entry), reason, &why);
            }
            self.timers.add(Instant::now() + NEXT_EVENT, Timer::Mount(id));
        }
    }

    /// The pod has ended or is deleted.
    pub(super) fn unmount_volumes(&mut self, id: PodId, node: NodeId, mounted: &Mounted) {
        self.pending_mounts.remove(id);
        self.volumes.unmount(&self.nodes.get(node).name, mounted);
        for claim in &mounted.exclusive {
            self.retry_mounts(self.pending_mounts.of_claim(claim));
        }
    }

    fn retry_mounts(&mut self, pods: Vec<PodId>) {
        for pod in pods {
            self.retry_mount(pod);
        }
    }

    pub(super) fn retry_mounts_of(&mut self, node: NodeId) {
        let is_here = |id: &PodId| self.pods.get(*id).is_some_and(|entry| entry.node == node);
        let pods = self.pending_mounts.pods().filter(is_here).collect();
        self.retry_mounts(pods);
    }

    pub(super) fn claim_changed(&mut self, claim: &NamespacedName) {
        self.retry_mounts(self.pending_mounts.of_claim(claim));
    }
}
