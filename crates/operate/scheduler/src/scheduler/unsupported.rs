//! Pods with fields that decide about placement and that Berth does not support: they are not bound.

use berth_api::object::DeviceResources;
use berth_api::object::support::unsupported_message;
use tokio::time::Instant;

use super::Scheduler;
use crate::queue::PodId;
use crate::status::FailureReason;

impl Scheduler {
    /// Parks a pod with unsupported fields until it changes: like a pod with scheduling gates, it is not decided.
    /// Returns whether it is parked.
    pub(super) fn park_if_unsupported(&mut self, id: PodId) -> bool {
        let Some(queued) = self.pods.get(id).filter(|_| !self.options.ignore_unsupported) else {
            return false;
        };
        let fields = queued.suspect.unsupported(&self.devices);
        if fields.is_empty() {
            return false;
        }
        let (pod, now) = (queued.pod.clone(), Instant::now());
        let message = format!("{}: the pod is not scheduled", unsupported_message(&fields));
        tracing::info!(pod = pod.key(), "{message}");
        self.queue.gate(id, now);
        self.metrics.queued("gated", "ScheduleAttemptFailure");
        self.write_status(id, |status| {
            status.reason = FailureReason::Unschedulable.as_str().to_owned();
            status.message.clone_from(&message);
        });
        self.events.parked(&pod, message);
        true
    }

    /// Applies a change of the device classes. Pods whose fields are supported now, or are not any more, are decided again.
    pub(super) fn device_classes_changed(&mut self, change: impl FnOnce(&mut DeviceResources) -> bool) {
        let before = self.devices.clone();
        if !change(&mut self.devices) {
            return;
        }
        let is_concerned = |id: &PodId| {
            self.pods.get(*id).is_some_and(|queued| {
                let unsupported = |devices| queued.suspect.unsupported(devices);
                queued.binding.is_none() && unsupported(&before) != unsupported(&self.devices)
            })
        };
        let concerned: Vec<_> = self.pods.ids().filter(is_concerned).collect();
        concerned.into_iter().for_each(|id| self.requeue(id));
    }
}
