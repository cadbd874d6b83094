//! A scheduling attempt of a group: all required members get a node at once, or none. If none do, pods of lower priority
//! are preempted for all of them, or for none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_api::config::Plugin;
use berth_api::journal::Entry;
use berth_api::object::VolumeDecision;
use berth_engine::{Group, GroupOutcome, GroupTopology, GroupVictims, Outcome, PreparedPod};
use tokio::time::Instant;

use super::super::completions::Eviction;
use super::super::nominations::Preemptions;
use super::super::relaxation::relaxed_sentence;
use super::super::{GroupFailure, Scheduler};
use super::batch::Batch;
use crate::metrics::{AttemptResult, ReservationResult};
use crate::queue::PodId;
use crate::status::{FailureReason, Victim};

/// A member with its node.
type PlacedMember = (PodId, String, Option<Box<VolumeDecision>>);

impl Scheduler {
    pub(in crate::scheduler) fn decide_pod_group(&mut self, entry: PodId) {
        let now = Instant::now();
        let Ok(rules) = self.pod_group_rules(entry) else { return self.settle_pod_group(entry) };
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        let (ids, name): (Vec<PodId>, _) = (group.pending.iter().copied().collect(), group.key.to_string());
        if ids.is_empty() || group.batch.is_some() {
            // The results of bindings in flight settle the rest.
            return;
        }
        // Beyond the required members, one is worth an attempt, and a preemption.
        let missing = rules.min.saturating_sub(group.n_placed());
        let min = missing.max(1);
        let value = rules.topology.as_ref().and_then(|topology| self.shared_value(entry, &topology.key));
        let (mut pods, mut nominated): (Vec<PreparedPod>, Vec<_>) = (Vec::new(), Vec::new());
        let before = ids.iter().map(|id| self.require_all_rules(*id)).collect();
        for id in &ids {
            let Some(queued) = self.pods.get_mut(*id) else { continue };
            queued.attempts += 1;
            queued.decided_at = now;
            self.instruments.decided(&queued.pod);
            // Members do not keep room from each other: the attempt places them all.
            let metadata = &queued.pod.metadata;
            let (namespace, name) = (&metadata.namespace, &metadata.name);
            if let Some(node) = self.cluster.nomination(namespace, name).map(str::to_owned) {
                self.cluster.clear_nomination(namespace, name);
                nominated.push((pods.len(), node));
            }
            pods.push(queued.prepared.clone());
        }
        let topology = rules.topology.as_ref().map(|topology| GroupTopology {
            key: &topology.key,
            value: value.as_deref(),
            required: topology.required,
        });
        let group = Group { members: &pods, min, topology };
        let outcome = self.cluster.decide_group(&group);
        self.recorder.record(|| {
            let recorded = self.cluster.recorded_group(&name, &group);
            Entry::GroupDecision(recorded, Box::new(outcome.recorded(&group)))
        });
        let outcome = self.decide_group_relaxed(&name, &ids, &group, outcome, before);
        self.metrics.decided(now.elapsed());
        match outcome {
            GroupOutcome::Placed { members, .. } => {
                let placed = ids.iter().zip(members).filter_map(|(id, outcome)| match outcome {
                    Outcome::Placed { node, volumes, .. } => Some((*id, node, volumes)),
                    _ => None,
                });
                let placed: Vec<PlacedMember> = placed.collect();
                let timeout = rules.timeout_seconds.map(|seconds| Duration::from_secs(seconds.into()));
                self.bind_pod_group(entry, placed, timeout.map(|timeout| now + timeout));
            }
            GroupOutcome::Unplaced(failure) => {
                let members = || ids.iter().filter_map(|id| self.pods.get(*id));
                let pods: Vec<_> = members().map(|queued| queued.decided().clone()).collect();
                let group = Group { members: &pods, ..group };
                let relaxed = relaxed_sentence(members().map(|queued| queued.relaxed.as_ref()));
                let mut message = failure.message(&group);
                let plugins = match failure.outcome {
                    Outcome::Unschedulable { plugins, .. } => plugins,
                    _ => Vec::new(),
                };
                for (at, node) in &nominated {
                    self.cluster.nominate(&pods[*at], node);
                }
                if self.is_pod_group_nomination_settled(entry) {
                    if let Some(reason) = self.preempt_for_pod_group(entry, &ids, &name, &group) {
                        message = format!("{message} preemption: {reason}");
                    }
                } else if let Some(group) = self.pod_groups.get_mut(entry) {
                    // Victims of an earlier leader are awaited, too.
                    group.victims.get_or_insert_default();
                }
                message += &relaxed;
                message += &self.hold_room(entry, &group, &nominated, missing == 0).unwrap_or_default();
                self.fail_pod_group(entry, &ids, &message, plugins);
            }
        }
    }

    /// The value of a node label that members with a node have.
    fn shared_value(&self, entry: PodId, key: &str) -> Option<String> {
        let group = self.pod_groups.groups.get(&entry)?;
        let in_flight =
            group.in_flight.iter().filter_map(|id| Some(self.pods.get(*id)?.pod.metadata.namespaced_name()));
        let mut placed = group.running.values().cloned().chain(in_flight);
        let value = placed.find_map(|pod| {
            let node = self.cluster.node_of(pod.namespace(), pod.name())?;
            self.cluster.node_label(node, key)
        });
        value.map(str::to_owned)
    }

    fn bind_pod_group(&mut self, entry: PodId, placed: Vec<PlacedMember>, deadline: Option<Instant>) {
        let now = Instant::now();
        let members: BTreeSet<PodId> = placed.iter().map(|(id, ..)| *id).collect();
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        group.pending.retain(|id| !members.contains(id));
        group.in_flight.extend(&members);
        group.batch = Some(Batch { members, ready: Vec::new(), deadline });
        group.victims = None;
        group.preemptions = Preemptions::default();
        self.leave_reservations(entry, ReservationResult::Placed);
        if let Some(deadline) = deadline {
            self.pod_groups.due.insert((deadline, entry));
        }
        self.queue.release_group(entry, now);
        for (id, node, volumes) in placed {
            // Victims of an earlier attempt that are not evicted yet do not have to go.
            if let Some(queued) = self.pods.get_mut(id) {
                queued.eviction = None;
            }
            self.bind(id, &node, volumes, now);
        }
    }

    /// Moves a group that is not placed to the unschedulable ones.
    fn fail_pod_group(&mut self, entry: PodId, ids: &[PodId], message: &str, plugins: Vec<Plugin>) {
        let now = Instant::now();
        // Changes made by earlier decisions affect the pods that are unschedulable already, not these.
        self.wake_unschedulable(now);
        let Some(key) = self.group_key(entry) else { return };
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        let is_preempting = group.victims.is_some();
        let text = format!("{}: {message}", group.key);
        let members: Vec<_> = ids.iter().filter_map(|id| self.pods.get(*id)).collect();
        let profile = members.first().map_or("", |queued| queued.pod.spec.scheduler_name.as_str()).into();
        let prepared: Vec<_> = members.iter().map(|queued| queued.decided().clone()).collect();
        let failure = GroupFailure {
            reason: FailureReason::Unschedulable,
            message: text.into(),
            plugins: plugins.into(),
            profile,
            bottleneck: None,
            wake: self.cluster.wake_conditions_of_group(&prepared),
            epoch: self.cluster.signature_epoch(),
            look_again: None,
            is_due: false,
        };
        self.metrics.pod_group_attempted(AttemptResult::Unschedulable);
        self.queue.add_unschedulable(entry, key, failure.clone(), now);
        if !is_preempting {
            // A search among many nodes is not repeated at every change.
            self.queue.keep_backoff(entry);
        }
        for id in ids {
            let Some(queued) = self.pods.get(*id) else { continue };
            let took = now.saturating_duration_since(queued.decided_at);
            self.metrics.attempted(AttemptResult::Unschedulable, &queued.pod.spec.scheduler_name, took);
            self.metrics.queued("unschedulable", "ScheduleAttemptFailure");
            self.reporter.current.n_unschedulable += 1;
            self.report_group_failure(*id, &failure);
        }
        self.show_unscheduled(entry, FailureReason::Unschedulable, message);
    }

    /// Returns why it is not tried, if so.
    fn preempt_for_pod_group(
        &mut self,
        entry: PodId,
        ids: &[PodId],
        name: &str,
        group: &Group<'_>,
    ) -> Option<String> {
        let began = Instant::now();
        self.metrics.preemption_attempts.inc();
        for id in ids {
            if let Some(queued) = self.pods.get(*id) {
                let metadata = &queued.pod.metadata;
                self.cluster.clear_nomination(&metadata.namespace, &metadata.name);
            }
        }
        let preemptions = self.pod_groups.get_mut(entry)?.preemptions;
        let too_many = preemptions.too_many(began, self.options.flush_after);
        let found = match too_many {
            None => {
                let found = self.cluster.preempt_group(group, self.budgets.list());
                self.recorder.record(|| {
                    let recorded = self.cluster.recorded_group(name, group);
                    Entry::GroupPreemption(recorded, Box::new(GroupVictims::recorded(found.as_ref())))
                });
                found
            }
            Some(_) => None,
        };
        let status = if found.is_some() { "Success" } else { "Unschedulable" };
        let profile = ids
            .first()
            .and_then(|id| self.pods.get(*id))
            .map(|queued| queued.pod.spec.scheduler_name.clone());
        let profile = profile.unwrap_or_default();
        self.metrics.ran("DefaultPreemption", "PostFilter", status, &profile, began.elapsed());
        let victims = found.map(|found| self.evict_for_pod_group(ids, found));
        if let Some(group) = self.pod_groups.get_mut(entry) {
            if victims.is_some() {
                group.preemptions.add(began);
            }
            group.victims = victims;
        }
        too_many
    }

    /// Nominates the members, and evicts the victims.
    fn evict_for_pod_group(&mut self, ids: &[PodId], found: GroupVictims) -> Vec<Victim> {
        self.metrics.preemption_victims.observe(found.victims.len() as f64);
        self.clear_nominations(&found.nominations);
        let mut preemptors: BTreeMap<&str, PodId> = BTreeMap::new();
        for (id, node) in ids.iter().zip(&found.nodes) {
            if let (Some(node), Some(queued)) = (node, self.pods.get(*id)) {
                self.cluster.nominate(queued.decided(), node);
                preemptors.entry(node).or_insert(*id);
            }
        }
        let mut by_node: BTreeMap<String, Vec<Victim>> = BTreeMap::new();
        for name in found.victims {
            let node = self.cluster.node_of(name.namespace(), name.name()).map(str::to_owned);
            if let (Some(node), Some(uid)) = (node, self.mirror.uid(name.namespace(), name.name())) {
                by_node.entry(node).or_default().push(Victim { name, uid });
            }
        }
        let all = by_node.values().flatten().cloned().collect();
        for (node, victims) in by_node {
            let Some(id) = preemptors.get(&*node).or(ids.first()).copied() else { continue };
            let Some(pod) = self.pods.get(id).map(|queued| queued.pod.clone()) else { continue };
            tracing::info!(pod = pod.key(), node, victims = victims.len(), "preempting for a pod group");
            self.evict_victims(Eviction { id, pod, node: node.into(), victims });
        }
        all
    }

    /// Whether no victims of a group are awaited. With a nomination to a deleted node, they are not.
    pub(in crate::scheduler) fn is_pod_group_nomination_settled(&self, entry: PodId) -> bool {
        let Some(group) = self.pod_groups.groups.get(&entry) else { return false };
        let is_waiting = |id: &PodId| {
            let Some(queued) = self.pods.get(*id) else { return false };
            self.cluster.awaits_victims(&queued.prepared)
        };
        let exists = |v: &Victim| self.mirror.uid(v.name.namespace(), v.name.name()).as_ref() == Some(&v.uid);
        let is_evicting = group.victims.iter().flatten().any(exists) || group.pending.iter().any(is_waiting);
        !is_evicting || self.has_lost_nomination(entry)
    }

    /// Whether a member is nominated to a deleted node.
    pub(super) fn has_lost_nomination(&self, entry: PodId) -> bool {
        let is_lost = |id: &PodId| {
            let Some(queued) = self.pods.get(*id) else { return false };
            let metadata = &queued.pod.metadata;
            let node = self.cluster.nomination(&metadata.namespace, &metadata.name);
            node.is_some_and(|node| !self.cluster.has_node(node))
        };
        self.pod_groups.groups.get(&entry).is_some_and(|group| group.pending.iter().any(is_lost))
    }

    /// The victims of a group could not be evicted: it is decided again.
    pub(in crate::scheduler) fn give_up_preemption(&mut self, entry: PodId) {
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        group.victims = None;
        self.clear_member_nominations(entry);
    }
}
