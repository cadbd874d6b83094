//! Preemption for a group: pods of lower priority are preempted for all of its members, or for none.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_engine::{Group, GroupVictims};
use berth_input::journal::Entry;
use berth_mirror::Source;
use tokio::time::Instant;

use super::attempt::GroupAttempt;
use super::groups::PodGroups;
use crate::completion::Eviction;
use crate::context::Context;
use crate::pending::PendingPods;
use crate::pod_status::Victim;
use crate::queue::PodId;

impl PodGroups {
    pub(crate) fn is_preempting(&self, entry: PodId) -> bool {
        self.groups.get(&entry).is_some_and(|group| group.victims.is_some())
    }

    /// Whether pods that are evicted for a group still exist. With a nomination to a deleted node, none are awaited.
    pub(crate) fn awaits_victims(&self, context: &Context, entry: PodId) -> bool {
        let Context { state, pending: PendingPods { pods, .. } } = context;
        let Some(group) = self.groups.get(&entry) else { return true };
        let is_waiting =
            |id: &PodId| pods.get(*id).is_some_and(|queued| state.cluster.awaits_victims(&queued.prepared));
        let mut victims = group.victims.iter().flatten();
        let is_evicting = victims.any(|victim| state.exists(victim)) || group.pending.iter().any(is_waiting);
        is_evicting && !self.has_lost_nomination(context, entry)
    }

    /// Preempts for a group. Returns the number of victims, or why it is not tried.
    pub(crate) fn preempt(
        &mut self,
        context: &mut Context,
        entry: PodId,
        attempt: &GroupAttempt,
        group: &Group<'_>,
        period: Duration,
    ) -> Result<usize, String> {
        if let Some(why) = context.state.mirror.unreadable(Source::Budgets) {
            return Err(format!("not tried: {why}"));
        }
        let began = Instant::now();
        self.metrics.preemption_attempts.inc();
        let ids = &attempt.ids;
        for queued in ids.iter().filter_map(|id| context.pending.pods.get(*id)) {
            context.state.clear_nomination(&queued.pod);
        }
        let Some(of_group) = self.groups.get(&entry) else { return Ok(0) };
        let too_many = of_group.preemptions.too_many(began, period);
        let found = match too_many {
            None => {
                let found = context.state.cluster.preempt_group(group, context.state.budgets.list());
                context.state.recorder.record(|| {
                    let recorded = context.state.cluster.recorded_group(&attempt.name, group);
                    Entry::GroupPreemption(recorded, Box::new(GroupVictims::recorded(found.as_ref())))
                });
                found
            }
            Some(_) => None,
        };
        let status = if found.is_some() { "Success" } else { "Unschedulable" };
        let first = ids.first().and_then(|id| context.pending.pods.get(*id));
        let profile = first.map(|queued| queued.pod.spec.scheduler_name.as_str()).unwrap_or_default();
        self.metrics.ran("DefaultPreemption", "PostFilter", status, profile, began.elapsed());
        let victims = found.map(|found| self.evict(context, entry, ids, found, began));
        let n_victims = victims.as_ref().map_or(0, Vec::len);
        if let Some(group) = self.groups.get_mut(&entry) {
            group.victims = victims;
        }
        too_many.map_or(Ok(n_victims), Err)
    }

    /// Nominates the members, and evicts the victims.
    fn evict(
        &self,
        context: &mut Context,
        entry: PodId,
        ids: &[PodId],
        found: GroupVictims,
        chosen_at: Instant,
    ) -> Vec<Victim> {
        self.metrics.preemption_victims.observe(found.victims.len() as f64);
        context.pending.clear_nominations(&mut context.state, &found.nominations);
        let group = self.groups.get(&entry).and_then(|group| self.objects.reference(&group.key));
        let mut preemptors: BTreeMap<&str, PodId> = BTreeMap::new();
        for (id, node) in ids.iter().zip(&found.nodes) {
            if let (Some(node), Some(queued)) = (node, context.pending.pods.get(*id)) {
                context.state.cluster.nominate_for_victims(queued.decided(), node, &found.victims);
                preemptors.entry(node).or_insert(*id);
            }
        }
        // Victims on other nodes left with their group: a pod has one eviction.
        let Some((first_node, first)) = preemptors.first_key_value() else { return Vec::new() };
        let mut by_preemptor: BTreeMap<PodId, (&str, Vec<Victim>)> = BTreeMap::new();
        for name in found.victims {
            let node = context.state.cluster.node_of(name.namespace(), name.name());
            let nominated = node.and_then(|node| preemptors.get_key_value(node));
            let (node, id) = nominated.unwrap_or((first_node, first));
            if let Some(victim) = context.state.victim(name) {
                by_preemptor.entry(*id).or_insert((node, Vec::new())).1.push(victim);
            }
        }
        let all = by_preemptor.values().flat_map(|(_, victims)| victims).cloned().collect();
        for (id, (node, victims)) in by_preemptor {
            let Some(pod) = context.pending.pods.get(id).map(|queued| queued.pod.clone()) else { continue };
            tracing::info!(pod = pod.key(), node, victims = victims.len(), "preempting for a pod group");
            let eviction =
                Eviction { id: Some(id), pod, group: group.clone(), node: node.into(), victims, chosen_at };
            context.pending.statuses.evict(&mut context.pending.pods, eviction);
        }
        all
    }

    /// Victims of an earlier leader are also awaited. Returns the number of those that are known.
    pub(crate) fn await_victims(&mut self, entry: PodId) -> usize {
        self.groups.get_mut(&entry).map_or(0, |group| group.victims.get_or_insert_default().len())
    }

    /// Victims that were chosen at this time for a group have been evicted.
    pub(crate) fn preempted(&mut self, entry: PodId, chosen_at: Instant) {
        if let Some(group) = self.groups.get_mut(&entry) {
            group.preemptions.add(chosen_at);
        }
    }

    /// The victims of a group could not be evicted: it is decided again.
    pub(crate) fn give_up_preemption(&mut self, context: &mut Context, entry: PodId) {
        let Some(group) = self.groups.get_mut(&entry) else { return };
        group.victims = None;
        self.clear_nominations(context, entry);
    }
}
