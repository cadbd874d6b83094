//! The turns of groups that fail: which group holds room, and for how long. It does not use the cluster or a clock.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::object::time::rfc3339;
use jiff::Timestamp;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use crate::pod_status::Victim;
use crate::queue::PodId;

/// Which group holds room, and which groups wait for their turn.
pub(super) struct Reservations {
    /// How long a group fails before its turn may come.
    after: Duration,
    /// How long a group holds room at most; zero: never.
    limit: Duration,
    /// When the turn of each group that fails may come.
    waiting: BTreeSet<(Instant, PodId)>,
    due: FxHashMap<PodId, Instant>,
    turn: Option<Turn>,
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
    pub(super) fn new(after: Duration, limit: Duration) -> Reservations {
        Reservations {
            after,
            limit,
            waiting: BTreeSet::new(),
            due: FxHashMap::default(),
            turn: None,
            not_before: None,
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        match &self.turn {
            Some(turn) => turn.held.as_ref().map(|held| held.until),
            None => self.waiting.first().map(|(due, _)| self.not_before.map_or(*due, |at| at.max(*due))),
        }
    }

    pub(super) fn has_turn(&self, entry: PodId) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.entry == entry)
    }

    pub(super) fn holds_room(&self, entry: PodId) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.entry == entry && turn.held.is_some())
    }

    /// The sentence of the condition of the group that holds room.
    pub(super) fn sentence(&self) -> Option<String> {
        Some(self.turn.as_ref()?.held.as_ref()?.sentence.clone())
    }

    /// A group that was not placed waits for its turn.
    pub(super) fn wait(&mut self, entry: PodId, now: Instant) {
        if !self.limit.is_zero() && !self.due.contains_key(&entry) {
            let due = now + self.after;
            self.due.insert(entry, due);
            self.waiting.insert((due, entry));
        }
    }

    /// The group whose turn it is holds room; these pods have to end.
    pub(super) fn hold(&mut self, awaited: Vec<Victim>, now: Instant, time: Timestamp) {
        let Some(turn) = &mut self.turn else { return };
        match &mut turn.held {
            Some(held) => held.awaited = awaited,
            None => {
                let shown = rfc3339(time + self.limit);
                let sentence = format!(" Room is held for the group until {shown}.");
                turn.held = Some(Held { since: now, until: now + self.limit, sentence, awaited });
            }
        }
    }

    /// The group that has held room for long, with the pods that it waited for.
    pub(super) fn expired(&mut self, now: Instant) -> Option<(PodId, Vec<Victim>)> {
        let turn = self.turn.as_mut()?;
        let held = turn.held.as_mut().filter(|held| held.until <= now)?;
        Some((turn.entry, std::mem::take(&mut held.awaited)))
    }

    /// Begins the turn of the next group, if one is due.
    pub(super) fn begin_turn(&mut self, now: Instant) -> Option<PodId> {
        if self.turn.is_some() || self.next_due().is_none_or(|due| due > now) {
            return None;
        }
        let (_, entry) = self.waiting.pop_first()?;
        self.due.remove(&entry);
        self.turn = Some(Turn { entry, held: None });
        Some(entry)
    }

    /// A group does not wait for its turn any more, or its turn ends. Returns whether it held room.
    pub(super) fn leave(&mut self, entry: PodId, now: Instant) -> bool {
        if let Some(due) = self.due.remove(&entry) {
            self.waiting.remove(&(due, entry));
        }
        let turn = self.turn.take_if(|turn| turn.entry == entry);
        let Some(held) = turn.and_then(|turn| turn.held) else { return false };
        self.not_before = Some(now + now.duration_since(held.since));
        true
    }

    /// All groups wait again. Returns the one whose turn it was.
    pub(super) fn reset(&mut self) -> Option<PodId> {
        let before = std::mem::replace(self, Reservations::new(self.after, self.limit));
        before.turn.map(|turn| turn.entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_take_turns_and_single_pods_have_the_room_as_long_as_a_group_had_it() {
        let (minute, start, time) = (Duration::from_secs(60), Instant::now(), Timestamp::UNIX_EPOCH);
        let (first, second) = (PodId(1), PodId(2));
        let mut reservations = Reservations::new(minute, 5 * minute);
        reservations.wait(first, start);
        reservations.wait(second, start + minute / 2);
        reservations.wait(first, start + minute / 2);
        assert_eq!(reservations.next_due(), Some(start + minute), "it waits since its first failure");
        assert_eq!(reservations.begin_turn(start), None);
        let begin = start + 2 * minute;
        assert_eq!(reservations.begin_turn(begin), Some(first));
        assert!(reservations.has_turn(first) && !reservations.holds_room(first));
        reservations.hold(Vec::new(), begin, time);
        assert_eq!(reservations.begin_turn(begin), None, "one group holds room");
        let sentence = reservations.sentence().unwrap();
        assert!(sentence.contains("1970-01-01T00:05:00Z"), "{sentence}");
        assert!(reservations.expired(begin + minute).is_none());
        let end = begin + 5 * minute;
        assert!(matches!(reservations.expired(end), Some((PodId(1), awaited)) if awaited.is_empty()));
        assert!(reservations.leave(first, end));
        assert_eq!(reservations.begin_turn(end), None);
        assert_eq!(reservations.begin_turn(end + 5 * minute), Some(second));
        assert!(!reservations.leave(second, end + 5 * minute), "it held no room");
    }

    #[test]
    fn without_time_to_hold_room_no_group_waits() {
        let now = Instant::now();
        let mut reservations = Reservations::new(Duration::ZERO, Duration::ZERO);
        reservations.wait(PodId(1), now);
        assert_eq!(reservations.next_due(), None);
        assert_eq!(reservations.begin_turn(now), None);
    }
}
