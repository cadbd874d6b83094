//! Attempts of a group, and their bindings until all of them can be sent.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::object::group::{AgreeingPod, GroupPart, RemainingGroup, TopologyLevel, rank};
use berth_api::object::{GroupKey as PodGroupKey, NamespacedName};
use tokio::time::Instant;

use super::groups::PodGroups;
use super::members::{Batch, Members, RunningMember};
use crate::completion::Binding;
use crate::context::Context;
use crate::metrics::{AttemptResult, ReservationResult};
use crate::pending::{PendingPods, Preemptions};
use crate::queue::PodId;

/// What a scheduling attempt of a group decides.
pub(crate) struct GroupAttempt {
    /// The members to be decided, by rank.
    pub(crate) ids: Vec<PodId>,
    pub(crate) name: String,
    /// The number of required members.
    min: usize,
    /// Of these, those without a node.
    pub(crate) n_missing: usize,
    /// The topologies, and the domain of members with a node.
    pub(crate) levels: Vec<(TopologyLevel, Option<String>)>,
    /// What is left to decide of each part of a group of groups.
    pub(crate) composite: Option<GroupPart>,
    /// Why no pod is preempted for it.
    pub(crate) without_preemption: Option<&'static str>,
    /// In which way members differ that have to agree, or to share a domain.
    pub(crate) disagreement: Option<String>,
    /// When the bindings of the attempt are taken back, if not all could be sent.
    pub(crate) deadline: Option<Instant>,
}

impl GroupAttempt {
    /// What kube-scheduler says of a gang if so many members fit; nothing of other groups.
    pub(crate) fn min_count_sentence(&self, n_fit: usize) -> String {
        let n_scheduled = self.min - self.n_missing + n_fit;
        match self.min {
            0 => String::new(),
            min => format!("minCount ({min}) cannot be satisfied: {n_scheduled} scheduled, 0 remaining, "),
        }
    }
}

impl PodGroups {
    /// What the next attempt of a group decides; none if there is nothing to decide.
    pub(crate) fn attempt(
        &mut self,
        context: &mut Context,
        entry: PodId,
        now: Instant,
    ) -> Option<GroupAttempt> {
        let Ok(rules) = self.rules(&context.pending.pods, entry) else {
            self.settle(context, entry);
            return None;
        };
        // The results of bindings in flight settle the rest.
        let group =
            self.groups.get(&entry).filter(|group| !group.pending.is_empty() && group.batch.is_none())?;
        let rank = |id: &PodId| context.pending.pods.get(*id).map(|queued| rank(&queued.pod));
        let mut ids: Vec<_> = group.pending.iter().copied().collect();
        ids.sort_by_key(rank);
        let pending: Vec<_> = ids.iter().map(|id| own_group(context, *id)).collect();
        let placed = placed(context, group);
        let RemainingGroup { levels, composite, problem, .. } =
            context.state.cluster.remaining_group(&group.key, Some(&rules), &pending, &placed);
        let members =
            ids.iter().filter_map(|id| Some(AgreeingPod::from(&*context.pending.pods.get(*id)?.pod)));
        let members = members.chain(group.running.values().map(RunningMember::agreeing));
        let disagreement = rules.agreement.as_ref().and_then(|agreement| agreement.problem(members));
        Some(GroupAttempt {
            ids,
            composite,
            name: group.key.to_string(),
            min: rules.min,
            n_missing: rules.min.saturating_sub(group.n_placed()),
            without_preemption: rules.without_preemption,
            disagreement: disagreement.or(problem),
            levels,
            deadline: rules.timeout_seconds.map(|seconds| now + Duration::from_secs(seconds.into())),
        })
    }

    /// The members of an attempt have nodes: their bindings are held back until all can be sent.
    pub(crate) fn begin_batch(
        &mut self,
        pending: &mut PendingPods,
        entry: PodId,
        members: BTreeSet<PodId>,
        deadline: Option<Instant>,
        now: Instant,
    ) {
        let Some(group) = self.groups.get_mut(&entry) else { return };
        group.pending.retain(|id| !members.contains(id));
        group.in_flight.extend(&members);
        group.batch = Some(Batch { members, ready: Vec::new(), deadline });
        group.victims = None;
        group.preemptions = Preemptions::default();
        self.leave_reservations(entry, ReservationResult::Placed);
        if let Some(deadline) = deadline {
            self.due.insert((deadline, entry));
        }
        pending.queue.release_group(entry, now);
    }

    /// The binding of a member can be sent. Returns the bindings that are to be sent now: with the last one of a batch, all
    /// of it.
    pub(crate) fn permit(&mut self, context: &mut Context, entry: PodId, binding: Binding) -> Vec<Binding> {
        let slot = self.groups.get_mut(&entry).map(|group| &mut group.batch);
        let Some(slot) = slot else { return vec![binding] };
        let Some(batch) = slot.as_mut().filter(|batch| batch.members.contains(&binding.id)) else {
            return vec![binding];
        };
        batch.ready.push(binding);
        let Some(batch) = slot.take_if(|batch| batch.ready.len() == batch.members.len()) else {
            return Vec::new();
        };
        self.metrics.pod_group_attempted(AttemptResult::Scheduled);
        self.settle(context, entry);
        batch.ready
    }

    /// Whether the binding of a member is held back.
    pub(crate) fn is_held(&self, entry: PodId, id: PodId) -> bool {
        let batch = self.groups.get(&entry).and_then(|group| group.batch.as_ref());
        batch.is_some_and(|batch| batch.members.contains(&id))
    }

    /// A member in flight is not bound: it is pending again. Returns whether the bindings that were decided with it are to
    /// be taken back.
    pub(crate) fn return_member(
        &mut self,
        context: &mut Context,
        entry: PodId,
        id: PodId,
        is_error: bool,
    ) -> bool {
        let Some(group) = self.groups.get_mut(&entry) else { return false };
        group.return_to_pending(id);
        if group.leave_batch(id) {
            return true;
        }
        if is_error {
            context.pending.queue.back_off(entry, Instant::now());
        }
        self.settle(context, entry);
        false
    }

    /// Takes back all members of a batch. Returns the name of the group, and the members.
    pub(crate) fn take_back(&mut self, entry: PodId) -> Option<(String, BTreeSet<PodId>)> {
        let group = self.groups.get_mut(&entry)?;
        let batch = group.batch.take()?;
        for id in &batch.members {
            group.return_to_pending(*id);
        }
        group.summary = None;
        Some((group.key.to_string(), batch.members))
    }
}

/// The group that a pod of the queue names itself.
fn own_group(context: &Context, id: PodId) -> Option<PodGroupKey> {
    PodGroupKey::of(&context.pending.pods.get(id)?.pod, true)
}

/// The nodes of the members that have one, or are assumed on one, each with the group that it names itself; empty if the node does not
/// exist.
fn placed(context: &Context, group: &Members) -> Vec<(Option<PodGroupKey>, String)> {
    let running = group.running.values().map(|member| (member.group.clone(), member.name.clone()));
    let in_flight = group.in_flight.iter().filter_map(|id| {
        let name = context.pending.pods.get(*id)?.pod.metadata.namespaced_name();
        Some((own_group(context, *id), name))
    });
    let cluster = &context.state.cluster;
    let node_of = |name: NamespacedName| cluster.node_of(name.namespace(), name.name()).unwrap_or_default();
    running.chain(in_flight).map(|(group, name)| (group, node_of(name).to_owned())).collect()
}
