//! What happened over the time of journals: decisions, evictions, pending pods and broken rules.

use std::collections::HashSet;

use berth_api::object::{Condition, NamespacedName, Pod, find_condition, time};
use berth_input::journal::Entry;
use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, Serializer};

use super::JournalReplay;

/// Most intervals before two become one.
const MAX_INTERVALS: usize = 120;

/// The time of journals in intervals of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The length of an interval in seconds: a power of two.
    pub seconds: i64,
    /// The intervals, in order; there is none before the state is complete.
    pub intervals: Vec<Interval>,
}

/// What happened in an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interval {
    #[serde(serialize_with = "seconds")]
    pub begin: Timestamp,
    /// Decisions about pods, those that found no node included.
    pub n_decisions: usize,
    /// Pods that were evicted or preempted.
    pub n_evictions: usize,
    /// Pods without a node at its end.
    pub n_pending: usize,
    /// Required rules of running pods that do not hold at its end.
    pub n_broken_rules: usize,
}

fn seconds<S: Serializer>(begin: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time::rfc3339(*begin))
}

/// Makes a timeline while journals are replayed.
#[derive(Debug, Default)]
pub struct TimelineRecorder {
    timeline: Timeline,
    /// Pods whose eviction is counted, while they have a node.
    evicted: HashSet<NamespacedName>,
    /// Pending pods and broken rules, if nothing has changed since they were counted.
    counted: Option<(usize, usize)>,
}

impl TimelineRecorder {
    /// Counts an entry that is applied to `replay` next.
    pub fn add(&mut self, replay: &mut JournalReplay, entry: &Entry) {
        if let Entry::Time(now) = entry {
            if replay.is_complete() {
                let counted = &mut self.counted;
                self.timeline.advance(*now, || *counted.get_or_insert_with(|| count(replay)));
            }
            return;
        }
        self.counted = None;
        match entry {
            // Each file of a recording begins with what exists already.
            Entry::Complete {} => self.timeline.begin(replay.now(), 1),
            Entry::RemovePod(name) => _ = self.evicted.remove(name),
            _ if !replay.is_complete() => {}
            Entry::Decision(_) => self.timeline.add_decisions(1),
            Entry::GroupDecision(group, _) => self.timeline.add_decisions(group.pods.len()),
            Entry::Preemption(preemption) => self.evict(&preemption.victims),
            Entry::GroupPreemption(_, result) => self.evict(&result.victims),
            Entry::Pod(pod) if is_evicted(pod) => self.evict(&[pod.metadata.namespaced_name()]),
            _ => {}
        }
    }

    /// Ends a journal; the next one begins with the same state.
    pub fn end(&mut self, replay: &mut JournalReplay) {
        if replay.is_complete() {
            let counted = *self.counted.get_or_insert_with(|| count(replay));
            self.timeline.set_end(counted);
        }
    }

    pub fn timeline(self) -> Timeline {
        self.timeline
    }

    fn evict(&mut self, pods: &[NamespacedName]) {
        let n_new = pods.iter().filter(|name| self.evicted.insert((*name).clone())).count();
        self.timeline.add_evictions(n_new);
    }
}

fn count(replay: &mut JournalReplay) -> (usize, usize) {
    (replay.n_pending(), replay.cluster().audit().len())
}

/// Whether the pod is being evicted or preempted, or was.
pub fn is_evicted(pod: &Pod) -> bool {
    find_condition(&pod.status.conditions, "DisruptionTarget").is_some_and(Condition::is_true)
}

impl Interval {
    fn new(begin: Timestamp) -> Interval {
        Interval { begin, n_decisions: 0, n_evictions: 0, n_pending: 0, n_broken_rules: 0 }
    }
}

impl Timeline {
    /// Begins the first interval of a length, unless there is one.
    pub fn begin(&mut self, now: Timestamp, seconds: i64) {
        if self.intervals.is_empty() {
            self.seconds = seconds;
            self.intervals.push(Interval::new(now));
        }
    }

    /// Ends the intervals until a time. `count` counts the pending pods and the broken rules, when an interval ends.
    pub fn advance(&mut self, now: Timestamp, mut count: impl FnMut() -> (usize, usize)) {
        while let Some(last) = self.intervals.last() {
            let (begin, seconds) = (last.begin, self.seconds);
            if now.duration_since(begin).as_secs() < seconds {
                return;
            }
            let Ok(end) = begin.checked_add(SignedDuration::from_secs(seconds)) else { return };
            self.set_end(count());
            self.intervals.push(Interval::new(end));
            self.shorten();
        }
    }

    /// Decisions in the last interval.
    pub fn add_decisions(&mut self, n: usize) {
        self.intervals.last_mut().into_iter().for_each(|last| last.n_decisions += n);
    }

    /// Evictions in the last interval.
    pub fn add_evictions(&mut self, n: usize) {
        self.intervals.last_mut().into_iter().for_each(|last| last.n_evictions += n);
    }

    /// The pending pods and the broken rules at the end of the last interval.
    pub fn set_end(&mut self, (n_pending, n_broken_rules): (usize, usize)) {
        let last = self.intervals.last_mut();
        last.into_iter().for_each(|last| (last.n_pending, last.n_broken_rules) = (n_pending, n_broken_rules));
    }

    /// Makes one interval of two, if there are too many. The last one has just begun and stays alone.
    fn shorten(&mut self) {
        if self.intervals.len() <= MAX_INTERVALS {
            return;
        }
        let join = |pair: &[Interval]| {
            let last = pair.last().expect("a chunk is not empty");
            Interval {
                begin: pair[0].begin,
                n_decisions: pair.iter().map(|interval| interval.n_decisions).sum(),
                n_evictions: pair.iter().map(|interval| interval.n_evictions).sum(),
                ..last.clone()
            }
        };
        self.intervals = self.intervals.chunks(2).map(join).collect();
        self.seconds *= 2;
    }
}

#[cfg(test)]
mod tests {
    use berth_engine::Settings;
    use berth_input::journal::{Header, JOURNAL_VERSION};

    use super::*;

    #[test]
    fn long_journals_have_longer_intervals_and_lose_nothing() {
        let header = Header { version: JOURNAL_VERSION, ..Header::default() };
        let mut replay = JournalReplay::new(&header, Settings::default()).unwrap();
        let mut recorder = TimelineRecorder::default();
        let second = |second| Entry::Time(Timestamp::from_second(second).unwrap());
        let decision = || Entry::Decision(Box::default());
        let mut entries = vec![second(0), Entry::Complete {}];
        entries.extend((0..1000).flat_map(|i| [second(i), decision()]));
        // A pause, and times that go back or cannot be added to.
        entries.extend([second(50_000), decision(), second(7), decision()]);
        entries.extend([Entry::Time(Timestamp::MAX), decision()]);
        for entry in entries {
            recorder.add(&mut replay, &entry);
            replay.apply(entry).unwrap();
        }
        recorder.end(&mut replay);
        let Timeline { seconds, intervals } = recorder.timeline();
        assert!(intervals.len() <= MAX_INTERVALS, "{}", intervals.len());
        assert_eq!(intervals.iter().map(|interval| interval.n_decisions).sum::<usize>(), 1003);
        let begins: Vec<i64> = intervals.iter().map(|interval| interval.begin.as_second()).collect();
        assert!(begins.windows(2).all(|pair| pair[1] - pair[0] == seconds), "{seconds}: {begins:?}");
    }
}
