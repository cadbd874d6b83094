//! Pod groups: their members, and the one entry that each group has in the queue.
//!
//! Members are not in the queue themselves. The entry of a group is active when the required members exist, those with a
//! node counted. It is gated before.

mod attempt;
mod batch;
mod reservation;
mod status;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use berth_api::object::{GroupKey as PodGroupKey, GroupRules, NamespacedName, Pod, PodGroup};
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::Scheduler;
use super::nominations::Preemptions;
use crate::metrics::ReservationResult;
use crate::queue::PodId;
use crate::status::{FailureReason, Victim};
use batch::Batch;
use reservation::Reservations;
use status::{GroupObject, StatusWrites};

/// How long members wait for others before that is reported: most groups are created within moments.
const REPORT_AFTER: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct PodGroups {
    objects: HashMap<PodGroupKey, GroupObject>,
    entries: HashMap<PodGroupKey, PodId>,
    groups: FxHashMap<PodId, Members>,
    /// The groups of pods with a node, by uid.
    running: HashMap<String, PodId>,
    /// When to look at a group again: a batch expires, or members have waited for others.
    due: BTreeSet<(Instant, PodId)>,
    reservations: Reservations,
    statuses: StatusWrites,
}

/// The members of a group.
struct Members {
    key: PodGroupKey,
    /// Those to be decided, in the order of their arrival.
    pending: BTreeSet<PodId>,
    /// Those with scheduling gates or unsupported fields.
    blocked: BTreeSet<PodId>,
    /// Those that are assumed on a node.
    in_flight: BTreeSet<PodId>,
    /// Those with a node, by uid.
    running: HashMap<String, NamespacedName>,
    /// Those in flight of which no binding has been sent.
    batch: Option<Batch>,
    /// The pods that are evicted for it.
    victims: Option<Vec<Victim>>,
    preemptions: Preemptions,
    /// When room may be held for it.
    turn_due: Option<Instant>,
    /// Pods that did not end while room was held for it.
    outlasting: Vec<Victim>,
    is_queued: bool,
    /// It is reported soon that its members wait for others.
    is_report_due: bool,
    /// What the annotations of the members say, and their highest priority; none after a member left.
    summary: Option<(Option<GroupRules>, i32)>,
}

impl Members {
    fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.blocked.is_empty() && self.in_flight.is_empty()
    }

    fn remove(&mut self, id: PodId) {
        for members in [&mut self.pending, &mut self.blocked, &mut self.in_flight] {
            members.remove(&id);
        }
    }

    /// How many have a node, or are assumed on one.
    fn n_placed(&self) -> usize {
        self.running.len() + self.in_flight.len()
    }
}

impl PodGroups {
    pub(super) fn is_entry(&self, id: PodId) -> bool {
        self.groups.contains_key(&id)
    }

    /// The first member to be decided of the group with this entry.
    pub(super) fn first_pending(&self, entry: PodId) -> Option<PodId> {
        self.groups.get(&entry)?.pending.first().copied()
    }

    /// Whether victims of a group are awaited.
    pub(super) fn is_preempting(&self, entry: PodId) -> bool {
        self.groups.get(&entry).is_some_and(|group| group.victims.is_some())
    }

    /// Victims that another leader may have left are chosen again.
    pub(super) fn forget_victims(&mut self) {
        self.groups.values_mut().for_each(|group| group.victims = None);
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = self.due.first().map(|(at, _)| *at);
        due.into_iter().chain(self.reservations.next_due()).min()
    }

    fn get_mut(&mut self, entry: PodId) -> Option<&mut Members> {
        self.groups.get_mut(&entry)
    }

    fn add_running(&mut self, entry: PodId, pod: &Pod) {
        if let Some(group) = self.groups.get_mut(&entry) {
            group.running.insert(pod.metadata.uid.clone(), pod.metadata.namespaced_name());
            self.running.insert(pod.metadata.uid.clone(), entry);
        }
    }
}

impl Scheduler {
    /// The group that a pod is scheduled with.
    fn pod_group_of(&self, pod: &Pod) -> Option<PodGroupKey> {
        let key = PodGroupKey::of(pod, self.options.settings.extensions)?;
        let is_basic = self.pod_groups.objects.get(&key).is_some_and(|object| object.rules.is_none());
        (!is_basic).then_some(key)
    }

    fn pod_group_entry(&mut self, key: &PodGroupKey) -> PodId {
        let groups = &mut self.pod_groups;
        if let Some(entry) = groups.entries.get(key) {
            return *entry;
        }
        let entry = self.pods.new_id();
        let group = Members {
            key: key.clone(),
            pending: BTreeSet::new(),
            blocked: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            running: HashMap::new(),
            batch: None,
            victims: None,
            preemptions: Preemptions::default(),
            turn_due: None,
            outlasting: Vec::new(),
            is_queued: false,
            is_report_due: false,
            summary: None,
        };
        groups.groups.insert(entry, group);
        groups.entries.insert(key.clone(), entry);
        entry
    }

    /// The entry in the queue by which a pod is decided: its own, or that of its group.
    pub(super) fn entry_of(&self, id: PodId) -> PodId {
        self.pods.get(id).and_then(|queued| queued.group).unwrap_or(id)
    }

    /// Adds a pending pod that is not in the queue to its group. Returns false if it has none.
    pub(super) fn join_pod_group(&mut self, id: PodId) -> bool {
        let Some(key) = self.pods.get(id).and_then(|queued| self.pod_group_of(&queued.pod)) else {
            return false;
        };
        let entry = self.pod_group_entry(&key);
        if let Some(queued) = self.pods.get_mut(id) {
            queued.group = Some(entry);
        }
        if let Some(group) = self.pod_groups.get_mut(entry)
            && !std::mem::replace(&mut group.is_queued, true)
        {
            self.queue.add(entry, 0, true);
        }
        self.classify_member(entry, id);
        self.settle_pod_group(entry);
        true
    }

    fn classify_member(&mut self, entry: PodId, id: PodId) {
        let Some(pod) = self.pods.get(id).map(|queued| queued.pod.clone()) else { return };
        let is_blocked = self.is_gated(&pod) || self.park_if_unsupported(id);
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        let is_new = !group.pending.contains(&id);
        group.remove(id);
        if is_blocked {
            group.blocked.insert(id);
            if !is_new {
                group.summary = None;
            }
            return;
        }
        group.pending.insert(id);
        group.summary = group.summary.take().filter(|_| is_new).map(|(rules, priority)| {
            let own = GroupRules::of_members(&group.key, std::iter::once(&*pod));
            let rules = match (rules, own) {
                (Some(rules), Some(own)) => Some(rules.and(own)),
                (rules, own) => rules.or(own),
            };
            (rules, priority.max(pod.spec.priority.unwrap_or(0)))
        });
    }

    /// A changed pod may belong to another group, or to none. Returns false if it neither was nor is a member.
    pub(super) fn regroup_member(&mut self, id: PodId) -> bool {
        let Some(queued) = self.pods.get(id) else { return false };
        let (pod, wanted) = (queued.pod.clone(), self.pod_group_of(&queued.pod));
        let entry = queued.group;
        match (entry, &wanted) {
            (None, None) => return false,
            (Some(entry), Some(key)) if self.pod_groups.entries.get(key) == Some(&entry) => {
                self.classify_member(entry, id);
                self.settle_pod_group(entry);
                return true;
            }
            (Some(entry), _) => {
                if let Some(queued) = self.pods.get_mut(id) {
                    queued.group = None;
                }
                self.leave_pod_group(entry, id, &pod);
            }
            (None, Some(_)) => self.queue.remove(id, Instant::now()),
        }
        if !self.join_pod_group(id) {
            self.queue.add(id, pod.spec.priority.unwrap_or(0), self.is_gated(&pod));
        }
        true
    }

    /// A member is not pending any more, or belongs to another group.
    pub(super) fn leave_pod_group(&mut self, entry: PodId, id: PodId, pod: &Pod) {
        let is_placed = self.mirror.is_placed(pod);
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        group.remove(id);
        group.summary = None;
        if is_placed {
            self.pod_groups.add_running(entry, pod);
        }
        self.leave_batch(entry, id);
        self.settle_pod_group(entry);
    }

    /// A pod with a node that is not in the queue.
    pub(super) fn placed_pod_applied(&mut self, pod: &Pod) {
        let key = PodGroupKey::of(pod, self.options.settings.extensions);
        let before = self.pod_groups.running.get(&pod.metadata.uid).copied();
        if key.is_none() && before.is_none() {
            return;
        }
        let entry = key.map(|key| self.pod_group_entry(&key));
        if entry != before {
            self.placed_pod_deleted(&pod.metadata.uid);
            if let Some(entry) = entry {
                self.pod_groups.add_running(entry, pod);
                self.settle_pod_group(entry);
            }
        }
    }

    /// A pod with a node was deleted, or has ended.
    pub(super) fn placed_pod_deleted(&mut self, uid: &str) {
        let Some(entry) = self.pod_groups.running.remove(uid) else { return };
        if let Some(group) = self.pod_groups.get_mut(entry) {
            group.running.remove(uid);
        }
        self.settle_pod_group(entry);
    }

    pub(super) fn pod_group_applied(&mut self, key: PodGroupKey, object: &PodGroup) {
        let before = self.pod_groups.objects.remove(&key);
        let rules_before = before.as_ref().map(|before| before.rules.clone());
        let object = GroupObject::new(object, before);
        let rules = Some(object.rules.clone());
        self.pod_groups.objects.insert(key.clone(), object);
        if rules != rules_before {
            self.pod_group_changed(&key, [rules_before, rules].contains(&Some(None)));
        }
    }

    pub(super) fn pod_group_deleted(&mut self, key: &PodGroupKey) {
        let before = self.pod_groups.objects.remove(key);
        self.pod_group_changed(key, before.is_some_and(|before| before.rules.is_none()));
    }

    /// With `is_regrouped`, pods of this group are placed one by one, or were.
    fn pod_group_changed(&mut self, key: &PodGroupKey, is_regrouped: bool) {
        if is_regrouped {
            let extensions = self.options.settings.extensions;
            let named = |id: &PodId| {
                let queued = self.pods.get(*id).filter(|queued| queued.binding.is_none());
                queued.and_then(|queued| PodGroupKey::of(&queued.pod, extensions)).as_ref() == Some(key)
            };
            let pods: Vec<_> = self.pods.ids().filter(named).collect();
            for id in pods {
                self.regroup_member(id);
            }
        }
        if let Some(entry) = self.pod_groups.entries.get(key) {
            self.settle_pod_group(*entry);
        }
    }

    /// What a group requires.
    ///
    /// # Errors
    /// Why its members are not decided.
    fn pod_group_rules(&mut self, entry: PodId) -> Result<GroupRules, String> {
        let (pods, groups) = (&self.pods, &mut self.pod_groups);
        let Some(group) = groups.groups.get_mut(&entry) else { return Err(String::new()) };
        let (rules, _) = group.summary.get_or_insert_with(|| {
            let members = group.pending.iter().filter_map(|id| Some(&*pods.get(*id)?.pod));
            let priority = members.clone().map(|pod| pod.spec.priority.unwrap_or(0)).max();
            (GroupRules::of_members(&group.key, members), priority.unwrap_or(0))
        });
        let rules = match groups.objects.get(&group.key) {
            Some(object) => object.rules.clone(),
            None => rules.clone(),
        };
        let Some(rules) = rules else { return Err("its PodGroup does not exist: create it".to_owned()) };
        let n = group.pending.len() + group.n_placed();
        if n < rules.min { Err(format!("{n} of at least {} pods exist", rules.min)) } else { Ok(rules) }
    }

    /// Moves the entry of a group to where it belongs after a change of the group.
    fn settle_pod_group(&mut self, entry: PodId) {
        let now = Instant::now();
        let rules = self.pod_group_rules(entry);
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        if let Ok(rules) = &rules
            && group.running.len() >= rules.min
        {
            self.show_scheduled(entry);
        }
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        if group.batch.is_some() {
            return;
        }
        if group.pending.is_empty() || rules.is_err() {
            self.free_room(entry, ReservationResult::Ended);
        }
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        if group.is_empty() {
            group.victims = None;
            if std::mem::replace(&mut group.is_queued, false) {
                self.queue.remove(entry, now);
            }
            if group.running.is_empty() {
                let key = group.key.clone();
                self.pod_groups.groups.remove(&entry);
                self.pod_groups.entries.remove(&key);
            }
            return;
        }
        if group.pending.is_empty() {
            // While bindings are in flight, the entry is, too.
            if group.in_flight.is_empty() {
                self.queue.gate(entry, now);
            }
            return;
        }
        let priority = group.summary.as_ref().map_or(0, |(_, priority)| *priority);
        self.queue.set_priority(entry, priority);
        let is_new_wait = rules.is_err() && !std::mem::replace(&mut group.is_report_due, true);
        if rules.is_ok() {
            group.is_report_due = false;
            self.queue.release_group(entry, now);
            self.queue.activate(entry, now);
            self.metrics.queued("active", "PodGroupUpdate");
        } else {
            self.queue.gate(entry, now);
            if is_new_wait {
                self.pod_groups.due.insert((now + REPORT_AFTER, entry));
            }
        }
    }

    /// Ends batches and reservations whose time is over, and reports members that wait for others.
    pub(super) fn expire_pod_groups(&mut self, now: Instant) {
        self.take_turns(now);
        while let Some((_, entry)) = self.pod_groups.due.first().copied().filter(|(at, _)| *at <= now) {
            self.pod_groups.due.pop_first();
            let Some(group) = self.pod_groups.get_mut(entry) else { continue };
            if let Some(batch) = &group.batch {
                if batch.deadline.is_some_and(|deadline| deadline <= now) {
                    self.take_back(entry, Some("volumes of members are not bound in time"));
                }
                continue;
            }
            group.is_report_due = false;
            let Err(why) = self.pod_group_rules(entry) else { continue };
            let Some(group) = self.pod_groups.get_mut(entry) else { continue };
            let (message, pending) = (format!("{}: {why}", group.key), group.pending.clone());
            for id in pending {
                self.write_status(id, |status| {
                    status.reason = FailureReason::Unschedulable.as_str().to_owned();
                    status.message.clone_from(&message);
                });
            }
            self.show_unscheduled(entry, FailureReason::Unschedulable, &why);
        }
    }
}
