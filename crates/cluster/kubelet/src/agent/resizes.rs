//! Resizes of pods: the node allocates the resources if it has them.

use berth_rules::PodRequests;

use super::state::{Agent, now};
use super::store::{NodeId, PendingPodResize, PodId, PodState};
use crate::event::Progress;
use crate::pod::resize::PendingResize;
use crate::pod::view::PodView;

impl Agent {
    /// Decides about a resize, if the pod requests one.
    pub(super) fn resize(&mut self, id: PodId, pod: &PodView) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        let PodState::Decided(lifecycle) = &mut entry.state else { return };
        if lifecycle.has_ended() || lifecycle.is_stopping() || entry.fingerprint.is_none() {
            return;
        }
        if !lifecycle.is_resized_by(pod) {
            lifecycle.end_pending(pod);
            self.pending_resizes.retain(|pending| pending.id != id);
            return;
        }
        let node = entry.node;
        let pending = match self.infeasible(node, pod) {
            Some(why) => Some(PendingResize::Infeasible(why)),
            None => self.deferred(pod),
        };
        let Some(entry) = self.pods.get_mut(id) else { return };
        let PodState::Decided(lifecycle) = &mut entry.state else { return };
        let is_pending = pending.is_some();
        match pending {
            Some(pending) => lifecycle.leave_pending(pod, pending, now()),
            None => lifecycle.allocate(pod, now()),
        }
        entry.fingerprint = Some(self.admission.accept(&lifecycle.as_allocated(pod)));
        self.pending_resizes.retain(|pending| pending.id != id);
        if is_pending {
            self.pending_resizes.push(PendingPodResize { node, id, pod: Box::new(pod.clone()) });
        }
    }

    /// Why the node can never give a pod what it requests. The words are the kubelet's.
    fn infeasible(&self, node: NodeId, pod: &PodView) -> Option<String> {
        let node = self.nodes.get(node).view.as_ref()?.to_node();
        let allocatable = node.status.allocatable.as_ref();
        let of = |name: &str| allocatable.and_then(|all| all.get(name)).copied().unwrap_or_default();
        let requests = PodRequests::of(&pod.to_placed());
        let (cpu, memory) = (of("cpu").millis(), of("memory").units());
        let why = if requests.memory > memory {
            format!("memory, requested: {}, capacity: {memory}", requests.memory)
        } else if requests.milli_cpu > cpu {
            format!("cpu, requested: {}, capacity: {cpu}", requests.milli_cpu)
        } else {
            return None;
        };
        Some(format!("Node didn't have enough capacity: {why}"))
    }

    /// Why the node cannot give a pod what it requests now.
    fn deferred(&mut self, pod: &PodView) -> Option<PendingResize> {
        self.admission.release(&pod.metadata.namespaced_name());
        let rejection = self.admission.check(pod).err()?;
        rejection.reason.starts_with("OutOf").then_some(PendingResize::Deferred(rejection.message))
    }

    /// Resources of a node may have become free, or others than they were.
    pub(super) fn retry_resizes(&mut self, node: NodeId) {
        let (here, elsewhere) =
            std::mem::take(&mut self.pending_resizes).into_iter().partition(|d| d.node == node);
        self.pending_resizes = elsewhere;
        let here: Vec<PendingPodResize> = here;
        for PendingPodResize { id, pod, .. } in here {
            self.resize(id, &pod);
            let unchanged = self.pods.get(id).and_then(|entry| match &entry.state {
                PodState::Decided(lifecycle) => Some(Progress::of(lifecycle)),
                PodState::PendingRecheck(_) => None,
            });
            if let Some(unchanged) = unchanged {
                self.pod_advanced(id, unchanged);
            }
        }
    }
}
