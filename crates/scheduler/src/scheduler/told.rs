//! What the server tells.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use berth_api::object::{Pod, PodDisruptionBudget};
use berth_client::Event;
use berth_engine::DisruptionBudget;
use berth_mirror::feed::{PodChange, PodName};
use berth_mirror::sources::{Source, Told};
use tokio::time::Instant;

use super::{Scheduler, Waiting};
use crate::pods::PodEvent;
use crate::queue::{PodId, Rank};
use crate::status;

impl Scheduler {
    pub(super) fn take(&mut self, told: Told) {
        let completes = told.completes();
        match told {
            Told::Nodes(event) => {
                let may_be_gone = !matches!(event, Event::Applied(_));
                self.feed.nodes(&mut self.cluster, event);
                if may_be_gone {
                    self.abandon_bindings();
                }
            }
            // Pods are told by a source of their own.
            Told::Pods(..) => return,
            Told::Namespaces(event) => _ = self.feed.namespaces(&mut self.cluster, event),
            Told::Services(event) => _ = self.feed.services(&mut self.cluster, event),
            Told::Owners(kind, event) => _ = self.feed.owners(&mut self.cluster, kind, event),
            Told::ReplicationControllers(event) => {
                self.feed.replication_controllers(&mut self.cluster, event);
            }
            Told::Budgets(event) => self.take_budgets(event),
            Told::Fresh(fresh) => self.compare(&fresh),
        }
        if let Some(source) = completes {
            self.has_listed(source);
        }
    }

    pub(super) fn take_pods(&mut self, number: u32, event: PodEvent) {
        if number != self.pod_source.number() {
            return;
        }
        let is_list = matches!(event, PodEvent::Restarted(_));
        self.take_pod_event(event);
        if is_list {
            self.has_listed(Source::Pods);
        }
    }

    fn has_listed(&mut self, source: Source) {
        if self.waits_for.remove(&source) && self.waits_for.is_empty() {
            self.is_complete();
        }
    }

    fn is_complete(&mut self) {
        tracing::info!(
            nodes = self.feed.n_nodes(),
            pods = self.feed.n_pods(),
            waiting = self.pods.len(),
            "the state of the cluster is complete"
        );
        self.next_resync = Instant::now() + self.options.resync_interval;
    }

    /// A binding to a node that has gone is not sent any more.
    fn abandon_bindings(&mut self) {
        let in_flight = self.pods.values().filter_map(|waiting| waiting.binding.as_ref());
        for binding in in_flight.filter(|binding| !self.feed.has_node(&binding.node)) {
            binding.abandoned.store(true, Ordering::Relaxed);
        }
    }

    fn take_budgets(&mut self, event: Event<PodDisruptionBudget>) {
        self.budget_list = None;
        let key = |b: &PodDisruptionBudget| (b.metadata.namespace.clone(), b.metadata.name.clone());
        match event {
            Event::Applied(budget) => {
                self.budgets.insert(key(&budget), DisruptionBudget::from(&budget));
            }
            Event::Deleted(budget) => _ = self.budgets.remove(&key(&budget)),
            Event::Restarted(budgets) => {
                self.budgets = budgets.iter().map(|b| (key(b), DisruptionBudget::from(b))).collect();
            }
        }
    }

    fn take_pod_event(&mut self, event: PodEvent) {
        match event {
            PodEvent::Applied(pod) => self.pod_applied(pod),
            PodEvent::Bound(name) => self.pod_bound(name),
            PodEvent::Deleted(PodName { namespace, name, uid, .. }) => {
                self.pod_gone(&namespace, &name, &uid);
            }
            PodEvent::Restarted(pods) => {
                // What is gone goes first: another pod may have its name by now.
                for (namespace, name, uid) in self.feed.pods_not_in(&pods) {
                    self.pod_gone(&namespace, &name, &uid);
                }
                let listed: std::collections::HashSet<&str> =
                    pods.iter().map(|p| p.metadata.uid.as_str()).collect();
                let gone = self.by_uid.iter().filter(|(uid, _)| !listed.contains(&***uid));
                let gone: Vec<PodId> = gone.map(|(_, id)| *id).collect();
                gone.into_iter().for_each(|id| self.drop_waiting(id));
                pods.into_iter().for_each(|pod| self.pod_applied(Arc::new(pod)));
            }
        }
    }

    /// A pod has a node, and is otherwise as it was told last.
    fn pod_bound(&mut self, told: PodName) {
        match self.feed.confirm(&told) {
            Some(PodChange::Confirmed) => self.n_assumed -= 1,
            Some(_) => {}
            // Not where it was decided to go: somebody else bound it.
            None => match self.by_uid.get(told.uid.as_str()).and_then(|id| self.pods.get(id)) {
                Some(waiting) => {
                    let mut pod = Pod::clone(&waiting.pod);
                    pod.spec.node_name = told.node;
                    pod.metadata.resource_version = told.resource_version;
                    self.pod_applied(Arc::new(pod));
                }
                None => {
                    let PodName { namespace, name, node, .. } = &told;
                    tracing::warn!("pod {namespace}/{name} on {node} is not known: listing pods anew");
                    self.waits_for.insert(Source::Pods);
                    self.pod_source.restart();
                }
            },
        }
    }

    fn pod_gone(&mut self, namespace: &str, name: &str, uid: &str) {
        let was_assumed =
            self.feed.pod(namespace, name).is_some_and(|memo| memo.assumed && *memo.uid == *uid);
        if self.feed.remove_pod(&mut self.cluster, namespace, name, uid) == PodChange::Removed && was_assumed
        {
            self.n_assumed -= 1;
        }
        if let Some(id) = self.by_uid.get(uid).copied() {
            self.drop_waiting(id);
        }
    }

    /// A pod waits no longer, for whatever reason. A binding under way is answered to nobody.
    pub(super) fn drop_waiting(&mut self, id: PodId) {
        let Some(waiting) = self.pods.remove(&id) else { return };
        let metadata = &waiting.pod.metadata;
        self.by_uid.remove(metadata.uid.as_str());
        self.cluster.clear_nomination(&metadata.namespace, &metadata.name);
        self.queue.remove(id, Instant::now());
    }

    pub(super) fn pod_applied(&mut self, pod: Arc<Pod>) {
        let metadata = &pod.metadata;
        let is_assumed = |memo: &berth_mirror::feed::PodMemo| memo.assumed;
        let was_assumed = self.feed.pod(&metadata.namespace, &metadata.name).is_some_and(is_assumed);
        self.feed.set_pod(&mut self.cluster, &pod);
        let memo = self.feed.pod(&metadata.namespace, &metadata.name);
        let still_assumed = memo.is_some_and(|memo| memo.assumed);
        if was_assumed && !still_assumed {
            self.n_assumed -= 1;
        }
        let is_bound_by_us = memo.is_some_and(|memo| *memo.uid == *metadata.uid);
        let waits = self.waits_here(&pod);
        match self.by_uid.get(metadata.uid.as_str()).copied() {
            Some(id) if waits => self.pod_updated(id, pod),
            // The answer to its binding settles what became of it.
            Some(id) => match self.pods.get_mut(&id) {
                Some(waiting) if waiting.binding.is_some() => waiting.pod = pod,
                _ => self.drop_waiting(id),
            },
            // A pod that is bound already, as far as its binding's answer goes, may be told as it was before.
            None if waits && !is_bound_by_us => self.pod_added(pod),
            None => {}
        }
    }

    /// Whether it is this scheduler that has to find a node for a pod.
    pub(super) fn waits_here(&self, pod: &Pod) -> bool {
        pod.spec.node_name.is_empty()
            && !pod.is_terminal()
            && pod.metadata.deletion_timestamp.is_none()
            && self.options.settings.config.profile(&pod.spec.scheduler_name).is_some()
    }

    fn rank(pod: &Pod) -> Rank {
        Rank {
            priority: pod.spec.priority.unwrap_or(0),
            created: pod.metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second),
        }
    }

    fn is_gated(&self, pod: &Pod) -> bool {
        let profile = self.options.settings.config.profile(&pod.spec.scheduler_name);
        !pod.spec.scheduling_gates.is_empty() && profile.is_none_or(|p| p.scheduling_gates)
    }

    fn pod_added(&mut self, pod: Arc<Pod>) {
        self.last_id += 1;
        let id = PodId(self.last_id);
        let now = Instant::now();
        let prepared = self.cluster.prepare(&pod);
        let nominated = &pod.status.nominated_node_name;
        if !nominated.is_empty() {
            self.cluster.nominate(&prepared, nominated);
        }
        let is_gated = self.is_gated(&pod);
        self.queue.add(id, Self::rank(&pod), is_gated);
        self.metrics.queued(if is_gated { "gated" } else { "active" }, "PodAdd");
        self.by_uid.insert(pod.metadata.uid.as_str().into(), id);
        let waiting = Waiting {
            prepared,
            fingerprint: self.feed.fingerprint(&pod),
            is_stale: false,
            attempts: 0,
            first_seen: now,
            decided_at: now,
            binding: None,
            told: status::Told::of(&pod),
            to_tell: None,
            is_being_told: false,
            pod,
        };
        self.pods.insert(id, waiting);
    }

    fn pod_updated(&mut self, id: PodId, pod: Arc<Pod>) {
        let fingerprint = self.feed.fingerprint(&pod);
        let Some(waiting) = self.pods.get_mut(&id) else { return };
        let is_changed = waiting.fingerprint != fingerprint;
        waiting.pod = pod;
        waiting.fingerprint = fingerprint;
        if !is_changed {
            return;
        }
        if waiting.binding.is_some() {
            waiting.is_stale = true;
            return;
        }
        self.refresh(id);
    }

    /// A pod that changed is prepared anew and may be decided again: the change may be what it waited for.
    pub(super) fn refresh(&mut self, id: PodId) {
        let Some(waiting) = self.pods.get_mut(&id) else { return };
        waiting.is_stale = false;
        waiting.prepared = self.cluster.prepare(&waiting.pod);
        let pod = waiting.pod.clone();
        let metadata = &pod.metadata;
        if let Some(node) = self.cluster.nomination(&metadata.namespace, &metadata.name).map(str::to_owned) {
            self.cluster.nominate(&waiting.prepared, &node);
        }
        let now = Instant::now();
        self.queue.set_rank(id, Self::rank(&pod));
        if self.is_gated(&pod) {
            self.queue.gate(id, now);
        } else {
            self.queue.found_place(id, now);
            self.queue.activate(id, now);
            self.metrics.queued("active", "PodUpdate");
        }
    }
}
