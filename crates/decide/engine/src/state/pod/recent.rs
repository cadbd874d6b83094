//! What was interned for the pods that came last: the pods of a workload have the same rules and labels.

use std::hash::{Hash, Hasher};

use berth_api::object::Pod;
use rustc_hash::FxHasher;

use crate::state::State;
use crate::state::pod::signature::LabelSetId;
use crate::state::rule_set::RuleSetId;

/// Pods in slots by their labels, each in place of the one before.
#[derive(Default)]
pub(in crate::state) struct RecentPods(Vec<Option<RecentPod>>);

struct RecentPod {
    pod: Pod,
    rule_set: RuleSetId,
    label_set: LabelSetId,
}

const N_SLOTS: usize = 512;

/// A copy of the state begins without any.
impl Clone for RecentPods {
    fn clone(&self) -> Self {
        RecentPods::default()
    }
}

/// Labels are what users send. Those that share a slot only take away what it saves.
fn slot(pod: &Pod) -> usize {
    let mut hasher = FxHasher::default();
    (&pod.metadata.namespace, &pod.metadata.labels).hash(&mut hasher);
    hasher.finish() as usize % N_SLOTS
}

impl State {
    /// The rule set and the label set of a pod, each with one more user.
    pub(in crate::state) fn sets_of(&mut self, pod: &Pod) -> (RuleSetId, LabelSetId) {
        let slot = slot(pod);
        if let Some(Some(RecentPod { pod: known, rule_set, label_set })) = self.recent_pods.0.get(slot)
            && self.rule_sets.find_by_id(*rule_set).is_some()
            && self.label_sets.find_by_id(*label_set).is_some()
            && known.is_like(pod)
        {
            let (rule_set, label_set) = (*rule_set, *label_set);
            debug_assert_eq!(self.rule_sets.get(rule_set).key.rules, self.rules_of(pod));
            self.rule_sets.retain(rule_set);
            self.label_sets.retain(label_set);
            return (rule_set, label_set);
        }
        let (rule_set, label_set) = (self.rule_set_of(pod), self.label_set_of(pod));
        self.recent_pods.0.resize_with(N_SLOTS, || None);
        self.recent_pods.0[slot] = Some(RecentPod { pod: pod.clone(), rule_set, label_set });
        (rule_set, label_set)
    }
}
