//! Pods: admission, lifecycle, status writes, removal.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_client::Event;
use jiff::Timestamp;
use tokio::time::Instant;

use super::request_queue::Job;
use super::state::{Agent, Timer, now};
use super::store::{NodeId, NodeState, PodCounter, PodEntry, PodId, PodState};
use crate::event::{PodRef, Progress};
use crate::pod::annotation::PodBehavior;
use crate::pod::lifecycle::PodLifecycle;
use crate::pod::plan::Plan;
use crate::pod::view::PodView;
use crate::volume::Mounted;

impl Agent {
    pub(super) fn pod_event(&mut self, event: Event<PodView>) {
        match event {
            Event::Restarted(pods) => {
                self.follows_pods = true;
                let listed: HashSet<_> = pods.iter().map(|pod| pod.metadata.uid.clone()).collect();
                for id in self.pods.ids() {
                    if self.pods.get(id).is_some_and(|pod| !listed.contains(&pod.uid)) {
                        self.forget_pod(id);
                    }
                }
                self.pods_found(pods);
            }
            Event::Applied(pod) => self.pod_applied(pod),
            Event::Deleted(pod) => {
                let id = self.pods.find(&pod.metadata.namespaced_name());
                if let Some(id) =
                    id.filter(|id| self.pods.get(*id).is_some_and(|p| p.uid == pod.metadata.uid))
                {
                    self.forget_pod(id);
                }
            }
        }
    }

    /// Handles listed pods: running pods first, then new pods by age.
    pub(super) fn pods_found(&mut self, mut pods: Vec<PodView>) {
        let order = |pod: &PodView| {
            (!pod.is_running(), pod.metadata.creation_timestamp, pod.metadata.namespaced_name())
        };
        pods.sort_by_cached_key(order);
        pods.into_iter().for_each(|pod| self.pod_applied(pod));
    }

    fn pod_applied(&mut self, pod: PodView) {
        let Some(node) = self.nodes.find(&pod.spec.node_name) else { return };
        // A node lists its pods when it starts.
        if self.nodes.get(node).state != NodeState::Running {
            return;
        }
        match self.pods.find(&pod.metadata.namespaced_name()) {
            Some(id) if self.pods.get(id).is_some_and(|entry| entry.uid == pod.metadata.uid) => {
                self.pod_changed(id, &pod);
            }
            Some(other) => {
                self.forget_pod(other);
                self.pod_arrived(node, pod);
            }
            None => self.pod_arrived(node, pod),
        }
    }

    fn pod_arrived(&mut self, node: NodeId, pod: PodView) {
        let is_deleted = pod.metadata.deletion_timestamp.is_some();
        if pod.is_terminal() {
            if is_deleted {
                let lifecycle = PodLifecycle::resume(&pod, self.plan(&pod), now());
                self.insert_pod(node, &pod, lifecycle);
            }
            return;
        }
        if pod.is_running() {
            let lifecycle = PodLifecycle::resume(&pod, self.plan(&pod), now());
            return self.insert_pod(node, &pod, lifecycle);
        }
        if is_deleted {
            let lifecycle = PodLifecycle::accept(self.plan(&pod), now());
            return self.insert_pod(node, &pod, lifecycle);
        }
        match self.admission.check(&pod) {
            Ok(()) => {
                let lifecycle = PodLifecycle::accept(self.plan(&pod), now());
                self.insert_pod(node, &pod, lifecycle);
            }
            Err(rejection) => {
                tracing::debug!(pod = %pod.metadata.name, reason = %rejection.reason, "rejected, will be checked again");
                let id = self.insert_entry(node, &pod, PodState::PendingRecheck(Box::new(pod.clone())));
                self.pending_rechecks.push((node, id));
                self.arm(id, self.options.recheck_after);
            }
        }
    }

    fn insert_entry(&mut self, node: NodeId, pod: &PodView, state: PodState) -> PodId {
        let id = self.pods.insert(PodEntry {
            key: pod.metadata.namespaced_name(),
            uid: pod.metadata.uid.clone(),
            node,
            state,
            ip: None,
            written: 0,
            removed: false,
            busy: false,
            failures: 0,
            timer_epoch: 0,
            fingerprint: None,
            counter: PodCounter::default(),
            mounted: Mounted::default(),
        });
        self.count_pod(id);
        id
    }

    fn insert_pod(&mut self, node: NodeId, pod: &PodView, mut lifecycle: PodLifecycle) {
        if lifecycle.may_be_announced() && self.announcements.try_take(Instant::now()) {
            lifecycle.announce();
        }
        let id = self.insert_entry(node, pod, PodState::Decided(Box::new(lifecycle)));
        self.decided(id, pod);
    }

    /// Ends the wait for the final check.
    pub(super) fn decide(&mut self, id: PodId, lifecycle: PodLifecycle, pod: &PodView) {
        self.pending_rechecks.retain(|(_, pending)| *pending != id);
        if let Some(entry) = self.pods.get_mut(id) {
            entry.state = PodState::Decided(Box::new(lifecycle));
        }
        self.decided(id, pod);
    }

    /// The pod's lifecycle starts or resumes.
    fn decided(&mut self, id: PodId, pod: &PodView) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        let PodState::Decided(lifecycle) = &entry.state else { return };
        if !lifecycle.has_ended() {
            if lifecycle.needs_pod_ip() {
                let ip = match pod.status.pod_ip.parse() {
                    Ok(ip) => {
                        self.pod_ips.reserve(ip);
                        ip
                    }
                    Err(_) => self.pod_ips.take(),
                };
                entry.ip = Some(ip);
            }
            entry.fingerprint = Some(self.admission.accept(&lifecycle.as_allocated(pod)));
            let node = entry.node;
            self.recheck_pending(node);
            self.mount_volumes(id, pod);
        }
        self.pod_changed(id, pod);
    }

    fn pod_changed(&mut self, id: PodId, pod: &PodView) {
        let is_deleted = pod.metadata.deletion_timestamp.is_some();
        if pod.is_terminal() && !is_deleted {
            // Nothing is left to do until the pod is deleted; it is then handled as a new pod. Only a watch event leads
            // here, not the answer to the write: older events may still arrive.
            return self.forget_pod(id);
        }
        self.resize(id, pod);
        self.needs_changed(id, pod);
        let Some(entry) = self.pods.get_mut(id) else { return };
        match &mut entry.state {
            PodState::PendingRecheck(_) if is_deleted => {
                let node = entry.node;
                self.forget_pod(id);
                self.pod_arrived(node, pod.clone());
            }
            PodState::PendingRecheck(before) => **before = pod.clone(),
            PodState::Decided(lifecycle) => {
                if pod.is_terminal() && !lifecycle.has_ended() {
                    // Another client has ended the pod.
                    let plan = lifecycle.plan().clone();
                    **lifecycle = PodLifecycle::resume(pod, plan, now());
                    entry.written = 0;
                }
                if entry.fingerprint.is_some_and(|before| before != self.admission.fingerprint(pod)) {
                    entry.fingerprint = Some(self.admission.accept(&lifecycle.as_allocated(pod)));
                }
                lifecycle.set_readiness_gates(pod.passes_readiness_gates());
                let before = Progress::of(lifecycle);
                if is_deleted {
                    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30).max(0) as u64;
                    lifecycle.delete(Duration::from_secs(grace), now());
                }
                self.pod_advanced(id, before);
            }
        }
    }

    pub(super) fn plan(&self, pod: &PodView) -> Plan {
        let behavior = PodBehavior::read(&pod.metadata.annotations);
        for problem in &behavior.problems {
            tracing::warn!(namespace = %pod.metadata.namespace, pod = %pod.metadata.name, "{problem}");
        }
        Plan::new(pod, &self.options.pods, &behavior, &mut fastrand::f64)
    }

    /// After any change: makes what is due, releases the resources of an ended pod, writes a new status, sets the next timer.
    pub(super) fn pod_advanced(&mut self, id: PodId, before: Progress) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        if let PodState::Decided(lifecycle) = &mut entry.state {
            lifecycle.advance(now());
        }
        let PodState::Decided(lifecycle) = &entry.state else { return };
        if let Some(events) = &self.events {
            events.lifecycle_changed(pod_ref(entry), lifecycle, before);
        }
        let (due, ended) = (lifecycle.due(), lifecycle.has_ended());
        let wants_write = lifecycle.version() > entry.written || lifecycle.is_removable() && !entry.removed;
        if ended {
            if let Some(ip) = entry.ip.take() {
                self.pod_ips.release(ip);
            }
            if entry.fingerprint.take().is_some() {
                self.admission.release(&entry.key);
                let (node, mounted) = (entry.node, std::mem::take(&mut entry.mounted));
                self.unmount_volumes(id, node, &mounted);
                self.recheck_pending(node);
                self.retry_resizes(node);
            }
        }
        let Some(entry) = self.pods.get_mut(id) else { return };
        let write = wants_write && !entry.busy;
        entry.busy |= write;
        self.count_pod(id);
        if write {
            self.push(Job::Pod(id));
        }
        if let Some(due) = due {
            self.arm(id, until(due));
        }
    }

    fn arm(&mut self, id: PodId, after: Duration) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        entry.timer_epoch += 1;
        self.timers.add(Instant::now() + after, Timer::Pod(id, entry.timer_epoch));
    }

    pub(super) fn pod_due(&mut self, id: PodId, epoch: u32) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        if entry.timer_epoch != epoch || self.nodes.get(entry.node).state != NodeState::Running {
            return;
        }
        match &mut entry.state {
            PodState::PendingRecheck(_) if entry.busy => {}
            PodState::PendingRecheck(_) => {
                entry.busy = true;
                self.push(Job::Recheck(id));
            }
            PodState::Decided(lifecycle) => {
                let before = Progress::of(lifecycle);
                // Its time has passed by the clock of the timer, also if the wall clock was set back.
                if let Some(due) = lifecycle.due() {
                    lifecycle.advance(due.max(now()));
                }
                self.pod_advanced(id, before);
            }
        }
    }

    /// The pod's node has started again.
    pub(super) fn resume_pod(&mut self, id: PodId) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        match &entry.state {
            PodState::PendingRecheck(_) => self.arm(id, Duration::ZERO),
            PodState::Decided(lifecycle) => {
                let before = Progress::of(lifecycle);
                self.pod_advanced(id, before);
            }
        }
    }

    /// The pod is deleted, or no longer belongs to this agent.
    pub(super) fn forget_pod(&mut self, id: PodId) {
        let Some(entry) = self.pods.remove(id) else { return };
        if let Some(ip) = entry.ip {
            self.pod_ips.release(ip);
        }
        self.recount(entry.counter, PodCounter::Nothing);
        self.pending_rechecks.retain(|(_, pending)| *pending != id);
        self.pending_resizes.retain(|pending| pending.id != id);
        if entry.fingerprint.is_some() {
            self.admission.release(&entry.key);
            self.unmount_volumes(id, entry.node, &entry.mounted);
            self.recheck_pending(entry.node);
            self.retry_resizes(entry.node);
        }
    }

    fn count_pod(&mut self, id: PodId) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        let counter = match &entry.state {
            PodState::Decided(lifecycle) if lifecycle.is_ready() => PodCounter::Ready,
            PodState::Decided(lifecycle) if lifecycle.is_running() => PodCounter::Running,
            PodState::Decided(lifecycle) if lifecycle.has_ended() => PodCounter::Nothing,
            _ => PodCounter::Pending,
        };
        let before = std::mem::replace(&mut entry.counter, counter);
        let ended = matches!(&entry.state, PodState::Decided(lifecycle) if lifecycle.has_ended() && !lifecycle.is_removable());
        if ended && before != PodCounter::Nothing {
            self.counts.pods_ended.fetch_add(1, Ordering::Relaxed);
        }
        if before != counter {
            self.recount(before, counter);
        }
    }
}

pub(super) fn pod_ref(entry: &PodEntry) -> PodRef<'_> {
    PodRef { key: &entry.key, uid: &entry.uid }
}

/// Time until `due`; zero if it has passed.
fn until(due: Timestamp) -> Duration {
    now().duration_until(due).try_into().unwrap_or(Duration::ZERO)
}
