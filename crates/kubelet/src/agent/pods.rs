//! Pods: judged, brought through their lives, reported, removed.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_api::object::Namespace;
use berth_watch::Event;
use berth_watch::call::{self, CallError};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::lane::{Done, Job, Sent, retry_after};
use super::store::{Counted, NodeId, NodeState, PodEntry, PodId, PodKey, PodState};
use super::{Agent, Timer, now};
use crate::node::NodeView;
use crate::pod::annotation::Wishes;
use crate::pod::life::{Life, Refusal};
use crate::pod::plan::Plan;
use crate::pod::status::Addresses;
use crate::pod::view::PodView;
use crate::request::{self, NAMESPACES, NODES, STRATEGIC_MERGE};

/// More bytes of namespaces than this are not read for a second look.
const MAX_NAMESPACES_BYTES: usize = 64 << 20;

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
                let id = self.pods.find(&key_of(&pod));
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
            let metadata = &pod.metadata;
            (
                !pod.is_running(),
                metadata.creation_timestamp,
                metadata.namespace.clone(),
                metadata.name.clone(),
            )
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
        match self.pods.find(&key_of(&pod)) {
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
                self.arm(id, self.options.second_look_after);
            }
        }
    }

    fn insert_entry(&mut self, node: NodeId, pod: &PodView, state: PodState) -> PodId {
        let id = self.pods.insert(PodEntry {
            key: key_of(pod),
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
                if is_deleted {
                    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30).max(0) as u64;
                    life.delete(Duration::from_secs(grace), now());
                }
                self.pod_advanced(id);
            }
        }
    }

    fn plan(&self, pod: &PodView) -> Plan {
        let wishes = Wishes::read(&pod.metadata.annotations);
        for problem in &wishes.problems {
            tracing::warn!(namespace = %pod.metadata.namespace, pod = %pod.metadata.name, "{problem}");
        }
        Plan::new(pod, &self.options.pods, &wishes, &mut fastrand::f64)
    }

    /// After any change: what has ended takes no room any more, what is new is written, the next stage is awaited.
    fn pod_advanced(&mut self, id: PodId) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        let PodState::Decided(life) = &entry.state else { return };
        let (due, ended) = (life.due(), life.has_ended());
        let wants_write = life.version() > entry.written || life.is_removable() && !entry.removed;
        if ended {
            if let Some(ip) = entry.ip.take() {
                self.pod_ips.release(ip);
            }
            if entry.fingerprint.take().is_some() {
                self.admission.release(&entry.key.0, &entry.key.1);
            }
        }
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
                life.advance(now());
                self.pod_advanced(id);
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

    pub(super) fn start_pod_write(&mut self, id: PodId) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        let node = self.nodes.get(entry.node);
        let PodState::Decided(life) = &entry.state else { return };
        let path = request::pod_path(&entry.key.0, &entry.key.1);
        let (sent, request) = if node.state != NodeState::Up {
            entry.busy = false;
            return;
        } else if life.version() > entry.written {
            let status = life.status(&entry.uid, Addresses { host: node.ip, pod: entry.ip });
            // The uid is a precondition: a pod made anew under the same name is not this one.
            let body = json!({ "metadata": { "uid": entry.uid }, "status": status });
            let request = request::patch(&format!("{path}/status"), STRATEGIC_MERGE, &body);
            (Sent::PodStatus(life.version()), request)
        } else if life.is_removable() && !entry.removed {
            (Sent::PodRemoval, request::delete_now(&path, &entry.uid))
        } else {
            entry.busy = false;
            return;
        };
        let (caller, name) = (self.caller.clone(), node.name.clone());
        self.work.start(async move {
            let result = caller.send(&name, request).await.map(|_| Vec::new());
            Done { job: Job::Pod(id), sent, result }
        });
    }

    pub(super) fn pod_written(&mut self, id: PodId, sent: Sent, result: Result<Vec<Bytes>, CallError>) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        match result {
            Ok(_) => {
                match sent {
                    Sent::PodStatus(version) => entry.written = version,
                    _ => entry.removed = true,
                }
                entry.busy = false;
                entry.failures = 0;
                self.pod_advanced(id);
            }
            // The pod is gone, as the watch will tell: it stays busy until then.
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let wait = retry_after(entry.failures, &error, fastrand::f64());
                entry.failures += 1;
                let (namespace, name) = &entry.key;
                tracing::warn!(%namespace, pod = %name, failures = entry.failures, "not written: {error}");
                self.retry(Job::Pod(id), wait);
            }
        }
    }

    /// Reads the node and the namespaces as they are now.
    pub(super) fn start_second_look(&mut self, id: PodId) {
        let Some(entry) = self.pods.get(id) else { return };
        let (caller, name) = (self.caller.clone(), self.nodes.get(entry.node).name.clone());
        self.work.start(async move {
            let node = caller.send(&name, call::get(&format!("{NODES}/{name}"))).await;
            let namespaces = caller.send_own(call::get(NAMESPACES), MAX_NAMESPACES_BYTES).await;
            let result = node.and_then(|node| Ok(vec![node, namespaces?]));
            Done { job: Job::SecondLook(id), sent: Sent::Plain, result }
        });
    }

    pub(super) fn second_look(&mut self, id: PodId, result: Result<Vec<Bytes>, CallError>) {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct NamespaceList {
            items: Vec<Namespace>,
        }
        let Some(entry) = self.pods.get_mut(id) else { return };
        let node = entry.node;
        match result {
            // The node is gone, and the watch will tell.
            Err(error) if error.is_not_found() => return self.forget_pod(id),
            Err(error) => {
                let wait = retry_after(entry.failures, &error, fastrand::f64());
                entry.failures += 1;
                return self.retry(Job::SecondLook(id), wait);
            }
            Ok(answers) => {
                entry.busy = false;
                entry.failures = 0;
                let view = answers.first().and_then(|bytes| serde_json::from_slice::<NodeView>(bytes).ok());
                if let Some(view) = view
                    && self.nodes.get(node).state == NodeState::Up
                {
                    self.admission.set_node(&view.to_node());
                    self.nodes.get_mut(node).view = Some(view);
                }
                let list =
                    answers.get(1).and_then(|bytes| serde_json::from_slice::<NamespaceList>(bytes).ok());
                list.unwrap_or_default().items.iter().for_each(|n| self.admission.set_namespace(n));
            }
        }
        let Some(PodEntry { state: PodState::Doubtful(pod), .. }) = self.pods.get(id) else { return };
        let pod = pod.clone();
        let plan = self.plan(&pod);
        let life = match self.admission.judge(&pod) {
            Ok(()) => Life::accept(plan, now()),
            Err(Refusal { reason, message }) => {
                let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
                tracing::info!(%namespace, pod = %name, node = %pod.spec.node_name, %reason, "refused: {message}");
                let message = format!("Pod was rejected: {message}");
                Life::reject(plan, Refusal { reason, message }, now())
            }
        };
        if let Some(entry) = self.pods.get_mut(id) {
            entry.state = PodState::Decided(Box::new(life));
        }
        self.decided(id, &pod);
    }

    /// The pod is no longer there, or no longer ours.
    pub(super) fn forget_pod(&mut self, id: PodId) {
        let Some(entry) = self.pods.remove(id) else { return };
        if let Some(ip) = entry.ip {
            self.pod_ips.release(ip);
        }
        if entry.fingerprint.is_some() {
            self.admission.release(&entry.key.0, &entry.key.1);
        }
        self.recount(entry.counted, Counted::Nothing);
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

fn key_of(pod: &PodView) -> PodKey {
    (pod.metadata.namespace.clone(), pod.metadata.name.clone())
}

/// From now to a time of day, which may have passed.
fn until(due: Timestamp) -> Duration {
    now().duration_until(due).try_into().unwrap_or(Duration::ZERO)
}
