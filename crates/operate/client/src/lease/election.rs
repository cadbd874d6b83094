//! The rules of the election, without a clock and without a server.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

/// The leader election fields of a `coordination.k8s.io/v1` Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// `spec.holderIdentity`; empty without a leader.
    pub(super) holder: String,
    /// `spec.leaseDurationSeconds`.
    pub(super) duration: Duration,
    /// `spec.renewTime`, as text: it is the holder's clock, and is only compared with itself.
    pub(super) renewed: String,
    /// `spec.leaseTransitions`.
    pub(super) transitions: i64,
}

impl Record {
    pub(super) fn of(lease: &Value) -> Record {
        let text = |path| lease.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |path| lease.pointer(path).and_then(Value::as_i64).unwrap_or(0).max(0);
        Record {
            holder: text("/spec/holderIdentity"),
            duration: Duration::from_secs(number("/spec/leaseDurationSeconds").unsigned_abs()),
            renewed: text("/spec/renewTime"),
            transitions: number("/spec/leaseTransitions"),
        }
    }
}

/// The lease as this process has observed it.
#[derive(Debug, Default)]
pub(super) struct Election {
    /// The record as last seen, and when it was first seen to be so. Only this clock counts: the holder's may be
    /// wrong by hours.
    observed: Option<(Record, Instant)>,
}

impl Election {
    pub(super) fn observe(&mut self, record: Record, now: Instant) {
        match &self.observed {
            Some((known, _)) if *known == record => {}
            _ => self.observed = Some((record, now)),
        }
    }

    /// Whether `identity` may acquire the lease as last observed: it has no holder, `identity` is its holder, or the holder
    /// has not renewed it for its duration.
    pub(super) fn may_hold(&self, identity: &str, now: Instant) -> bool {
        match &self.observed {
            None => true,
            Some((record, since)) => {
                record.holder.is_empty() || record.holder == identity || now >= *since + record.duration
            }
        }
    }

    /// When another holder's lease expires unless it is renewed.
    pub(super) fn free_at(&self, identity: &str) -> Option<Instant> {
        let (record, since) = self.observed.as_ref()?;
        (record.holder != identity && !record.holder.is_empty()).then(|| *since + record.duration)
    }

    pub(super) fn holder(&self) -> &str {
        self.observed.as_ref().map(|(record, _)| record.holder.as_str()).unwrap_or_default()
    }
}

/// The lease with a new holder (none: an empty one), everything else as it was.
pub(super) fn held_by(mut lease: Value, holder: &str, duration: Duration, time: &str) -> Value {
    let before = Record::of(&lease);
    if !lease.get("spec").is_some_and(Value::is_object) {
        lease["spec"] = Value::Object(Map::new());
    }
    let spec = &mut lease["spec"];
    spec["holderIdentity"] = json!(holder);
    spec["leaseDurationSeconds"] = json!(duration.as_secs().max(1));
    spec["renewTime"] = json!(time);
    if before.holder != holder {
        spec["acquireTime"] = json!(time);
        let is_first = before == Record::default();
        spec["leaseTransitions"] = json!(before.transitions + i64::from(!is_first && !holder.is_empty()));
    }
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, renewed: &str) -> Record {
        Record {
            holder: holder.into(),
            duration: Duration::from_secs(15),
            renewed: renewed.into(),
            transitions: 0,
        }
    }

    #[test]
    fn a_lease_is_taken_over_only_after_its_duration_without_renewal() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut election = Election::default();
        assert!(election.may_hold("b", at(0)));
        // The holder's clock is years behind, which must not matter.
        election.observe(record("a", "2001-01-01T00:00:00.000000Z"), at(0));
        assert!(!election.may_hold("b", at(14)));
        assert!(election.may_hold("a", at(14)));
        election.observe(record("a", "2001-01-01T00:00:02.000000Z"), at(14));
        assert!(!election.may_hold("b", at(28)));
        election.observe(record("a", "2001-01-01T00:00:02.000000Z"), at(28));
        assert!(election.may_hold("b", at(29)));
        election.observe(record("", "2001-01-01T00:00:04.000000Z"), at(29));
        assert!(election.may_hold("b", at(29)));
    }

    #[test]
    fn writing_the_lease_keeps_what_it_does_not_know_and_counts_transitions() {
        let duration = Duration::from_secs(15);
        let lease = json!({"metadata": {"name": "l", "labels": {"x": "y"}}, "spec": {"strategy": "s"}});
        let lease = held_by(lease, "a", duration, "t1");
        assert_eq!(lease["spec"]["leaseTransitions"], 0);
        let renewed = held_by(lease, "a", duration, "t2");
        assert_eq!(
            (&renewed["spec"]["acquireTime"], &renewed["spec"]["renewTime"]),
            (&json!("t1"), &json!("t2"))
        );
        let taken = held_by(renewed, "b", duration, "t3");
        assert_eq!(taken["spec"]["leaseTransitions"], 1);
        assert_eq!(
            (&taken["metadata"]["labels"]["x"], &taken["spec"]["strategy"]),
            (&json!("y"), &json!("s"))
        );
        let released = held_by(taken, "", duration, "t4");
        assert_eq!(released["spec"]["leaseTransitions"], 1);
    }
}
