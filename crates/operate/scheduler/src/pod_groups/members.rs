//! The members of a pod group.

use std::collections::{BTreeSet, HashMap};

use berth_api::object::group::AgreeingPod;
use berth_api::object::{GroupKey as PodGroupKey, GroupRules, NamespacedName, Pod};
use tokio::time::Instant;

use crate::completion::Binding;
use crate::pending::Preemptions;
use crate::pod_status::Victim;
use crate::queue::PodId;

pub(super) struct Members {
    pub(super) key: PodGroupKey,
    /// Those to be decided, in the order of their arrival.
    pub(super) pending: BTreeSet<PodId>,
    /// Those that are not decided: they have scheduling gates, for example.
    pub(super) blocked: BTreeSet<PodId>,
    /// Those that are assumed on a node.
    pub(super) in_flight: BTreeSet<PodId>,
    /// Those with a node, by uid.
    pub(super) running: HashMap<String, RunningMember>,
    /// Those in flight of which no binding has been sent.
    pub(super) batch: Option<Batch>,
    /// The pods that are evicted for it.
    pub(super) victims: Option<Vec<Victim>>,
    pub(super) preemptions: Preemptions,
    /// Pods that did not end while room was held for it.
    pub(super) outlasting: Vec<Victim>,
    pub(super) is_queued: bool,
    /// It is reported soon that its members wait for others.
    pub(super) is_report_due: bool,
    /// What the annotations of the members say, and their highest priority; none after a member left.
    pub(super) summary: Option<(Option<GroupRules>, i32)>,
}

pub(super) struct RunningMember {
    pub(super) name: NamespacedName,
    /// The group that it names: of a group of groups, one of its parts.
    pub(super) group: Option<PodGroupKey>,
    scheduler_name: String,
    priority: i32,
    preemption_policy: String,
}

impl From<&Pod> for RunningMember {
    fn from(pod: &Pod) -> RunningMember {
        let AgreeingPod { scheduler_name, priority, preemption_policy, .. } = pod.into();
        RunningMember {
            name: pod.metadata.namespaced_name(),
            group: PodGroupKey::of(pod, true),
            scheduler_name: scheduler_name.to_owned(),
            priority,
            preemption_policy: preemption_policy.to_owned(),
        }
    }
}

impl RunningMember {
    /// What the pods of a group agree in.
    pub(super) fn agreeing(&self) -> AgreeingPod<'_> {
        let RunningMember { name, scheduler_name, priority, preemption_policy, .. } = self;
        AgreeingPod { name: name.name(), scheduler_name, priority: *priority, preemption_policy }
    }
}

impl Members {
    pub(super) fn new(key: PodGroupKey) -> Members {
        Members {
            key,
            pending: BTreeSet::new(),
            blocked: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            running: HashMap::new(),
            batch: None,
            victims: None,
            preemptions: Preemptions::default(),
            outlasting: Vec::new(),
            is_queued: false,
            is_report_due: false,
            summary: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.blocked.is_empty() && self.in_flight.is_empty()
    }

    pub(super) fn remove(&mut self, id: PodId) {
        for members in [&mut self.pending, &mut self.blocked, &mut self.in_flight] {
            members.remove(&id);
        }
    }

    /// How many have a node, or are assumed on one.
    pub(super) fn n_placed(&self) -> usize {
        self.running.len() + self.in_flight.len()
    }

    /// Adds a pod that is to be decided.
    pub(super) fn add_pending(&mut self, id: PodId, pod: &Pod, priority: i32) {
        let is_new = !self.pending.contains(&id);
        self.remove(id);
        self.pending.insert(id);
        self.summary = self.summary.take().filter(|_| is_new).map(|(rules, highest)| {
            let own = GroupRules::of_members(&self.key, std::iter::once(pod));
            let rules = match (rules, own) {
                (Some(rules), Some(own)) => Some(rules.and(own)),
                (rules, own) => rules.or(own),
            };
            (rules, highest.max(priority))
        });
    }

    /// Adds a pod that is not decided.
    pub(super) fn add_blocked(&mut self, id: PodId) {
        if self.pending.contains(&id) {
            self.summary = None;
        }
        self.remove(id);
        self.blocked.insert(id);
    }

    /// A member is in flight no more: it is to be decided again.
    pub(super) fn return_to_pending(&mut self, id: PodId) {
        self.remove(id);
        self.pending.insert(id);
        self.summary = None;
    }

    /// Removes a member from the bindings that wait for each other. Returns whether it was one of them.
    pub(super) fn leave_batch(&mut self, id: PodId) -> bool {
        self.batch.as_mut().is_some_and(|batch| batch.members.remove(&id))
    }
}

/// Bindings of a group that are held back: none is sent before all members of the attempt can be bound. Members with
/// volumes are in PreBind until then. If one of them cannot be bound, all are taken back.
///
/// Once the bindings are sent, each counts separately: of those that fail, the pods are decided again as members of a
/// group whose minimum counts those that were bound.
pub(super) struct Batch {
    pub(super) members: BTreeSet<PodId>,
    /// The bindings that can be sent.
    pub(super) ready: Vec<Binding>,
    pub(super) deadline: Option<Instant>,
}

#[cfg(test)]
mod tests {
    use berth_api::object::group::GroupKind;

    use super::*;

    #[test]
    fn a_member_has_one_place() {
        let name = NamespacedName::new("n", "g");
        let mut members = Members::new(PodGroupKey { kind: GroupKind::Scheduling, name });
        let (id, pod) = (PodId(1), Pod::default());
        members.add_pending(id, &pod, 0);
        assert!(!members.is_empty());
        members.summary = Some((None, 5));
        members.add_blocked(id);
        assert_eq!(members.summary, None, "its priority may have been the highest");
        assert!(members.pending.is_empty() && members.blocked.contains(&id));
        members.in_flight.insert(PodId(2));
        members.batch = Some(Batch { members: [PodId(2)].into(), ready: Vec::new(), deadline: None });
        assert_eq!(members.n_placed(), 1);
        assert!(!members.leave_batch(id));
        assert!(members.leave_batch(PodId(2)));
        members.return_to_pending(PodId(2));
        assert_eq!((members.n_placed(), members.pending.len()), (0, 1));
    }
}
