//! Room that is held for a group that has failed for long: a stream of single pods cannot take every place that comes free.
//!
//! The required members are nominated to nodes where they fit once pods of lower or equal priority have ended. Nothing is
//! evicted. One group at a time holds room, and for a limited time; as much time as it held room passes before the next one
//! does, so that single pods have all the room at least half of the time. Groups take turns: a group that held room without success is
//! behind those that wait, and pods that did not end meanwhile are not waited for again while there are others.

use berth_api::object::NamespacedName;
use berth_engine::{Group, GroupVictims};
use jiff::Timestamp;
use tokio::time::Instant;

use super::groups::PodGroups;
use crate::context::Context;
use crate::metrics::ReservationResult;
use crate::queue::PodId;

impl PodGroups {
    /// Holds room for a group that was not placed if it is its turn; otherwise it waits for that. Returns a sentence for its
    /// condition.
    ///
    /// `nominated` are the nominations before the attempt, by the index of the member. With `is_complete`, the required
    /// members have nodes.
    pub(crate) fn hold_room(
        &mut self,
        context: &mut Context,
        entry: PodId,
        group: &Group<'_>,
        nominated: &[(usize, String)],
        is_complete: bool,
    ) -> Option<String> {
        let now = Instant::now();
        // No room is held for a group of groups.
        if is_complete || group.composite.is_some() || self.is_preempting(entry) {
            self.leave_reservations(entry, ReservationResult::Ended);
            return None;
        }
        if !self.reservations.has_turn(entry) {
            self.reservations.wait(entry, now);
            return None;
        }
        let kept: Vec<_> =
            nominated.iter().filter(|(_, node)| context.state.cluster.has_node(node)).collect();
        if self.reservations.holds_room(entry) && kept.len() >= group.min {
            for (at, node) in kept {
                context.state.cluster.nominate(&group.members[*at], node);
            }
        } else if let Some(found) = self.find_room(context, entry, group) {
            context.pending.clear_nominations(&mut context.state, &found.nominations);
            for (pod, node) in group.members.iter().zip(&found.nodes) {
                if let Some(node) = node {
                    context.state.cluster.nominate(pod, node);
                }
            }
            let awaited = found.victims.into_iter().filter_map(|name| context.state.victim(name)).collect();
            self.reservations.hold(awaited, now, Timestamp::now());
        } else {
            self.leave_reservations(entry, ReservationResult::Ended);
            self.reservations.wait(entry, now);
            return None;
        }
        self.reservations.sentence()
    }

    fn find_room(&mut self, context: &mut Context, entry: PodId, group: &Group<'_>) -> Option<GroupVictims> {
        let members = self.groups.get_mut(&entry)?;
        let in_flight = members.in_flight.iter().filter_map(|id| context.pending.pods.get(*id));
        let in_flight = in_flight.map(|queued| queued.pod.metadata.namespaced_name());
        let mut staying: Vec<NamespacedName> =
            members.running.values().map(|member| member.name.clone()).chain(in_flight).collect();
        let n_own = staying.len();
        members.outlasting.retain(|pod| context.state.runs(pod));
        staying.extend(members.outlasting.iter().map(|pod| pod.name.clone()));
        let found = context.state.cluster.reserve_group(group, &staying);
        if found.is_some() || staying.len() == n_own {
            return found;
        }
        members.outlasting.clear();
        context.state.cluster.reserve_group(group, &staying[..n_own])
    }

    /// Ends the turn of the group that has held room for long, or begins that of the next one.
    pub(super) fn take_turns(&mut self, context: &mut Context, now: Instant) {
        if let Some((entry, awaited)) = self.reservations.expired(now) {
            let outlasting = awaited.into_iter().filter(|pod| context.state.runs(pod));
            if let Some(group) = self.groups.get_mut(&entry) {
                group.outlasting.extend(outlasting);
            }
            self.free_room(context, entry, ReservationResult::Expired);
            self.reservations.wait(entry, now);
            // Its condition says no more that room is held.
            context.pending.queue.activate(entry, now);
        }
        if let Some(entry) = self.reservations.begin_turn(now) {
            context.pending.queue.activate(entry, now);
            self.metrics.queued("active", "PodGroupUpdate");
        }
    }

    /// A group does not wait for its turn any more, or its turn ends. The nominations stay as they are.
    pub(super) fn leave_reservations(&mut self, entry: PodId, result: ReservationResult) {
        if self.reservations.leave(entry, Instant::now()) {
            self.metrics.pod_group_reserved(result);
        }
    }

    /// As [`PodGroups::leave_reservations`], and room that is held is free.
    pub(super) fn free_room(&mut self, context: &mut Context, entry: PodId, result: ReservationResult) {
        if self.reservations.holds_room(entry) {
            self.clear_nominations(context, entry);
        }
        self.leave_reservations(entry, result);
    }

    /// Another leader may have held room: groups wait again.
    pub(crate) fn reset_reservations(&mut self, context: &mut Context) {
        if let Some(entry) = self.reservations.reset() {
            self.clear_nominations(context, entry);
            context.pending.queue.activate(entry, Instant::now());
        }
    }

    /// Whether a group has to be decided again because of its nominations: victims are gone, or a node is.
    pub(crate) fn has_settled_nominations(&self, context: &Context, entry: PodId) -> bool {
        let has_lost_room =
            || self.reservations.holds_room(entry) && self.has_lost_nomination(context, entry);
        self.is_preempting(entry) && !self.awaits_victims(context, entry) || has_lost_room()
    }

    /// Whether a member is nominated to a deleted node.
    pub(super) fn has_lost_nomination(&self, context: &Context, entry: PodId) -> bool {
        let Some(group) = self.groups.get(&entry) else { return false };
        let mut pending = group.pending.iter().filter_map(|id| context.pending.pods.get(*id));
        pending.any(|queued| context.state.has_lost_node(&queued.pod))
    }

    pub(super) fn clear_nominations(&self, context: &mut Context, entry: PodId) {
        let Some(group) = self.groups.get(&entry) else { return };
        for id in group.pending.union(&group.blocked) {
            if let Some(queued) = context.pending.pods.get(*id) {
                context.state.clear_nomination(&queued.pod);
                context.pending.write_status(*id, |status| status.nominated_node.clear());
            }
        }
    }
}
