//! Room that is held for a group that has failed for long: a stream of single pods cannot take every place that comes free.
//!
//! The required members are nominated to nodes where they fit once pods of lower or equal priority have ended. Nothing is
//! evicted. One group at a time holds room, and for a limited time; as much time as it held room passes before the next one
//! does, so that single pods have all the room at least half of the time. Groups take turns: a group that held room in vain is
//! behind those that wait, and pods that did not end meanwhile are not waited for again while there are others.

use std::collections::BTreeSet;

use berth_api::object::NamespacedName;
use berth_api::object::time::rfc3339;
use berth_engine::{Group, GroupVictims};
use jiff::Timestamp;
use tokio::time::Instant;

use super::super::Scheduler;
use crate::metrics::ReservationResult;
use crate::queue::PodId;
use crate::status::Victim;

#[derive(Default)]
pub(super) struct Reservations {
    /// When the turn of each group that fails may come.
    waiting: BTreeSet<(Instant, PodId)>,
    turn: Option<Turn>,
    /// No turn begins before.
    not_before: Option<Instant>,
}

/// The group that holds room, or does from its next attempt on.
struct Turn {
    entry: PodId,
    held: Option<Held>,
}

struct Held {
    since: Instant,
    until: Instant,
    /// The sentence of the group's condition.
    sentence: String,
    /// The pods that have to end.
    awaited: Vec<Victim>,
}

impl Reservations {
    pub(super) fn next_due(&self) -> Option<Instant> {
        match &self.turn {
            Some(turn) => turn.held.as_ref().map(|held| held.until),
            None => self.waiting.first().map(|(due, _)| self.not_before.map_or(*due, |at| at.max(*due))),
        }
    }

    pub(super) fn holds_room(&self, entry: PodId) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.entry == entry && turn.held.is_some())
    }
}

impl Scheduler {
    /// Holds room for a group that was not placed if it is its turn; otherwise it waits for that. Returns a sentence for its
    /// condition.
    ///
    /// `nominated` are the nominations before the attempt, by the index of the member. With `is_complete`, the required
    /// members have nodes.
    pub(super) fn hold_room(
        &mut self,
        entry: PodId,
        group: &Group<'_>,
        nominated: &[(usize, String)],
        is_complete: bool,
    ) -> Option<String> {
        if is_complete || self.pod_groups.is_preempting(entry) {
            self.leave_reservations(entry, ReservationResult::Ended);
            return None;
        }
        if self.pod_groups.reservations.turn.as_ref().is_none_or(|turn| turn.entry != entry) {
            self.wait_for_turn(entry, Instant::now());
            return None;
        }
        let kept: Vec<_> = nominated.iter().filter(|(_, node)| self.cluster.has_node(node)).collect();
        if self.pod_groups.reservations.holds_room(entry) && kept.len() >= group.min {
            for (at, node) in kept {
                self.cluster.nominate(&group.members[*at], node);
            }
        } else if let Some(found) = self.find_room(entry, group) {
            self.nominate_members(group, found);
        } else {
            self.leave_reservations(entry, ReservationResult::Ended);
            self.wait_for_turn(entry, Instant::now());
            return None;
        }
        let held = self.pod_groups.reservations.turn.as_ref()?.held.as_ref()?;
        Some(held.sentence.clone())
    }

    fn find_room(&mut self, entry: PodId, group: &Group<'_>) -> Option<GroupVictims> {
        let members = self.pod_groups.groups.get(&entry)?;
        let in_flight = members.in_flight.iter().filter_map(|id| self.pods.get(*id));
        let in_flight = in_flight.map(|queued| queued.pod.metadata.namespaced_name());
        let mut staying: Vec<NamespacedName> = members.running.values().cloned().chain(in_flight).collect();
        let n_own = staying.len();
        let mut outlasting = members.outlasting.clone();
        outlasting.retain(|pod| self.runs(pod));
        staying.extend(outlasting.iter().map(|pod| pod.name.clone()));
        self.pod_groups.get_mut(entry)?.outlasting = outlasting;
        let found = self.cluster.reserve_group(group, &staying);
        if found.is_some() || staying.len() == n_own {
            return found;
        }
        self.pod_groups.get_mut(entry)?.outlasting.clear();
        self.cluster.reserve_group(group, &staying[..n_own])
    }

    fn nominate_members(&mut self, group: &Group<'_>, found: GroupVictims) {
        self.clear_nominations(&found.nominations);
        for (pod, node) in group.members.iter().zip(&found.nodes) {
            if let Some(node) = node {
                self.cluster.nominate(pod, node);
            }
        }
        let with_uid = |name: NamespacedName| {
            let uid = self.mirror.uid(name.namespace(), name.name())?;
            Some(Victim { name, uid })
        };
        let awaited = found.victims.into_iter().filter_map(with_uid).collect();
        let (since, limit) = (Instant::now(), self.options.group_reservation);
        let Some(turn) = &mut self.pod_groups.reservations.turn else { return };
        match &mut turn.held {
            Some(held) => held.awaited = awaited,
            None => {
                let shown = rfc3339(Timestamp::now() + limit);
                let sentence = format!(" Room is held for the group until {shown}.");
                turn.held = Some(Held { since, until: since + limit, sentence, awaited });
            }
        }
    }

    fn runs(&self, pod: &Victim) -> bool {
        let (namespace, name) = (pod.name.namespace(), pod.name.name());
        self.mirror.uid(namespace, name).as_ref() == Some(&pod.uid)
            && self.cluster.node_of(namespace, name).is_some()
    }

    fn wait_for_turn(&mut self, entry: PodId, now: Instant) {
        let Some(group) = self.pod_groups.groups.get_mut(&entry) else { return };
        if group.turn_due.is_none() && !self.options.group_reservation.is_zero() {
            let due = now + self.options.group_reserve_after;
            group.turn_due = Some(due);
            self.pod_groups.reservations.waiting.insert((due, entry));
        }
    }

    /// Ends the turn of the group that has held room for long, or begins that of the next one.
    pub(super) fn take_turns(&mut self, now: Instant) {
        if let Some(turn) = &mut self.pod_groups.reservations.turn {
            let entry = turn.entry;
            let Some(held) = turn.held.as_mut().filter(|held| held.until <= now) else { return };
            let awaited = std::mem::take(&mut held.awaited);
            let outlasting: Vec<_> = awaited.into_iter().filter(|pod| self.runs(pod)).collect();
            if let Some(group) = self.pod_groups.get_mut(entry) {
                group.outlasting.extend(outlasting);
            }
            self.free_room(entry, ReservationResult::Expired);
            self.wait_for_turn(entry, now);
            // Its condition says no more that room is held.
            self.queue.activate(entry, now);
        }
        let reservations = &mut self.pod_groups.reservations;
        if reservations.next_due().is_none_or(|due| due > now) {
            return;
        }
        let Some((_, entry)) = reservations.waiting.pop_first() else { return };
        reservations.turn = Some(Turn { entry, held: None });
        if let Some(group) = self.pod_groups.get_mut(entry) {
            group.turn_due = None;
        }
        self.queue.activate(entry, now);
        self.metrics.queued("active", "PodGroupUpdate");
    }

    /// A group does not wait for its turn any more, or its turn ends. The nominations stay as they are.
    pub(super) fn leave_reservations(&mut self, entry: PodId, result: ReservationResult) {
        let now = Instant::now();
        if let Some(group) = self.pod_groups.groups.get_mut(&entry)
            && let Some(due) = group.turn_due.take()
        {
            self.pod_groups.reservations.waiting.remove(&(due, entry));
        }
        let turn = self.pod_groups.reservations.turn.take_if(|turn| turn.entry == entry);
        if let Some(held) = turn.and_then(|turn| turn.held) {
            self.pod_groups.reservations.not_before = Some(now + now.duration_since(held.since));
            self.metrics.pod_group_reserved(result);
        }
    }

    /// As [`Scheduler::leave_reservations`], and room that is held is free.
    pub(super) fn free_room(&mut self, entry: PodId, result: ReservationResult) {
        if self.pod_groups.reservations.holds_room(entry) {
            self.clear_member_nominations(entry);
        }
        self.leave_reservations(entry, result);
    }

    /// Another leader may have held room: groups wait again.
    pub(in crate::scheduler) fn reset_reservations(&mut self) {
        let reservations = std::mem::take(&mut self.pod_groups.reservations);
        self.pod_groups.groups.values_mut().for_each(|group| group.turn_due = None);
        if let Some(turn) = reservations.turn {
            self.clear_member_nominations(turn.entry);
            self.queue.activate(turn.entry, Instant::now());
        }
    }

    /// Whether a node of a group that holds room is deleted.
    pub(in crate::scheduler) fn has_lost_room(&self, entry: PodId) -> bool {
        self.pod_groups.reservations.holds_room(entry) && self.has_lost_nomination(entry)
    }

    pub(super) fn clear_member_nominations(&mut self, entry: PodId) {
        let Some(group) = self.pod_groups.get_mut(entry) else { return };
        let members: Vec<_> = group.pending.union(&group.blocked).copied().collect();
        for id in members {
            if let Some(queued) = self.pods.get(id) {
                let metadata = &queued.pod.metadata;
                self.cluster.clear_nomination(&metadata.namespace, &metadata.name);
                self.write_status(id, |status| status.nominated_node.clear());
            }
        }
    }
}
