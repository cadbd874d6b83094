//! The groups, and what changes of their members do to their entries in the queue.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::group::{CompositePodGroup, GroupIndex, GroupKind, GroupOwner};
use berth_api::object::{GroupKey as PodGroupKey, GroupRules, NamespacedName, Pod, PodGroup};
use berth_client::call::CallError;
use berth_client::events::ObjectReference;
use berth_mirror::Source;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::members::{Members, RunningMember};
use super::objects::GroupObjects;
use super::reservations::Reservations;
use crate::context::Context;
use crate::metrics::{Metrics, ReservationResult};
use crate::options::SchedulerOptions;
use crate::pending::{QueuedPods, StatusWriter};
use crate::pod_status::FailureReason;
use crate::queue::PodId;
use crate::state::State;

/// How long members wait for others before that is reported: most groups are created within moments.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// The pod groups of the pending pods and of the pods with a node.
pub(crate) struct PodGroups {
    pub(super) groups: FxHashMap<PodId, Members>,
    pub(super) reservations: Reservations,
    pub(super) metrics: Arc<Metrics>,
    pub(super) objects: GroupObjects,
    index: GroupIndex,
    entries: HashMap<PodGroupKey, PodId>,
    /// The groups of pods with a node, by uid.
    running: HashMap<String, PodId>,
    /// When to look at a group again: a batch expires, or members have waited for others.
    pub(super) due: BTreeSet<(Instant, PodId)>,
}

impl PodGroups {
    pub(crate) fn new(options: &SchedulerOptions, metrics: Arc<Metrics>) -> PodGroups {
        PodGroups {
            groups: FxHashMap::default(),
            reservations: Reservations::new(options.group_reserve_after, options.group_reservation),
            metrics,
            objects: GroupObjects::default(),
            index: GroupIndex::default(),
            entries: HashMap::new(),
            running: HashMap::new(),
            due: BTreeSet::new(),
        }
    }

    pub(crate) fn is_entry(&self, id: PodId) -> bool {
        self.groups.contains_key(&id)
    }

    pub(crate) fn name(&self, entry: PodId) -> Option<String> {
        self.groups.get(&entry).map(|group| group.key.to_string())
    }

    /// The PodGroup of `scheduling.k8s.io` that a pod names, also of one that is decided by itself: for events about its victims.
    pub(crate) fn object_of(&self, pod: &Pod) -> Option<ObjectReference> {
        let key = PodGroupKey::of(pod, false)?;
        self.objects.reference(&key)
    }

    /// The first member to be decided of the group with this entry.
    pub(crate) fn first_pending(&self, entry: PodId) -> Option<PodId> {
        self.groups.get(&entry)?.pending.first().copied()
    }

    /// The members of a group that have no node.
    pub(crate) fn pending_members(&self, group: &PodGroupKey) -> impl Iterator<Item = PodId> + '_ {
        let group = self.entries.get(group).and_then(|entry| self.groups.get(entry));
        group.into_iter().flat_map(|group| group.pending.iter().chain(&group.blocked).copied())
    }

    /// Victims that another leader may have left are chosen again.
    pub(crate) fn forget_victims(&mut self) {
        self.groups.values_mut().for_each(|group| group.victims = None);
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        let due = self.due.first().map(|(at, _)| *at);
        due.into_iter().chain(self.reservations.next_due()).min()
    }

    /// The group that a pod is scheduled with.
    fn group_of(&self, state: &State, pod: &Pod) -> Option<PodGroupKey> {
        self.index.group_of(pod, state.cluster.settings().extensions)
    }

    fn entry(&mut self, key: &PodGroupKey, pods: &mut QueuedPods) -> PodId {
        if let Some(entry) = self.entries.get(key) {
            return *entry;
        }
        let entry = pods.new_id();
        self.groups.insert(entry, Members::new(key.clone()));
        self.entries.insert(key.clone(), entry);
        entry
    }

    fn add_running(&mut self, entry: PodId, pod: &Pod) {
        if let Some(group) = self.groups.get_mut(&entry) {
            group.running.insert(pod.metadata.uid.clone(), RunningMember::from(pod));
            self.running.insert(pod.metadata.uid.clone(), entry);
        }
    }

    /// Adds a pending pod that is not in the queue to its group. Returns false if it has none.
    pub(crate) fn join(&mut self, context: &mut Context, id: PodId) -> bool {
        let Some(key) =
            context.pending.pods.get(id).and_then(|queued| self.group_of(&context.state, &queued.pod))
        else {
            return false;
        };
        if key.kind == GroupKind::Owner(GroupOwner::Job) {
            context.state.mirror.watch_also(Source::Jobs);
        }
        let entry = self.entry(&key, &mut context.pending.pods);
        if let Some(queued) = context.pending.pods.get_mut(id) {
            queued.group = Some(entry);
        }
        if let Some(group) = self.groups.get_mut(&entry)
            && !std::mem::replace(&mut group.is_queued, true)
        {
            context.pending.queue.add(entry, 0, true);
        }
        self.classify(context, entry, id);
        self.settle(context, entry);
        true
    }

    fn classify(&mut self, context: &mut Context, entry: PodId, id: PodId) {
        let Some(queued) = context.pending.pods.get(id) else { return };
        let (pod, priority) = (queued.pod.clone(), queued.prepared.priority());
        let is_blocked =
            context.state.is_gated(&pod) || context.pending.park_if_undecidable(&context.state, id);
        let Some(group) = self.groups.get_mut(&entry) else { return };
        if is_blocked {
            group.add_blocked(id);
        } else {
            group.add_pending(id, &pod, priority);
        }
    }

    /// A changed pod without a binding may belong to another group, or to none. Returns false if it neither was nor is a
    /// member.
    pub(crate) fn regroup(&mut self, context: &mut Context, id: PodId) -> bool {
        let Some(queued) = context.pending.pods.get_mut(id) else { return false };
        let wanted = self.group_of(&context.state, &queued.pod);
        match (queued.group, &wanted) {
            (None, None) => return false,
            (Some(entry), Some(key)) if self.entries.get(key) == Some(&entry) => {
                self.classify(context, entry, id);
                self.settle(context, entry);
                return true;
            }
            (Some(entry), _) => {
                queued.group = None;
                let pod = queued.pod.clone();
                self.leave(context, entry, id, &pod);
            }
            (None, Some(_)) => context.pending.queue.remove(id, Instant::now()),
        }
        if !self.join(context, id)
            && let Some(queued) = context.pending.pods.get(id)
        {
            let is_gated = context.state.is_gated(&queued.pod);
            context.pending.queue.add(id, queued.prepared.priority(), is_gated);
        }
        true
    }

    /// A member is not pending any more, or belongs to another group. Returns whether the bindings that were decided with
    /// it are to be taken back.
    pub(crate) fn leave(&mut self, context: &mut Context, entry: PodId, id: PodId, pod: &Pod) -> bool {
        let is_placed = context.state.mirror.is_placed(pod);
        let Some(group) = self.groups.get_mut(&entry) else { return false };
        group.remove(id);
        group.summary = None;
        let was_in_batch = group.leave_batch(id);
        if is_placed {
            self.add_running(entry, pod);
        }
        self.settle(context, entry);
        was_in_batch
    }

    /// A pod with a node that is not in the queue.
    pub(crate) fn placed_pod_applied(&mut self, context: &mut Context, pod: &Pod) {
        let key = PodGroupKey::of(pod, context.state.cluster.settings().extensions);
        let before = self.running.get(&pod.metadata.uid).copied();
        if key.is_none() && before.is_none() {
            return;
        }
        let entry = key.map(|key| self.entry(&self.index.root(key), &mut context.pending.pods));
        if entry != before {
            self.placed_pod_deleted(context, &pod.metadata.uid);
            if let Some(entry) = entry {
                self.add_running(entry, pod);
                self.settle(context, entry);
            }
        }
    }

    /// A pod with a node was deleted, or has ended.
    pub(crate) fn placed_pod_deleted(&mut self, context: &mut Context, uid: &str) {
        let Some(entry) = self.running.remove(uid) else { return };
        if let Some(group) = self.groups.get_mut(&entry) {
            group.running.remove(uid);
        }
        self.settle(context, entry);
    }

    pub(crate) fn object_applied(&mut self, context: &mut Context, key: &PodGroupKey, object: &PodGroup) {
        let gates = context.state.cluster.settings().config.feature_gates;
        self.objects.set(key.clone(), object);
        let rules = Some(object.rules(gates));
        let before = self.index.set(key, rules.clone());
        if rules != before {
            self.object_changed(context, key, [before, rules].contains(&Some(None)));
        }
        if gates.composite_pod_group && self.has_hierarchies() {
            context.state.mirror.watch_also(Source::CompositePodGroups);
            self.hierarchies_changed(context);
        }
    }

    pub(crate) fn composite_changed(
        &mut self,
        context: &mut Context,
        name: NamespacedName,
        object: Option<CompositePodGroup>,
    ) {
        self.objects.set_composite(name, object);
        self.hierarchies_changed(context);
    }

    /// Whether PodGroups belong to CompositePodGroups, or did.
    fn has_hierarchies(&self) -> bool {
        !self.objects.parts.is_empty() || self.index.has_hierarchies()
    }

    /// Pods of PodGroups that belong to other CompositePodGroups now are members of other groups.
    fn hierarchies_changed(&mut self, context: &mut Context) {
        let gates = context.state.cluster.settings().config.feature_gates;
        let GroupObjects { parts, composites, .. } = &self.objects;
        let [parts, roots] = self.index.set_hierarchies(parts.values(), composites.values(), gates);
        for part in parts {
            let root = self.entry(&self.index.root(part.clone()), &mut context.pending.pods);
            for entry in self.groups.keys().copied().filter(|entry| *entry != root).collect::<Vec<_>>() {
                let Some(group) = self.groups.get_mut(&entry) else { continue };
                let moved: Vec<_> =
                    group.running.extract_if(|_, member| member.group.as_ref() == Some(&part)).collect();
                if moved.is_empty() {
                    continue;
                }
                self.running.extend(moved.iter().map(|(uid, _)| (uid.clone(), root)));
                if let Some(group) = self.groups.get_mut(&root) {
                    group.running.extend(moved);
                }
                self.settle(context, entry);
            }
            self.object_changed(context, &part, true);
            self.settle(context, root);
        }
        for root in roots {
            self.object_changed(context, &root, false);
        }
    }

    pub(crate) fn object_deleted(&mut self, context: &mut Context, key: &PodGroupKey) {
        self.objects.remove(key);
        let before = self.index.set(key, None);
        self.object_changed(context, key, before == Some(None));
        if self.has_hierarchies() {
            self.hierarchies_changed(context);
        }
    }

    /// An owner of pods has another number of them at one time; none: it was deleted.
    pub(crate) fn owner_changed(
        &mut self,
        context: &mut Context,
        key: PodGroupKey,
        n_members: Option<usize>,
    ) {
        match n_members {
            Some(n) => _ = self.index.owners.insert(key.clone(), n),
            None => _ = self.index.owners.remove(&key),
        }
        if let Some(entry) = self.entries.get(&key) {
            self.settle(context, *entry);
        }
    }

    /// With `is_regrouped`, pods of this group are placed one by one, or were.
    fn object_changed(&mut self, context: &mut Context, key: &PodGroupKey, is_regrouped: bool) {
        if is_regrouped {
            let extensions = context.state.cluster.settings().extensions;
            let named = |id: &PodId| {
                let queued = context.pending.pods.get(*id).filter(|queued| queued.binding.is_none());
                queued.and_then(|queued| PodGroupKey::of(&queued.pod, extensions)).as_ref() == Some(key)
            };
            let pods: Vec<_> = context.pending.pods.ids().filter(named).collect();
            for id in pods {
                self.regroup(context, id);
            }
        }
        if let Some(entry) = self.entries.get(key) {
            self.settle(context, *entry);
        }
    }

    /// What a group requires.
    ///
    /// # Errors
    /// Why its members are not decided.
    pub(super) fn rules(&mut self, pods: &QueuedPods, entry: PodId) -> Result<GroupRules, String> {
        let Some(group) = self.groups.get_mut(&entry) else { return Err(String::new()) };
        let (rules, _) = group.summary.get_or_insert_with(|| {
            let members = group.pending.iter().filter_map(|id| pods.get(*id));
            let priority = members.clone().map(|queued| queued.prepared.priority()).max();
            (GroupRules::of_members(&group.key, members.map(|queued| &*queued.pod)), priority.unwrap_or(0))
        });
        let Some(rules) = self.index.rules_of(&group.key, rules.clone(), None) else {
            let why = match group.key.kind {
                GroupKind::Owner(_) => "its owner does not exist, or is not known yet",
                _ => "its PodGroup does not exist: create it",
            };
            return Err(why.to_owned());
        };
        let n = group.pending.len() + group.n_placed();
        rules.check(n).map(|()| rules)
    }

    /// Moves the entry of a group to where it belongs after a change of the group.
    pub(crate) fn settle(&mut self, context: &mut Context, entry: PodId) {
        let now = Instant::now();
        let rules = self.rules(&context.pending.pods, entry);
        let Some(group) = self.groups.get(&entry) else { return };
        if let Ok(rules) = &rules {
            for (key, _) in shown(group, rules, &[]).into_iter().filter(|(_, is_scheduled)| *is_scheduled) {
                self.objects.show(&key, true, "Scheduled", "");
            }
        }
        if group.batch.is_some() {
            return;
        }
        if group.pending.is_empty() || rules.is_err() {
            self.free_room(context, entry, ReservationResult::Ended);
        }
        let Some(group) = self.groups.get_mut(&entry) else { return };
        if group.is_empty() {
            group.victims = None;
            if std::mem::replace(&mut group.is_queued, false) {
                context.pending.queue.remove(entry, now);
            }
            if group.running.is_empty()
                && let Some(group) = self.groups.remove(&entry)
            {
                self.entries.remove(&group.key);
            }
            return;
        }
        if group.pending.is_empty() {
            // While bindings are in flight, so is the entry.
            if group.in_flight.is_empty() {
                context.pending.queue.gate(entry, now);
            }
            return;
        }
        let priority = group.summary.as_ref().map_or(0, |(_, priority)| *priority);
        context.pending.queue.set_priority(entry, priority);
        let is_new_wait = rules.is_err() && !std::mem::replace(&mut group.is_report_due, true);
        if rules.is_ok() {
            group.is_report_due = false;
            context.pending.activate_for("PodGroupUpdate", entry, now);
        } else {
            context.pending.queue.gate(entry, now);
            if is_new_wait {
                self.due.insert((now + REPORT_AFTER, entry));
            }
        }
    }

    /// Ends reservations whose time is over, and reports members that wait for others. Returns the groups whose bindings
    /// could not be sent in time.
    pub(crate) fn expire(&mut self, context: &mut Context, now: Instant) -> Vec<PodId> {
        self.take_turns(context, now);
        let mut expired = Vec::new();
        while let Some((_, entry)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.pop_first();
            let Some(group) = self.groups.get_mut(&entry) else { continue };
            if let Some(batch) = &group.batch {
                if batch.deadline.is_some_and(|deadline| deadline <= now) {
                    expired.push(entry);
                }
                continue;
            }
            group.is_report_due = false;
            let Err(why) = self.rules(&context.pending.pods, entry) else { continue };
            let Some(group) = self.groups.get(&entry) else { continue };
            let message = format!("{}: {why}", group.key);
            for id in &group.pending {
                context
                    .pending
                    .write_status(*id, |status| status.fail(FailureReason::Unschedulable, &message));
            }
            self.show_unscheduled(&context.pending.pods, entry, FailureReason::Unschedulable, &why);
        }
        expired
    }

    /// The required members of a group have no nodes.
    pub(crate) fn show_unscheduled(
        &mut self,
        pods: &QueuedPods,
        entry: PodId,
        reason: FailureReason,
        why: &str,
    ) {
        let rules = self.rules(pods, entry);
        let Some(group) = self.groups.get(&entry) else { return };
        // Of a group of groups whose required ones are placed, others may not be.
        let is_placed = |rules: &GroupRules| rules.composite.is_none() && group.n_placed() >= rules.min;
        if rules.as_ref().is_ok_and(is_placed) {
            return;
        }
        let rules = rules.unwrap_or_else(|_| {
            let rules = self.index.rules(&group.key).flatten().cloned();
            rules.unwrap_or_else(|| GroupRules { min: usize::MAX, ..GroupRules::default() })
        });
        let reason = match group.key.kind {
            GroupKind::Coscheduling if group.n_placed() > 0 => "Scheduling",
            GroupKind::Coscheduling => "Pending",
            _ => reason.as_str(),
        };
        let in_flight = group.in_flight.iter().filter_map(|id| PodGroupKey::of(&pods.get(*id)?.pod, true));
        let in_flight: Vec<_> = in_flight.collect();
        for (key, _) in shown(group, &rules, &in_flight).into_iter().filter(|(_, is_scheduled)| !is_scheduled)
        {
            self.objects.show(&key, false, reason, why);
        }
    }

    /// Starts as many status writes as may be in flight.
    pub(crate) fn write_statuses(&mut self, writer: &mut StatusWriter) {
        self.objects.write_some(writer);
    }

    pub(crate) fn status_written(&mut self, key: PodGroupKey, result: Result<(), CallError>) {
        self.objects.written(key, result);
    }
}

/// The objects whose status a group has, each with whether its required members or groups run: its own, or those of its hierarchy.
/// There, members in flight count as well that are given by their PodGroups.
fn shown(group: &Members, rules: &GroupRules, in_flight: &[PodGroupKey]) -> Vec<(PodGroupKey, bool)> {
    let Some(root) = &rules.composite else {
        return vec![(group.key.clone(), group.running.len() >= rules.min)];
    };
    let of_part = |part: &PodGroupKey| {
        let running = group.running.values().filter_map(|member| member.group.as_ref());
        running.chain(in_flight).filter(|own| *own == part).count()
    };
    root.placed(&of_part).into_iter().map(|(part, is_scheduled)| (part.clone(), is_scheduled)).collect()
}
