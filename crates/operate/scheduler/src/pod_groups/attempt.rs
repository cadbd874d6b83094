//! Attempts of a group, and their bindings until all of them can be sent.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::object::group::{AgreeingPod, GroupKind, GroupPart, PartRules, TopologyLevel, rank};
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
        let mut several = None;
        let value = |level: TopologyLevel| {
            let mut values = values(context, group, &level.key);
            if group.key.kind == GroupKind::Scheduling && several.is_none() {
                several = level.several_domains(&values);
            }
            (level, values.pop_first())
        };
        let levels = rules.levels.into_iter().map(value).collect();
        let rank = |id: &PodId| context.pending.pods.get(*id).map(|queued| rank(&queued.pod));
        let mut ids: Vec<_> = group.pending.iter().copied().collect();
        ids.sort_by_key(rank);
        let composite = rules.composite.as_ref().map(|root| part(context, group, root, &ids));
        let (composite, of_parts) = composite.unzip();
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
            disagreement: disagreement.or(several).or(of_parts.flatten()),
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

/// What is left to decide of a group of groups, and why its pods share no domain that they have to share.
fn part(context: &Context, group: &Members, root: &PartRules, ids: &[PodId]) -> (GroupPart, Option<String>) {
    let of_pod =
        |id: &PodId| context.pending.pods.get(*id).and_then(|queued| PodGroupKey::of(&queued.pod, true));
    let pending: Vec<_> = ids.iter().map(of_pod).collect();
    let cluster = &context.state.cluster;
    let node_of = |name: &NamespacedName| cluster.node_of(name.namespace(), name.name()).map(str::to_owned);
    let running = group.running.values().map(|member| (member.group.clone(), node_of(&member.name)));
    let in_flight = group.in_flight.iter().filter_map(|id| {
        let name = context.pending.pods.get(*id)?.pod.metadata.namespaced_name();
        Some((of_pod(id), node_of(&name)))
    });
    let placed = running.chain(in_flight).filter_map(|(group, node)| Some((group, node?)));
    let placed: Vec<_> = placed.collect();
    let domain_of = |node: &str, key: &str| cluster.node_domain(node, key).map(Cow::into_owned);
    (root.part(&pending, &placed, &domain_of), root.several_domains(&placed, &domain_of))
}

/// The values of a node label that members with a node have.
fn values(context: &Context, group: &Members, key: &str) -> BTreeSet<String> {
    let in_flight = group
        .in_flight
        .iter()
        .filter_map(|id| Some(context.pending.pods.get(*id)?.pod.metadata.namespaced_name()));
    let placed = group.running.values().map(|member| member.name.clone()).chain(in_flight);
    let value = |pod: NamespacedName| {
        let node = context.state.cluster.node_of(pod.namespace(), pod.name())?;
        context.state.cluster.node_domain(node, key).map(Cow::into_owned)
    };
    placed.filter_map(value).collect()
}
