//! Pods: judged, brought through their lives, reported, removed.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_client::Event;
use jiff::Timestamp;
use tokio::time::Instant;

use super::lane::Job;
use super::store::{Counted, NodeId, NodeState, PodEntry, PodId, PodState};
use super::{Agent, Timer, now};
use crate::event::{Progress, Subject};
use crate::pod::annotation::Wishes;
use crate::pod::life::Life;
use crate::pod::plan::Plan;
use crate::pod::view::PodView;

impl Agent {
    pub(super) fn pod_event(&mut self, event: Event<PodView>) {
        match event {
            Event::Restarted(pods) => {
                self.follows_pods = true;
                let there: HashSet<_> = pods.iter().map(|pod| pod.metadata.uid.clone()).collect();
                for id in self.pods.ids() {
                    if self.pods.get(id).is_some_and(|pod| !there.contains(&pod.uid)) {
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

    /// Takes pods whose order of arrival is not known: those that run come before those to be judged, and these by
    /// age.
    pub(super) fn pods_found(&mut self, mut pods: Vec<PodView>) {
        let order = |pod: &PodView| {
            (!pod.is_running(), pod.metadata.creation_timestamp, pod.metadata.namespaced_name())
        };
        pods.sort_by_cached_key(order);
        pods.into_iter().for_each(|pod| self.pod_applied(pod));
    }

    fn pod_applied(&mut self, pod: PodView) {
        let Some(node) = self.nodes.find(&pod.spec.node_name) else { return };
        // A node that comes up lists its pods.
        if self.nodes.get(node).state != NodeState::Up {
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
                let life = Life::resume(&pod, self.plan(&pod), now());
                self.insert_pod(node, &pod, life);
            }
            return;
        }
        if pod.is_running() {
            let life = Life::resume(&pod, self.plan(&pod), now());
            return self.insert_pod(node, &pod, life);
        }
        if is_deleted {
            let life = Life::accept(self.plan(&pod), now());
            return self.insert_pod(node, &pod, life);
        }
        match self.admission.judge(&pod) {
            Ok(()) => {
                let life = Life::accept(self.plan(&pod), now());
                self.insert_pod(node, &pod, life);
            }
            Err(refusal) => {
                tracing::debug!(pod = %pod.metadata.name, reason = %refusal.reason, "refused; looking again later");
                let id = self.insert_entry(node, &pod, PodState::Doubtful(Box::new(pod.clone())));
                self.doubtful.push((node, id));
                self.arm(id, self.options.second_look_after);
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
            counted: Counted::default(),
        });
        self.count_pod(id);
        id
    }

    fn insert_pod(&mut self, node: NodeId, pod: &PodView, life: Life) {
        let id = self.insert_entry(node, pod, PodState::Decided(Box::new(life)));
        self.decided(id, pod);
    }

    /// A doubtful pod is doubtful no more.
    pub(super) fn decide(&mut self, id: PodId, life: Life, pod: &PodView) {
        self.doubtful.retain(|(_, doubtful)| *doubtful != id);
        if let Some(entry) = self.pods.get_mut(id) {
            entry.state = PodState::Decided(Box::new(life));
        }
        self.decided(id, pod);
    }

    /// The pod's life begins, or goes on.
    fn decided(&mut self, id: PodId, pod: &PodView) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        let PodState::Decided(life) = &entry.state else { return };
        if !life.has_ended() {
            if life.needs_pod_ip() {
                let ip = match pod.status.pod_ip.parse() {
                    Ok(ip) => {
                        self.pod_ips.reserve(ip);
                        ip
                    }
                    Err(_) => self.pod_ips.take(),
                };
                entry.ip = Some(ip);
            }
            entry.fingerprint = Some(self.admission.accept(pod));
            let node = entry.node;
            self.look_again(node);
        }
        self.pod_changed(id, pod);
    }

    /// Something about a known pod may have changed.
    fn pod_changed(&mut self, id: PodId, pod: &PodView) {
        let is_deleted = pod.metadata.deletion_timestamp.is_some();
        if pod.is_terminal() && !is_deleted {
            // Nothing more to do until somebody deletes it; then it arrives anew. Only the watch says so, and not the
            // answer to the write: events from before that write may still come.
            return self.forget_pod(id);
        }
        let Some(entry) = self.pods.get_mut(id) else { return };
        match &mut entry.state {
            PodState::Doubtful(_) if is_deleted => {
                let node = entry.node;
                self.forget_pod(id);
                self.pod_arrived(node, pod.clone());
            }
            PodState::Doubtful(before) => **before = pod.clone(),
            PodState::Decided(life) => {
                if pod.is_terminal() && !life.has_ended() {
                    // Somebody else declared it ended.
                    let plan = life.plan().clone();
                    **life = Life::resume(pod, plan, now());
                    entry.written = 0;
                }
                if entry.fingerprint.is_some_and(|before| before != self.admission.fingerprint(pod)) {
                    entry.fingerprint = Some(self.admission.accept(pod));
                }
                life.set_readiness_gates(pod.passes_readiness_gates());
                let before = Progress::of(life);
                if is_deleted {
                    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30).max(0) as u64;
                    life.delete(Duration::from_secs(grace), now());
                }
                self.pod_advanced(id, before);
            }
        }
    }

    pub(super) fn plan(&self, pod: &PodView) -> Plan {
        let wishes = Wishes::read(&pod.metadata.annotations);
        for problem in &wishes.problems {
            tracing::warn!(namespace = %pod.metadata.namespace, pod = %pod.metadata.name, "{problem}");
        }
        Plan::new(pod, &self.options.pods, &wishes, &mut fastrand::f64)
    }

    /// After any change: what has ended takes no room any more, what is new is written, the next stage is awaited.
    pub(super) fn pod_advanced(&mut self, id: PodId, before: Progress) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        let PodState::Decided(life) = &entry.state else { return };
        if let Some(events) = &self.events {
            events.advanced(subject(entry), life, before);
        }
        let (due, ended) = (life.due(), life.has_ended());
        let wants_write = life.version() > entry.written || life.is_removable() && !entry.removed;
        if ended {
            if let Some(ip) = entry.ip.take() {
                self.pod_ips.release(ip);
            }
            if entry.fingerprint.take().is_some() {
                self.admission.release(&entry.key);
                let node = entry.node;
                self.look_again(node);
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
        if entry.timer_epoch != epoch || self.nodes.get(entry.node).state != NodeState::Up {
            return;
        }
        match &mut entry.state {
            PodState::Doubtful(_) if entry.busy => {}
            PodState::Doubtful(_) => {
                entry.busy = true;
                self.push(Job::SecondLook(id));
            }
            PodState::Decided(life) => {
                let before = Progress::of(life);
                life.advance(now());
                self.pod_advanced(id, before);
            }
        }
    }

    /// Its node has been switched on again.
    pub(super) fn resume_pod(&mut self, id: PodId) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        entry.timer_epoch += 1;
        let epoch = entry.timer_epoch;
        self.pod_due(id, epoch);
    }

    /// The pod is no longer there, or no longer ours.
    pub(super) fn forget_pod(&mut self, id: PodId) {
        let Some(entry) = self.pods.remove(id) else { return };
        if let Some(ip) = entry.ip {
            self.pod_ips.release(ip);
        }
        self.recount(entry.counted, Counted::Nothing);
        self.doubtful.retain(|(_, doubtful)| *doubtful != id);
        if entry.fingerprint.is_some() {
            self.admission.release(&entry.key);
            self.look_again(entry.node);
        }
    }

    fn count_pod(&mut self, id: PodId) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        let counted = match &entry.state {
            PodState::Decided(life) if life.is_ready() => Counted::Ready,
            PodState::Decided(life) if life.is_running() => Counted::Running,
            PodState::Decided(life) if life.has_ended() => Counted::Nothing,
            _ => Counted::Pending,
        };
        let before = std::mem::replace(&mut entry.counted, counted);
        let ended =
            matches!(&entry.state, PodState::Decided(life) if life.has_ended() && !life.is_removable());
        if ended && before != Counted::Nothing {
            self.counts.pods_ended.fetch_add(1, Ordering::Relaxed);
        }
        if before != counted {
            self.recount(before, counted);
        }
    }
}

pub(super) fn subject(entry: &PodEntry) -> Subject<'_> {
    Subject { key: &entry.key, uid: &entry.uid }
}

/// From now to a time of day, which may have passed.
fn until(due: Timestamp) -> Duration {
    now().duration_until(due).try_into().unwrap_or(Duration::ZERO)
}
